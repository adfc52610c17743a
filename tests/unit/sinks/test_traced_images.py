"""Rows before and after a change, out of values in the forms that sinks write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from databus.core.trace import RowImages
from databus.sinks.kafka.tracing.images import LARGEST_BYTES, images_of

OLD, NEW = {"id": "7", "name": "a"}, {"id": "7", "name": "b"}


@pytest.mark.parametrize(
    ("value", "before", "after"),
    [
        ({"before": OLD, "after": NEW, "op": "u", "source": {}}, OLD, NEW),
        ({"schema": {}, "payload": {"before": None, "after": NEW}}, None, NEW),
        ({"before": OLD, "after": None, "op": "d"}, OLD, None),
        ({"database": "s", "table": "t", "type": "update", "data": NEW, "old": {"name": "a"}}, OLD, NEW),
        ({"type": "insert", "data": NEW}, None, NEW),
        ({"type": "delete", "data": OLD}, OLD, None),
        ({"type": "UPDATE", "data": [NEW], "old": [{"name": "a"}]}, OLD, NEW),
        ({"type": "DELETE", "data": [OLD], "old": None}, OLD, None),
        ({"__event_id": "e", "__op": "u", **NEW}, None, NEW),
        ({"__event_id": "e", "__op": "d", **OLD}, OLD, None),
    ],
)
def test_each_form_gives_its_images(value: dict[str, Any], before: Any, after: Any) -> None:
    found = images_of(json.dumps(value).encode())
    assert (found.before, found.after) == (before, after)


def test_numbers_stay_as_they_are_written() -> None:
    found = images_of(b'{"before":null,"after":{"big":12345678901234567890,"price":1.10}}')
    assert found.after == {"big": "12345678901234567890", "price": "1.10"}


@pytest.mark.parametrize(
    ("value", "note"),
    [
        (None, "a tombstone: it has no row"),
        (b"x" * (LARGEST_BYTES + 1), "its value has 1,048,577 bytes: too many to show here"),
        (b"\x00\x01", "its value is no JSON"),
        (b"[1]", "its value is no JSON object"),
    ],
)
def test_what_has_no_row_says_why(value: bytes | None, note: str) -> None:
    assert images_of(value) == RowImages(note=note)
