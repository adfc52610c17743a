"""Places that the history names: batches back along the way that led here, and what lies in between."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from databus.core.checkpoint import Epoch, HistoryEntry
from databus.core.counts import TableCounts
from databus.core.errors import ConfigError
from databus.core.offsets import SequenceOffset
from databus.ops.moves import passed_over
from databus.ops.targets import Target, batches_back

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)


def history(*moves: tuple[str, int, int]) -> list[HistoryEntry]:
    """Entries of (action, from, to), newest first."""
    made = []
    for number, (action, start, end) in enumerate(moves, 1):
        commit = action == "commit"
        read = end - start
        counts = {"shop.orders": TableCounts(read, 0, 0, read)} if commit else {}
        receipts: tuple[dict[str, Any], ...] = (
            ({"sink": "kafka", "written": read, "outputs": {f"cdc[{number}]": {}}},) if commit else ()
        )
        made.append(
            HistoryEntry(
                number, action, "run", "", SequenceOffset(start), SequenceOffset(end), number, Epoch(1), counts,
                receipts, NOON,
            )
        )  # fmt: skip
    return made[::-1]


PLAIN = history(("start", 0, 0), ("commit", 0, 10), ("commit", 10, 20), ("pause", 20, 20), ("commit", 20, 35))
AFTER_REWIND = history(
    ("start", 0, 0), ("commit", 0, 10), ("commit", 10, 20), ("commit", 20, 30), ("rewind", 30, 10), ("commit", 10, 15)
)


@pytest.mark.parametrize(("count", "place"), [(1, 20), (2, 10), (3, 0)])
def test_batches_back(count: int, place: int) -> None:
    assert batches_back("f", PLAIN, SequenceOffset(35), count) == SequenceOffset(place)


def test_batches_back_follow_the_way_that_led_here() -> None:
    assert batches_back("f", AFTER_REWIND, SequenceOffset(15), 1) == SequenceOffset(10)
    assert batches_back("f", AFTER_REWIND, SequenceOffset(15), 2) == SequenceOffset(0)


@pytest.mark.parametrize("place", [35, 34])
def test_more_than_the_history_holds_is_refused(place: int) -> None:
    with pytest.raises(ConfigError, match="4 batches back"):
        batches_back("f", PLAIN, SequenceOffset(place), 4)


def test_what_lies_between() -> None:
    passed = passed_over(PLAIN, SequenceOffset(35), SequenceOffset(12))
    assert (passed.batches, dict(passed.rows), passed.complete) == (2, {"shop.orders": 25}, True)
    assert (dict(passed.written), passed.outputs) == ({"kafka": 25}, {"kafka": ("cdc[5]", "cdc[3]")})
    assert not passed_over(PLAIN[:2], SequenceOffset(35), SequenceOffset(5)).complete
    assert passed_over(AFTER_REWIND, SequenceOffset(15), SequenceOffset(0)).rows == {"shop.orders": 15}


@pytest.mark.parametrize("given", [{}, {"place": "earliest", "batches": 1}, {"entry": 1, "past_gap": True}])
def test_exactly_one_place_is_named(given: Any) -> None:
    with pytest.raises(ConfigError, match="exactly one"):
        Target(**given)
