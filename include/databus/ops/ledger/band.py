"""Band of a flow's ledger for its page: spans in the order of the log, folded to columns; no gap is folded away."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from databus.core.batches.counts import TableCounts
from databus.core.positions.gaps import PURGED, Gap
from databus.core.positions.offsets import OffsetRange, Ordering
from databus.core.state.ledger import LedgerSpan, SpanState
from databus.ops.ledger.show import LedgerState, summary

_ALONE = (SpanState.UNKNOWN, SpanState.GAP)
"""States of spans that get a column of their own, the worse one last."""


def band_view(state: LedgerState, columns: int) -> dict[str, Any]:
    """Return the ledger as plain JSON: what `summary` has of it, places as text, problems, gaps, and `band`.

    A gap is `taken_back` where a rewind went to a place before it: its range was read since, or is going to be.

    Args:
        state: the ledger.
        columns: columns of what was read, each of about as many bytes of the log. Gaps and holes have columns of their
            own beside them, unless there are more than `columns` of both: then neighbours are one, of the worse kind.
    """
    ledger, band = state.ledger, _band(state, columns)
    stands = {number for column in band for number in column["gaps"]}
    told = {name: value for name, value in summary(state).items() if name != "spans"}
    return {
        **told,
        "from": str(ledger.start) if ledger.start else None,
        "to": str(ledger.end) if ledger.end else None,
        "problems": [{"subject": p.subject, "problem": p.problem} for p in ledger.problems],
        "gaps": [_gap(gap, stands) for gap in state.gaps],
        "band": band,
    }


def _band(state: LedgerState, columns: int) -> list[dict[str, Any]]:
    at = {entry.number: entry.at for entry in state.entries}
    gaps = [gap for gap in state.gaps if not gap.of_sink]
    return [_column(group, at, gaps) for group in folded(state.ledger.spans, columns)]


def folded(spans: Sequence[LedgerSpan], columns: int) -> list[list[LedgerSpan]]:
    """Group neighbouring spans; each is in exactly one group, in the order of the log.

    Args:
        spans: in the order of the log.
        columns: groups of spans that were read; there are at most twice as many groups in all.
    """
    known = [span.bytes for span in spans if span.bytes is not None]
    mean = sum(known) / len(known) if known else 1.0
    weights = [0.0 if span.state in _ALONE else mean if span.bytes is None else float(span.bytes) for span in spans]
    share = sum(weights) / columns or 1.0
    groups: list[list[LedgerSpan]] = []
    passed, place = 0.0, -1
    for span, weight in zip(spans, weights, strict=True):
        here = int((passed + weight / 2) / share)
        passed += weight
        alone = span.state in _ALONE
        if alone or not groups or here != place or groups[-1][-1].state in _ALONE:
            groups.append([span])
        else:
            groups[-1].append(span)
        place = here
    while len(groups) > 2 * columns:
        groups = [[*groups[n], *(groups[n + 1] if n + 1 < len(groups) else ())] for n in range(0, len(groups), 2)]
    return groups


def _column(spans: Sequence[LedgerSpan], at: Mapping[int, datetime], gaps: Sequence[Gap]) -> dict[str, Any]:
    first, last = spans[0], spans[-1]
    worst = max(spans, key=lambda span: _ALONE.index(span.state) if span.state in _ALONE else -1)
    known = [span.bytes for span in spans if span.bytes is not None]
    begins = first.first_batch or first.batch
    recorded = max((at[n] for span in spans if (n := span.number) is not None and n in at), default=None)
    return {
        "kind": str(worst.state) if worst.state in _ALONE else "read",
        "from": str(first.start),
        "to": str(last.end),
        "batches": [begins, last.batch] if begins and last.batch else None,
        "bytes": sum(known) if len(known) == len(spans) else None,
        "cause": worst.cause,
        "gaps": [gap.number for gap in gaps if _in(gap, spans)],
        "partial": any(span.partial for span in spans),
        "at": recorded and recorded.isoformat(),
        "rows": TableCounts.total(counts for span in spans for counts in span.tables.values()).figures,
    }


def _in(gap: Gap, spans: Sequence[LedgerSpan]) -> bool:
    """Return whether one of the spans is the gap, or a batch that read past what the log had no more."""
    return any(_is(gap, span) if span.state is SpanState.GAP else _read_past(gap, span) for span in spans)


def _is(gap: Gap, span: LedgerSpan) -> bool:
    ends = (Ordering.EQUAL, Ordering.BEFORE) if span.partial else (Ordering.EQUAL,)
    return span.start.compare(gap.start) is Ordering.EQUAL and span.end.compare(gap.end) in ends


def _read_past(gap: Gap, span: LedgerSpan) -> bool:
    if gap.cause != PURGED or span.end.compare(span.start) is not Ordering.AFTER:
        return False
    return gap.within(OffsetRange(span.start, span.end))


def _gap(gap: Gap, stands: Collection[int]) -> dict[str, Any]:
    return {
        "number": gap.number,
        "from": str(gap.start),
        "to": str(gap.end),
        "cause": gap.cause,
        "decision": gap.decision,
        "decided": gap.passed,
        "taken_back": gap.passed and not gap.of_sink and gap.number not in stands,
        "who": gap.who,
        "why": gap.why,
        "at": gap.at.isoformat(),
        "run_url": gap.run_url,
    }
