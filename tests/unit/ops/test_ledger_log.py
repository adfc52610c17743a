"""The log read again for the ledger: what cannot be decoded is a verdict on its batch, what was skipped is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from databus.core.batches.counts import TableCounts
from databus.core.errors import DecodeError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.evidence import Evidence
from databus.core.state.ledger import LedgerSpan, SpanState
from databus.ops.ledger import log as ledger_log

ROW = pa.table({"schema_id": [0], "database": ["shop"], "table": ["t"]})


class Log:
    """A log of one row in each range, of which some cannot be read again."""

    def __init__(self, refused: set[int]) -> None:
        self.refused = refused

    def reopen(self, wanted: OffsetRange) -> Any:
        if wanted.start.sequence in self.refused:  # type: ignore[attr-defined]
            raise DecodeError("bin.000001:7: changes rows by statement")
        return SimpleNamespace(bound=None, bytes=10)

    def splits(self, _plan: Any, _count: int) -> list[Any]:
        return [SimpleNamespace(read=lambda: [ROW])]

    def discard(self, _plan: Any) -> None:
        pass


def span(start: int, state: SpanState = SpanState.DISPATCHED, cause: str = "") -> LedgerSpan:
    counts = {"shop.t": TableCounts(1, 0, 0, 1)} if state is SpanState.DISPATCHED else {}
    return LedgerSpan(SequenceOffset(start), SequenceOffset(start + 1), state, 1, start + 1, 10, counts, cause=cause)


def evidence(monkeypatch: pytest.MonkeyPatch, refused: set[int], other: set[int], *spans: LedgerSpan) -> Evidence:
    @contextmanager
    def opened(*_: Any) -> Iterator[Log]:
        yield Log(refused)

    monkeypatch.setattr(ledger_log, "look", opened)
    flow: Any = SimpleNamespace(name="orders")
    services: Any = SimpleNamespace(settings=None, server_ids=None, connections=None)
    return ledger_log.log_evidence(flow, services, spans, frozenset(other))


def test_what_was_skipped_is_told_and_what_was_moved_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evidence(monkeypatch, {1}, set(), span(0), span(1, SpanState.GAP, "skip"), span(2))
    assert found.problems == ()
    assert found.looked_at == ("batches 1, 3 read again: 2 equal", "(1, 2] was passed over, not moved: skip")


def test_rows_of_a_snapshot_are_not_looked_for_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    brought = replace(span(0), tables={"shop.t": TableCounts(8, 0, 0, 6, 2, 7)})
    assert evidence(monkeypatch, set(), set(), brought).problems == ()
    short = replace(span(0), tables={"shop.t": TableCounts(8, 0, 0, 6, 2, 6)})
    (problem,) = evidence(monkeypatch, set(), set(), short).problems
    assert "the log holds 1 rows, the ledger counts 2" in problem


def test_of_many_gaps_the_newest_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told = evidence(monkeypatch, set(), set(), *(span(n, SpanState.GAP, "skip") for n in range(8))).looked_at
    assert (len(told), told[-1]) == (6, "3 earlier ranges were passed over as well")


def test_a_batch_that_cannot_be_decoded_leaves_a_verdict_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evidence(monkeypatch, {0}, set(), span(0), span(1))
    assert found.problems == ("batch 1 (0, 1]: bin.000001:7: changes rows by statement",)
    assert found.looked_at == ("batches 2 read again: 1 equal",)


def test_one_that_another_version_read_otherwise_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evidence(monkeypatch, {0}, {1}, span(0), span(1))
    assert found.problems == ()
    assert "batches 1: not read again by this version, bin.000001:7: changes rows" in found.looked_at[1]
