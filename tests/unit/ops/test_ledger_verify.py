"""Which batches sinks made alone, for a ledger that is verified."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from databus.core.batches.counts import TableCounts
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.ops.ledger.quarantine import OwnBatch
from databus.ops.ledger.sinks import _own_chain
from databus.ops.ledger.verify import _own


def _entry(number: int, batch: int, start: int, end: int, plan_hash: str = "p") -> Any:
    return SimpleNamespace(
        number=number,
        action="commit",
        batch=batch,
        plan_hash=plan_hash,
        previous=SequenceOffset(start),
        offset=SequenceOffset(end),
    )


def _report(batch: int, start: int, end: int, plan_hash: str = "p", **facts: Any) -> Any:
    mine = {"mode": "live", "earlier_life": False, "receipts": {("second", 0): (1, {}, 0)}, **facts}
    return SimpleNamespace(
        batch=batch, plan_hash=plan_hash, start=SequenceOffset(start), end=SequenceOffset(end), **mine
    )


def _own_batch(batch: int, start: int, end: int) -> OwnBatch:
    return OwnBatch(batch, SequenceOffset(start), SequenceOffset(end))


def test_batches_of_sinks_alone_are_committed_or_in_flight_or_told_by_reports_of_what_was_trimmed() -> None:
    """A batch of the flow, which a rewind took out of the ledger, is none of a sink's, whose entries may be gone."""
    state: Any = SimpleNamespace(entries=[_entry(5, 5, 40, 60), _entry(6, 7, 60, 70)])
    reports = [
        _report(5, 40, 60),
        _report(6, 40, 60),
        _report(6, 40, 50, "of the first sink", receipts={("first", 0): (1, {}, 0)}),
        _report(6, 40, 50, "replayed", mode="replay"),
        _report(6, 40, 50, "earlier", earlier_life=True),
        _report(12, 60, 65),
    ]
    plan: Any = SimpleNamespace(batch=13, range=OffsetRange(SequenceOffset(65), SequenceOffset(80)))
    alone = {"first": [], "second": [_entry(1001, 12, 60, 65)]}
    found = _own(state, reports, [None, plan], alone)
    assert sorted(found, key=lambda one: one.batch) == [
        _own_batch(6, 40, 60),
        _own_batch(12, 60, 65),
        _own_batch(13, 65, 80),
    ]
    untrimmed = {"first": [], "second": [_entry(1, 12, 60, 65)]}
    assert _own(state, reports, [None, None], untrimmed) == [_own_batch(12, 60, 65)]


@pytest.mark.parametrize(
    ("alone", "agree"),
    [
        (TableCounts(100, 0, 0, 100), True),
        (TableCounts(100, 0, 5, 95), True),  # its own transforms held back five, which no sibling's did
        (TableCounts(100, 5, 0, 95), False),
        (TableCounts(95, 0, 5, 90), False),
    ],
)
def test_a_sink_that_was_behind_may_refuse_rows_that_its_siblings_took(alone: TableCounts, agree: bool) -> None:
    def own(number: int, action: str, start: int, end: int, **facts: Any) -> Any:
        return SimpleNamespace(**{**vars(_entry(number, number, start, end)), "action": action, "counts": {}, **facts})

    flow = own(5, "commit", 40, 60, counts={"shop.orders": TableCounts(100, 0, 2, 98)})
    entries = [
        own(1, "detach", 40, 40),
        own(2, "commit", 40, 60, counts={"shop.orders": alone}),
        own(3, "join", 60, 60),
    ]
    state: Any = SimpleNamespace(entries=[flow])
    _, problems = _own_chain(state, entries, None)
    assert (problems == []) is agree
    assert agree or problems[0].startswith(f"table shop.orders: alone it counts {alone} in (40, 60], the flow read 100")
