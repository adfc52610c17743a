"""Transaction metadata of ours beside what a real Debezium wrote of the same log, as it was recorded."""

from __future__ import annotations

from functools import cache

import pytest

from tests.unit.formats.debezium_transactions import (
    KEPT,
    VARIANTS,
    Messages,
    TransactionRecording,
    blocks,
    boundaries,
    schemas_of,
)


@cache
def both(variant: str) -> tuple[Messages, Messages]:
    recording = TransactionRecording(KEPT)
    return recording.ours(variant), recording.debezium[variant]


@pytest.mark.parametrize("variant", VARIANTS)
def test_boundaries_are_debezium_s(variant: str) -> None:
    ours, theirs = both(variant)
    assert boundaries(ours) == boundaries(theirs)
    assert [value["event_count"] for _, value in boundaries(ours) if value["status"] == "END"] == [1, 8, 4, 2, 1]


@pytest.mark.parametrize("variant", VARIANTS)
def test_orders_are_debezium_s(variant: str) -> None:
    ours, theirs = both(variant)
    assert blocks(ours) == blocks(theirs)


def test_schemas_are_debezium_s() -> None:
    ours, theirs = both("schemas")
    assert schemas_of(ours) == schemas_of(theirs)
