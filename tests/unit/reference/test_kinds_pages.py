"""Pages of kinds: every public class is on one, its example builds it, and types read as words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

import pytest

import databus
from databus.core.spec import Spec
from databus.core.stored_options import Duration
from databus.registry import GROUPS
from tests.reference.kind_examples import EXAMPLES
from tests.reference.kinds_pages import HEADS, classes_of, kind_text
from tests.reference.option_types import default_text, options_of, type_text, unit_text

PUBLIC = [name for name in databus.__all__ if isinstance(getattr(databus, name), type)]
SHOWN = [name for group in HEADS for name in classes_of(group)]


def test_every_public_class_and_every_group_has_its_place() -> None:
    assert sorted(SHOWN) == sorted(PUBLIC)
    assert set(GROUPS) <= set(HEADS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_builds_its_kind(name: str) -> None:
    known = {each: getattr(databus, each) for each in databus.__all__} | {"timedelta": timedelta}
    assert type(eval(EXAMPLES[name], known)).__name__ == name


def test_every_kind_has_an_example() -> None:
    assert [name for group in HEADS if group != "bases" for name in classes_of(group) if name not in EXAMPLES] == []


@pytest.mark.parametrize("name", SHOWN)
def test_every_option_that_a_person_may_write_is_listed_once(name: str) -> None:
    kind, text = getattr(databus, name), kind_text(name)
    options = [option for option, *_ in options_of(kind)]
    if issubclass(kind, Spec):
        assert set(kind.option_names()) - kind.unused <= set(options)
    assert all(text.count(f"\n* **`{option}`** (") == 1 for option in options)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (str, "text"),
        (int | None, "whole number or None"),
        (tuple[str, ...], "tuple of texts"),
        (tuple[tuple[int, str], ...], "tuple of (whole number, text)"),
        (Mapping[str, Any], "mapping of text to anything"),
        (Literal["a", "b", "c"], '`"a"`, `"b"` or `"c"`'),
        (Duration | None, "timedelta or None"),
    ],
)
def test_a_type_in_words(annotation: Any, words: str) -> None:
    assert type_text(annotation) == words


def test_defaults_and_units() -> None:
    assert [default_text(v) for v in (timedelta(hours=6), 200_000, "", ("a",), None)] == [
        "6 h", "200,000", '`""`', '`("a",)`', "`None`",
    ]  # fmt: skip
    assert unit_text("max_bytes_per_s", int | None) == "bytes per second"
    assert unit_text("chunk_rows", int) == "rows"
    assert unit_text("slots", int) == unit_text("rows", str) == ""
