"""The ledger as a band: whatever its columns, each span is in one of them, no figure is lost and no gap is hidden."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from databus.core.batches.counts import TableCounts
from databus.core.positions.gaps import OPEN, PURGED, SKIPPED, Gap, cause_of_sink
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.checkpoint import Epoch, HistoryEntry
from databus.core.state.ledger_chain import build
from databus.ops.ledger.band import band_view, folded
from databus.ops.ledger.show import LedgerState

NOON = datetime(2026, 1, 1, tzinfo=UTC)
START = HistoryEntry(1, "start", "r", "", None, SequenceOffset(0), 0, Epoch(1), {}, (), NOON)


def place(entry: HistoryEntry) -> int:
    assert isinstance(entry.offset, SequenceOffset)
    return entry.offset.sequence


def commit(before: HistoryEntry, size: int | None = 10, quarantined: int = 0) -> HistoryEntry:
    number = before.number + 1
    counts = {"shop.orders": TableCounts(5 + quarantined, 1, quarantined, 4)}
    receipts = ({"sink": "kafka", "batch": before.batch + 1, "rows": {"shop.orders": 4}, "rejected": 0},)
    return replace(
        before, number=number, action="commit", previous=before.offset, batch=before.batch + 1, counts=counts,
        offset=SequenceOffset(place(before) + 10), receipts=receipts, bytes=size, at=NOON.replace(second=number % 60),
    )  # fmt: skip


def skip(before: HistoryEntry) -> HistoryEntry:
    return replace(
        before, number=before.number + 1, action="skip", previous=before.offset, counts={}, receipts=(), bytes=None,
        offset=SequenceOffset(place(before) + 3),
    )  # fmt: skip


def gap_of(entry: HistoryEntry, number: int, cause: str = "skip", decision: str = SKIPPED) -> Gap:
    assert entry.previous is not None
    return Gap(number, entry.previous, entry.offset, cause, decision, "ada", "poison", NOON)


def state(entries: list[HistoryEntry], gaps: list[Gap]) -> LedgerState:
    ledger = build("orders", entries, gaps)
    return LedgerState("orders", None, None, tuple(entries), tuple(gaps), (), tuple(entries), ledger)


def history(seed: int, length: int) -> tuple[list[HistoryEntry], list[Gap]]:
    """A history of commits of all sizes, some held rows, and gaps."""
    made, gaps, entries = random.Random(seed), list[Gap](), [START]
    for _ in range(length):
        if made.random() < 0.1:
            entries.append(skip(entries[-1]))
            gaps.append(gap_of(entries[-1], len(gaps) + 1))
        else:
            entries.append(commit(entries[-1], made.choice((None, 0, 1, 10, 5000)), made.choice((0, 0, 0, 2))))
    return entries, gaps


@pytest.mark.parametrize("columns", [1, 7, 120])
@pytest.mark.parametrize("seed", range(8))
def test_columns_hold_each_span_once_and_add_up(seed: int, columns: int) -> None:
    entries, gaps = history(seed, 150)
    found = state(entries, gaps)
    groups = folded(found.ledger.spans, columns)
    assert [span for group in groups for span in group] == list(found.ledger.spans)
    assert len(groups) <= 2 * columns
    view = band_view(found, columns)
    band = view["band"]
    assert [column["from"] for column in band[1:]] == [column["to"] for column in band[:-1]]
    assert (band[0]["from"], band[-1]["to"]) == (view["from"], view["to"])
    for name in ("read", "filtered", "quarantined", "dispatched"):
        assert sum(column["rows"][name] for column in band) == view["rows"][name]
    assert sorted(number for column in band for number in column["gaps"]) == [gap.number for gap in gaps]
    assert view["problems"] == []


def test_a_gap_has_a_column_of_its_own_with_its_cause_and_decision() -> None:
    first = commit(START)
    passed = skip(first)
    entries = [START, first, passed, commit(passed, quarantined=2)]
    view = band_view(state(entries, [gap_of(passed, 1)]), 120)
    assert [column["kind"] for column in view["band"]] == ["read", "gap", "read"]
    assert (view["band"][1]["gaps"], view["band"][1]["cause"], view["band"][1]["bytes"]) == ([1], "skip", None)
    assert view["band"][2]["batches"] == [2, 2]
    assert view["band"][2]["rows"]["quarantined"] == 2
    (gap,) = view["gaps"]
    assert (gap["from"], gap["to"], gap["who"], gap["why"], gap["decided"]) == ("10", "13", "ada", "poison", True)


def test_a_gap_that_a_rewind_took_back_is_not_said_to_stand() -> None:
    first = commit(START)
    passed = skip(first)
    back = replace(passed, number=4, action="rewind", previous=passed.offset, offset=first.offset)
    again = replace(commit(back), number=5)
    view = band_view(state([START, first, passed, back, again], [gap_of(passed, 1)]), 120)
    assert ([column["kind"] for column in view["band"]], view["gaps"][0]["taken_back"]) == (["read", "read"], True)
    half = replace(back, offset=SequenceOffset(12))
    view = band_view(state([START, first, passed, half], [gap_of(passed, 1)]), 120)
    assert [(column["kind"], column["gaps"], column["partial"]) for column in view["band"]] == [
        ("read", [], False), ("gap", [1], True),
    ]  # fmt: skip
    assert view["gaps"][0]["taken_back"] is False


def test_a_batch_that_read_past_a_purged_range_shows_it() -> None:
    first = commit(START)
    second = commit(first)
    inside = Gap(1, SequenceOffset(12), SequenceOffset(15), PURGED, SKIPPED, "ada", "gone", NOON)
    of_sink = replace(inside, number=2, cause=cause_of_sink("search", PURGED))
    ahead = Gap(3, second.offset, SequenceOffset(90), PURGED, OPEN, "r", "", NOON)
    view = band_view(state([START, first, second], [inside, of_sink, ahead]), 120)
    assert [column["gaps"] for column in view["band"]] == [[], [1]]
    assert [(gap["decided"], gap["taken_back"]) for gap in view["gaps"]] == [
        (True, False), (True, False), (False, False),
    ]  # fmt: skip


def test_a_hole_in_the_history_is_the_worst_of_its_column_unless_a_gap_is_in_it() -> None:
    first = commit(START)
    lost = commit(first)
    entries = [START, first, commit(lost)]
    view = band_view(state(entries, []), 1)
    assert [column["kind"] for column in view["band"]] == ["unknown", "read"]
    assert "entries 3–3 are missing" in view["problems"][0]["problem"]


def test_a_flow_that_has_no_history_has_no_band() -> None:
    view = band_view(state([], []), 120)
    assert (view["band"], view["from"], view["gaps"]) == ([], None, [])
