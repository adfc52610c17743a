"""The ledger: where every byte of a source's log ended, from a flow's first checkpoint on, as its history records.

History is a chain: each entry says from where to where, and begins where the one before it ended. From it follows the
coverage: spans that touch and never overlap, from the first checkpoint to the committed one, each in one state.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from databus.core.batches.counts import SinkCounts, TableCounts
from databus.core.positions.offsets import BinlogOffset, Offset, PreparedTransaction


class SpanState(enum.StrEnum):
    """Ledger state of a span of the log; exactly one holds for each byte.

    A batch's bytes are one figure, for the log is not counted row by row; `LedgerSpan.tables` has its rows
    apart. Bytes of XA transactions that are prepared and not resolved are PENDING, wherever they lie
    (`Ledger.pending`).
    """

    DISPATCHED = "dispatched"
    """All that is not filtered went on."""
    PARTLY_QUARANTINED = "partly_quarantined"
    """Some rows are held back, the others went on."""
    QUARANTINED = "quarantined"
    """All that is not filtered is held back."""
    FILTERED = "filtered"
    GAP = "gap"
    PENDING = "pending"
    UNKNOWN = "unknown"
    """Hole in the history: in no entry, always named in `Ledger.problems`."""


@dataclass(frozen=True)
class LedgerSpan:
    """A piece of log that one entry of the history accounts for, or that none does.

    Attributes:
        start: exclusive.
        end: inclusive.
        state: what became of it.
        number: of the history entry; None where no entry has it.
        batch: batch number after it; 0 where no entry has it.
        bytes: log bytes; None when they are not known: a gap, a hole, a part of a batch, an entry of an older version.
        tables: counts by table.
        first_batch: number of the first batch, where several were merged; 0 where it is one.
        partial: a rewind went into the middle of this batch; counts and bytes are the whole batch's, or unknown.
        cause: of a gap, or of a range that the history records but did not count.
    """

    start: Offset
    end: Offset
    state: SpanState
    number: int | None
    batch: int
    bytes: int | None = None
    tables: Mapping[str, TableCounts] = field(default_factory=dict)
    partial: bool = False
    cause: str = ""
    first_batch: int = 0


@dataclass(frozen=True)
class Discrepancy:
    """Ledger discrepancy.

    Attributes:
        subject: what was looked at, e.g. "history", "sink kafka" or "pages".
        problem: what is wrong, where, with both figures.
    """

    subject: str
    problem: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}"


@dataclass(frozen=True)
class Ledger:
    """The coverage that a flow's history amounts to.

    Attributes:
        flow: flow name.
        start: where the coverage begins, exclusive; None without any entry.
        end: where it ends, inclusive.
        spans: in log order from start to end, each beginning where the one before it ends.
        pending: XA transactions prepared before the end and not resolved; their bytes lie in spans and count apart.
        problems: what does not add up in the chain; empty for a sound one.
        replayed: rows that were dispatched and, after a rewind, are read again.
        sinks: rows that each sink took and refused, also in batches of its own while it was behind.
    """

    flow: str
    start: Offset | None
    end: Offset | None
    spans: tuple[LedgerSpan, ...]
    pending: tuple[PreparedTransaction, ...]
    problems: tuple[Discrepancy, ...]
    replayed: int = 0
    sinks: Mapping[str, SinkCounts] = field(default_factory=dict)

    @property
    def bytes_by_state(self) -> dict[SpanState, int]:
        """Known log bytes by state; those of pending transactions are taken out of the spans they lie in."""
        totals = dict.fromkeys(SpanState, 0)
        for span in self.spans:
            totals[span.state] += span.bytes or 0
            for prepared in self.pending:
                if _within(prepared, span) and not _of_another_log(span.end, self.end):
                    size = min(prepared.end_pos - prepared.start_pos, span.bytes or 0)
                    totals[span.state] -= size
                    totals[SpanState.PENDING] += size
        return totals

    @property
    def tables(self) -> dict[str, TableCounts]:
        """Counts by table over all spans."""
        totals: dict[str, TableCounts] = {}
        for span in self.spans:
            for table, counts in span.tables.items():
                totals[table] = totals.get(table, TableCounts()).plus(counts)
        return dict(sorted(totals.items()))

    @property
    def gaps(self) -> tuple[LedgerSpan, ...]:
        """The spans that are named gaps."""
        return tuple(span for span in self.spans if span.state is SpanState.GAP)


def _of_another_log(one: Offset, other: Offset | None) -> bool:
    return isinstance(one, BinlogOffset) and isinstance(other, BinlogOffset) and one.generation != other.generation


def _within(prepared: PreparedTransaction, span: LedgerSpan) -> bool:
    """Return whether a prepared transaction's first phase lies in a span of the same log."""
    start, end = span.start, span.end
    if not isinstance(start, BinlogOffset) or not isinstance(end, BinlogOffset):
        return False
    place = replace(end, file=prepared.file, pos=prepared.end_pos, prepared=(), created_s=0)
    return (start.file_number, start.pos) < (place.file_number, place.pos) <= (end.file_number, end.pos)
