"""Declared mirrors that go round, or meet: found from what they say."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus import Flow, Mirror
from databus.core.findings import Level
from databus.kafka.selection import common_name, samples
from databus.ops.mirror.loops import findings_beside, problems


def way(source: str, target: str, topics: tuple[str, ...] = ("shop.*",), **options: Any) -> Flow:
    return Mirror(
        **{
            "name": f"{source}_{target}",
            "source_conn_id": source,
            "target_conn_id": target,
            "topics": topics,
            **options,
        }
    )


def ring(**options: Any) -> list[Flow]:
    return [way("a", "b", **options), way("b", "c", **options), way("c", "a", **options)]


def mesh(**options: Any) -> list[Flow]:
    return [way(one, other, **options) for one in "abc" for other in "abc" if one != other]


PREFIX = {"policy": "prefix"}
CASES: dict[str, tuple[list[Flow], set[str]]] = {
    "one way": ([way("a", "b")], set()),
    "there and back": ([way("a", "b"), way("b", "a")], {"mirror_loop"}),
    "of other topics": ([way("a", "b"), way("b", "a", ("stock.*",))], set()),
    "of overlapping patterns": ([way("a", "b", ("*.orders",)), way("b", "a", ("shop.*",))], {"mirror_loop"}),
    "of one excluded topic": ([way("a", "b", ("t",)), way("b", "a", ("*",), exclude_topics=("t",))], set()),
    "two ways": ([way("a", "b", two_way="b_a"), way("b", "a", two_way="a_b")], set()),
    "two ways, one of which does not know": ([way("a", "b", two_way="b_a"), way("b", "a")], {"mirror_loop"}),
    "prefixes of all topics": ([way("a", "b", ("*",), **PREFIX), way("b", "a", ("*",), **PREFIX)], {"mirror_loop"}),
    "prefixes of own topics": ([way("a", "b", **PREFIX), way("b", "a", **PREFIX)], set()),
    "prefix and back of what has it": ([way("a", "b", **PREFIX), way("b", "a", ("a.*",))], set()),
    "prefix and back without it": (
        [way("a", "b", **PREFIX), way("b", "a", ("a.shop.x",), renames={"a.shop.x": "shop.x"})], {"mirror_loop"},
    ),
    "regular expressions": ([way("a", "b", (r"re:shop\..+",)), way("b", "a", ("re:(shop|stock).*",))], {"mirror_loop"}),
    "a ring": (ring(), {"mirror_loop"}),
    "a ring with origins": (ring(origin=True), set()),
    "a ring that is open": (ring()[:2], set()),
    "a mesh": (mesh(), {"mirror_loop", "mirror_twice"}),
    "a mesh with origins": (mesh(origin=True), {"mirror_twice"}),
    "a mesh of own records": (mesh(forward=False), set()),
    "a hub with two ways": (
        [way("a", "hub", origin=True), way("hub", "a", origin=True), way("b", "hub", origin=True),
         way("hub", "b", origin=True)], set(),
    ),
    "twice the same": ([way("a", "b"), way("a", "b", ("shop.orders",), name="again")], {"mirror_twice"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_goes_round_or_comes_twice_is_found(case: str) -> None:
    flows, expected = CASES[case]
    found = problems(flows)
    assert {problem.code for problem in found} == expected
    for problem in found:
        assert problem.hint
        assert all(name in problem.message for name in problem.mirrors)


def test_a_loop_is_told_with_its_places() -> None:
    (found,) = problems([way("east", "west", ("orders",)), way("west", "east", ("*",))])
    assert "orders on east → orders on west → orders on east" in found.message
    assert set(found.mirrors) == {"east_west", "west_east"}


def test_a_run_finds_it_beside_the_mirrors_of_its_folder(tmp_path: Path) -> None:
    told = "from databus import Mirror\nm = Mirror(name='back', source_conn_id='b', target_conn_id='a', topics='*')\n"
    (tmp_path / "back.py").write_text(told)
    (tmp_path / "other.py").write_text("from databus import Flow\nraise RuntimeError('not read')\n")
    (found,) = findings_beside(way("a", "b"), tmp_path)
    assert (found.level, found.code) == (Level.ERROR, "mirror_loop")
    assert findings_beside(way("a", "c"), tmp_path) == []


_PIECES = st.lists(st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[!a]"]), max_size=5).map("".join)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(one=_PIECES, other=_PIECES, name=st.text("ab.", min_size=1, max_size=5))
def test_a_common_name_is_found_where_there_is_one(one: str, other: str, name: str) -> None:
    found = common_name(one, other)
    if found is not None:
        assert fnmatchcase(found, one)
        assert fnmatchcase(found, other)
    else:
        assert not (fnmatchcase(name, one) and fnmatchcase(name, other))


@pytest.mark.parametrize("pattern", ["shop", "shop.*", "?", "*", r"re:shop\.[a-z]+", r"re:a.*|b\d+", "re:(x|y)"])
def test_a_sample_is_selected_by_its_pattern(pattern: str) -> None:
    assert samples(pattern)
