"""Rows that a ledger counts as quarantined against those that are kept, also under the number of a sink's own batch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from databus.core.positions.offsets import Offset, Ordering
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.evidence import Evidence
from databus.core.state.ledger import LedgerSpan
from databus.ops.ledger.show import LedgerState


@dataclass(frozen=True)
class OwnBatch:
    """A batch that a sink made alone while it was behind.

    Attributes:
        batch: its number, which no batch of the flow has.
        start: exclusive.
        end: inclusive.
    """

    batch: int
    start: Offset
    end: Offset


def own_batches(alone: Iterable[Sequence[HistoryEntry]]) -> list[OwnBatch]:
    """Return the batches that sinks committed alone, as their own histories name them."""
    return [
        OwnBatch(entry.batch, entry.previous, entry.offset)
        for entries in alone
        for entry in entries
        if entry.action == "commit" and entry.previous is not None
    ]


def quarantine_evidence(
    state: LedgerState, held: Mapping[int, int], checked: Mapping[int, int], own: Iterable[OwnBatch]
) -> Evidence:
    """Compare rows counted as quarantined with those that are kept.

    `021bfd3` let a sink that was behind give rows that a check holds the number of its own batch: they stand for rows
    that a check held of those batches of the flow whose log that batch read, and for nothing else.

    Args:
        state: the ledger.
        held: batch → rows that it was the last to hold back.
        checked: of these, those that a check holds.
        own: batches of sinks that are behind, or were.
    """
    lacking: list[tuple[LedgerSpan, int, int]] = []
    counted = 0
    for span in state.ledger.spans:
        rows, kept = sum(counts.quarantined for counts in span.tables.values()), held.get(span.batch, 0)
        counted += rows
        if not span.partial and kept < rows:
            lacking.append((span, rows, kept))
    numbers = {span.batch for span in state.ledger.spans}
    entries = {entry.number: entry for entry in state.entries} if lacking else {}
    # What sinks refused counts where it was refused: of a batch's rows, so many may a check hold elsewhere.
    wanted = [
        (span, min(rows - kept, rows - _refused(entries.get(span.number or 0)) - checked.get(span.batch, 0)))
        for span, rows, kept in lacking
    ]
    found = _elsewhere(wanted, checked, [one for one in own if one.batch not in numbers])
    problems = []
    for (span, rows, kept), moved in zip(lacking, found, strict=True):
        if kept + moved < rows:
            beside = f", {moved} under batches of sinks that were behind" if moved else ""
            problems.append(f"batch {span.batch} counts {rows} rows, {kept} are kept{beside}")
    looked_at = f"{counted} rows counted against those kept"
    if any(found):
        looked_at += f", {sum(found)} of them under batches of sinks that were behind"
    return Evidence("quarantine", (looked_at,), tuple(problems))


def _refused(entry: HistoryEntry | None) -> int:
    """Return how many rows of a batch are quarantined by sinks at the least: a row that two refused counts once."""
    by_sink: dict[str, int] = {}
    for receipt in entry.receipts if entry else ():
        sink = str(receipt.get("sink"))
        by_sink[sink] = by_sink.get(sink, 0) + int(receipt.get("rejected", 0))
    return max(by_sink.values(), default=0)


def _elsewhere(
    wanted: Sequence[tuple[LedgerSpan, int]], checked: Mapping[int, int], own: Iterable[OwnBatch]
) -> list[int]:
    """Return how many of the rows that each span wants are kept under sinks' own batches.

    Each row stands for one. An own batch lies over neighbouring spans: what is taken first from the one that ends first
    leaves as much as can be for those behind.
    """
    left = {one.batch: checked.get(one.batch, 0) for one in own}
    spans = [span for span, _ in wanted]
    reach = {one.batch: _over(one, spans) for one in own if left[one.batch]}
    found = []
    for index, (_, rows) in enumerate(wanted):
        over = sorted((last, batch) for batch, (first, last) in reach.items() if first <= index < last)
        taken = 0
        for _, batch in over:
            more = min(max(rows, 0) - taken, left[batch])
            left[batch] -= more
            taken += more
        found.append(taken)
    return found


def _over(one: OwnBatch, spans: Sequence[LedgerSpan]) -> tuple[int, int]:
    """Return the first span that a batch may lie over, and the one behind the last; spans are in log order."""
    first = bisect_left(spans, True, key=lambda span: not _upto(span.end, one.start))
    return first, bisect_left(spans, True, key=lambda span: _upto(one.end, span.start))


def _upto(place: Offset, other: Offset) -> bool:
    return place.compare(other) in (Ordering.EQUAL, Ordering.BEFORE)
