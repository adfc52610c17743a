"""Rows counted as quarantined against those that are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from databus.core.batches.counts import TableCounts
from databus.core.positions.offsets import KafkaOffsets, Offset, SequenceOffset
from databus.core.state.ledger import LedgerSpan, SpanState
from databus.ops.ledger.quarantine import OwnBatch, own_batches, quarantine_evidence


def _span(batch: int, rows: int, start: Offset, end: Offset) -> LedgerSpan:
    counts = {"shop.orders": TableCounts(100, 0, rows, 100 - rows)}
    return LedgerSpan(start, end, SpanState.DISPATCHED, batch, batch, tables=counts)


def _state(*spans: LedgerSpan, refused: dict[int, int] | None = None) -> Any:
    entries = [
        SimpleNamespace(number=number, receipts=({"sink": "index", "rejected": rows}, {"sink": "kafka"}))
        for number, rows in (refused or {}).items()
    ]
    return SimpleNamespace(ledger=SimpleNamespace(spans=spans), entries=entries)


def _batch(batch: int, rows: int, start: int, end: int) -> LedgerSpan:
    return _span(batch, rows, SequenceOffset(start), SequenceOffset(end))


def _own(batch: int, start: int, end: int) -> OwnBatch:
    return OwnBatch(batch, SequenceOffset(start), SequenceOffset(end))


SEVEN = "batch 7 counts 1 rows, 0 are kept"
EIGHT = "batch 8 counts 2 rows, 0 are kept"
COUNTED = "3 rows counted against those kept"


@pytest.mark.parametrize(
    ("held", "checked", "own", "moved", "problems"),
    [
        ({7: 1, 8: 2}, {7: 1}, [], 0, ()),
        ({8: 2}, {}, [], 0, (SEVEN,)),
        # 021bfd3 gave the row the number of a sink's batch that was behind.
        ({12: 1, 8: 2}, {12: 1}, [_own(12, 60, 80)], 1, ()),
        ({12: 1, 8: 2}, {12: 1}, [_own(12, 65, 68)], 1, ()),  # a smaller one
        ({12: 3}, {12: 3}, [_own(12, 60, 80)], 3, ()),
        ({12: 1, 13: 2}, {12: 1, 13: 2}, [_own(12, 60, 72), _own(13, 72, 80)], 3, ()),
        ({12: 1, 8: 2}, {}, [_own(12, 60, 80)], 0, (SEVEN,)),  # a refusal of that sink itself
        ({12: 1, 8: 2}, {12: 1}, [_own(12, 70, 80)], 0, (SEVEN,)),  # of log behind batch 7
        ({12: 1, 8: 2}, {12: 1}, [_own(12, 50, 60)], 0, (SEVEN,)),  # of log before it
        ({5: 9, 8: 2}, {5: 9}, [_own(12, 60, 80)], 0, (SEVEN,)),  # of a batch that was rewound over
        ({7: 1, 6: 9}, {7: 1, 6: 9}, [_own(6, 50, 60)], 0, (EIGHT,)),
        ({12: 1}, {12: 1}, [_own(12, 60, 80)], 1, (EIGHT,)),
        ({12: 2}, {12: 2}, [_own(12, 60, 80)], 2, (f"{EIGHT}, 1 under batches of sinks that were behind",)),
        ({8: 5}, {8: 5}, [_own(8, 60, 80)], 0, (SEVEN,)),  # a batch that sinks took apart has one number
    ],
)  # fmt: skip
def test_rows_that_are_counted_are_kept(
    held: dict[int, int], checked: dict[int, int], own: list[OwnBatch], moved: int, problems: tuple[str, ...]
) -> None:
    found = quarantine_evidence(_state(_batch(7, 1, 60, 70), _batch(8, 2, 70, 80)), held, checked, own)
    looked_at = f"{COUNTED}, {moved} of them under batches of sinks that were behind" if moved else COUNTED
    assert (found.looked_at, found.problems) == ((looked_at,), problems)


def test_entries_of_a_batch_that_was_rewound_over_do_not_stand_for_rows_that_are_lost() -> None:
    """These entries stay for ever; so would what they hide."""
    state = _state(_batch(9, 0, 10, 60), _batch(12, 100, 60, 70))
    assert quarantine_evidence(state, {5: 100, 12: 100}, {5: 100, 12: 100}, []).problems == ()
    found = quarantine_evidence(state, {5: 100, 12: 20}, {5: 100, 12: 20}, [])
    assert found.problems == ("batch 12 counts 100 rows, 20 are kept",)


def test_rows_that_a_sink_refused_are_not_stood_for_by_what_a_check_holds_elsewhere() -> None:
    spans = [_batch(7, 10, 60, 70)]
    own = [_own(12, 60, 80)]
    kept = quarantine_evidence(_state(*spans, refused={7: 4}), {7: 4, 12: 6}, {12: 6}, own)
    assert kept.problems == ()
    lost = quarantine_evidence(_state(*spans, refused={7: 4}), {7: 3, 12: 9}, {12: 9}, own)
    assert lost.problems == ("batch 7 counts 10 rows, 3 are kept, 6 under batches of sinks that were behind",)


def test_a_gap_behind_a_batch_has_its_number_and_no_rows() -> None:
    gap = LedgerSpan(SequenceOffset(70), SequenceOffset(80), SpanState.GAP, 8, 7)
    assert quarantine_evidence(_state(_batch(7, 1, 60, 70), gap), {}, {}, []).problems == (SEVEN,)


def test_what_a_check_held_under_a_sinks_name_stands_for_nothing_of_the_flow() -> None:
    """Of a check that is new since the flow passed, only that sink lacks the row."""
    found = quarantine_evidence(_state(_batch(7, 1, 60, 70)), {12: 1}, {}, [_own(12, 60, 70)])
    assert found.problems == (SEVEN,)


def test_rows_go_to_the_batch_that_nothing_else_can_stand_for() -> None:
    """Own batches of two sinks lie over the same log; each row stands for one, however they are dealt out."""
    spans = [_batch(7, 1, 60, 70), _batch(8, 1, 70, 80)]
    own = [_own(12, 60, 80), _own(13, 60, 70)]
    assert quarantine_evidence(_state(*spans), {12: 1, 13: 1}, {12: 1, 13: 1}, own).problems == ()


def test_ranges_of_partitions_that_cannot_be_ordered_may_lie_over_a_batch() -> None:
    def at(one: int, two: int) -> KafkaOffsets:
        return KafkaOffsets({"orders": {0: one, 1: two}})

    spans = [_span(7, 1, at(0, 0), at(10, 10)), _span(8, 1, at(10, 10), at(20, 20))]
    own = [OwnBatch(12, at(0, 0), at(5, 15)), OwnBatch(13, at(5, 15), at(20, 20))]
    assert quarantine_evidence(_state(*spans), {12: 1, 13: 1}, {12: 1, 13: 1}, own).problems == ()


def test_own_batches_are_the_commits_of_sinks_own_histories() -> None:
    def entry(action: str, batch: int, previous: int | None, offset: int) -> Any:
        before = None if previous is None else SequenceOffset(previous)
        return SimpleNamespace(action=action, batch=batch, previous=before, offset=SequenceOffset(offset))

    alone = [[entry("detach", 11, None, 60), entry("commit", 12, 60, 80), entry("join", 12, 80, 80)], []]
    assert own_batches(alone) == [_own(12, 60, 80)]
