"""A flow's ledger: what its log's bytes and rows came to, from pages and history; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from databus.core.batches.counts import TableCounts
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.flow import Flow
from databus.core.positions.gaps import Gap
from databus.core.state.checkpoint import Checkpoint, HistoryEntry
from databus.core.state.ledger import Ledger, LedgerSpan, SpanState
from databus.core.state.ledger_chain import build
from databus.core.state.plan import Plan
from databus.ops.checkpoint.targets import ALL_HISTORY
from databus.records.ledger.page_rows import Page
from databus.records.ledger.pages import LedgerPages
from databus.records.store import RecordStore
from databus.runtime.context import Services
from databus.runtime.copies import most_copies

_ROUNDS = 10


@dataclass(frozen=True)
class LedgerState:
    """Ledger state of a flow: all that is known of its history at one moment.

    Attributes:
        flow: flow name.
        checkpoint: committed state, None before the first run.
        plan: plan in flight.
        history: entries in ZooKeeper, ascending.
        gaps: named gaps in ZooKeeper.
        pages: pages in SQL, ascending.
        entries: both together, ascending; where both have one, ZooKeeper's.
        ledger: what the entries amount to.
    """

    flow: str
    checkpoint: Checkpoint | None
    plan: Plan | None
    history: tuple[HistoryEntry, ...]
    gaps: tuple[Gap, ...]
    pages: tuple[Page, ...]
    entries: tuple[HistoryEntry, ...]
    ledger: Ledger

    @property
    def unpaged(self) -> int:
        """Number of entries that stand in ZooKeeper only."""
        newest = max((page.number for page in self.pages), default=0)
        return sum(entry.number > newest for entry in self.history)


def read_ledger(flow: Flow, services: Services) -> LedgerState:
    """Read checkpoint, history, gaps and pages, as they stand together.

    Raises:
        CheckpointConflictError: the flow commits faster than its history can be read.
        CheckpointError, RecordingError: ZooKeeper or the records store does not answer.
    """
    store, name = services.store, flow.name
    checkpoint = store.load(name)
    for _ in range(_ROUNDS):
        newest = store.history(name, 1)
        history = tuple(reversed(store.history(name, newest[0].number))) if newest else ()
        gaps, plan = tuple(store.gaps(name)), store.pending_plan(name)
        again = store.load(name)
        if again == checkpoint:
            break
        checkpoint = again
    else:
        raise CheckpointConflictError(
            f"flow {name}: it committed while its history was read, {_ROUNDS} times in a row",
            hint="Repeat the command in a quieter moment.",
            retryable=True,
        )
    with RecordStore(services.settings.records_url) as records:
        pages = tuple(LedgerPages(records).pages(name))
    entries = merged(history, pages)
    alone = [entry for spec in flow.sinks for entry in own_history(flow, services, spec.sink_name)]
    ledger = build(name, entries, gaps, alone, most_copies(flow))
    return LedgerState(name, checkpoint, plan, history, gaps, pages, entries, ledger)


def own_history(flow: Flow, services: Services, sink: str) -> list[HistoryEntry]:
    """Return what a sink did while it was behind, in ascending order of the entries' numbers; empty if it never was."""
    return list(reversed(services.store.of_sink(sink).history(flow.name, ALL_HISTORY)))


def merged(history: Sequence[HistoryEntry], pages: Sequence[Page]) -> tuple[HistoryEntry, ...]:
    """Return history and pages as one; pages of a life of the flow that has ended (see `begins_anew`) are left out.

    Of what was merged, which ZooKeeper may still hold, the merged page is taken.
    """
    found = {} if begins_anew(history, pages) else {page.number: page.entry for page in pages if page.entry}
    merged_upto = max((number for number, entry in found.items() if entry.merged), default=0)
    found.update({entry.number: entry for entry in history if entry.number > merged_upto})
    return tuple(entry for _, entry in sorted(found.items()))


def begins_anew(history: Sequence[HistoryEntry], pages: Sequence[Page]) -> bool:
    """Return whether history starts from scratch and has no pages yet: those that are there are of an earlier life."""
    if not history or history[0].action != "start":
        return False
    page = next((page for page in pages if page.number == history[0].number), None)
    return page is not None and page.entry != history[0]


def summary(state: LedgerState) -> dict[str, Any]:
    """Return the coverage as plain JSON: from, to, bytes and rows by state, sinks, tables, spans, gaps, pending."""
    ledger = state.ledger
    sizes = ledger.bytes_by_state
    return {
        "flow": state.flow,
        "from": ledger.start.to_json() if ledger.start else None,
        "to": ledger.end.to_json() if ledger.end else None,
        "batch": state.checkpoint.batch if state.checkpoint else 0,
        "entries": len(state.entries),
        "entries_not_paged": state.unpaged,
        "bytes": sum(sizes.values()),
        "bytes_by_state": {str(name): size for name, size in sizes.items() if size},
        "rows": TableCounts.total(ledger.tables.values()).figures,
        "sinks": {name: counts.to_json() for name, counts in ledger.sinks.items()},
        "tables": {name: counts.figures for name, counts in ledger.tables.items()},
        "rows_replayed": ledger.replayed,
        "spans": [_span(spans) for spans in _alike(ledger.spans)],
        "gaps": [gap.to_json() for gap in state.gaps],
        "pending": [prepared.to_json() for prepared in ledger.pending],
        "plan_in_flight": f"batch {state.plan.batch} {state.plan.range}" if state.plan else None,
    }


def problems_of(state: LedgerState) -> list[dict[str, str]]:
    """Return what does not add up in the entries alone, as plain JSON."""
    return [{"subject": found.subject, "problem": found.problem} for found in state.ledger.problems]


def _alike(spans: Sequence[LedgerSpan]) -> list[list[LedgerSpan]]:
    """Group neighbours: batches with batches, each gap and each hole for itself."""
    groups: list[list[LedgerSpan]] = []
    alone = (SpanState.GAP, SpanState.UNKNOWN)
    for span in spans:
        if groups and span.state not in alone and groups[-1][-1].state not in alone:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def _span(spans: Sequence[LedgerSpan]) -> Mapping[str, Any]:
    first, last = spans[0], spans[-1]
    known = [span.bytes for span in spans if span.bytes is not None]
    rows = TableCounts.total(counts for span in spans for counts in span.tables.values())
    begins = first.first_batch or first.batch
    batches = f"{begins}–{last.batch}" if len(spans) > 1 or begins != last.batch else str(begins)
    kind = str(first.state) if first.state in (SpanState.GAP, SpanState.UNKNOWN) else "read"
    return {
        "from": str(first.start),
        "to": str(last.end),
        "kind": f"{kind}: {first.cause}" if first.cause else kind,
        "batches": batches if kind == "read" else None,
        "bytes": sum(known) if len(known) == len(spans) else None,
        **rows.figures,
    }
