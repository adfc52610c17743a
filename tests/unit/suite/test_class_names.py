"""Names of the product's classes: each is one class's, and says a thing."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from tests.unit.suite.definitions import definitions

_TWICE = {
    "Change": "the consumer's is a public name; the one of traces is what a search finds",
    "Changes": "the consumer's is a public name; the one of splits is what a lane writes",
    "Command": "the Redis library's is a public name, as Redis calls it; the sandbox's is one to start a process",
    "Elasticsearch": "the sink is a public name; the sandbox's server is called as the program is",
    "Kafka": "the sink is a public name; the sandbox's server is called as the program is",
    "Key": "the Redis library's is a public name, as Redis calls it; the sink's is a document's",
    "Split": "the transform is a public name, as others call it; the split of a source is what Spark calls its input",
    "Stream": "the Redis library's is a public name, as Redis calls it; the sandbox's server is called as its command",
    "Transaction": "public names both: the consumer's of a source's commit, the Redis library's of MULTI and EXEC",
}
"""Names that two classes have, and why."""

_SAY_NOTHING = frozenset(
    {
        "Asked", "Carried", "Changed", "Claimed", "Closed", "Compared", "Decoded", "Delivered", "Emptied", "Followed",
        "Following", "Judged", "Kept", "Known", "Moved", "Needed", "Noted", "Observed", "Owed", "Passed", "Refused",
        "Renamed", "Replaced", "Said", "Secured", "Seen", "Shared", "Sought", "Stored", "Taken", "Told", "Wanted",
        "Watched", "Written",
    }
)  # fmt: skip
"""Participles that tell what was done and not to what."""

_PUBLIC = frozenset({"Seen"})
"""Public name of the consumer, as people call what they have seen."""


@cache
def classes() -> dict[str, list[str]]:
    """Return the name of each class of the product, private and nested ones too, with the files that define it."""
    found = defaultdict(list)
    for each in definitions():
        if each.is_class:
            found[each.name].append(f"{each.file}:{each.line}")
    return found


def test_one_name_is_one_class() -> None:
    assert {name: places for name, places in classes().items() if len(places) > 1 and name not in _TWICE} == {}


def test_exceptions_are_still_some() -> None:
    assert {name for name in _TWICE if len(classes()[name]) < 2} == set()


def test_names_are_nouns() -> None:
    assert {name: places for name, places in classes().items() if name.lstrip("_") in _SAY_NOTHING - _PUBLIC} == {}
