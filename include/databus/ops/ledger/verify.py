"""Verify a flow's ledger: derive it again from ZooKeeper, SQL, the sinks and the log, and say what does not add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from databus.core.batches.receipts import CHECK
from databus.core.flow import PLAN_CODE, Flow
from databus.core.positions.offsets import Ordering
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.evidence import Evidence
from databus.core.state.ledger import Discrepancy
from databus.core.state.plan import Plan
from databus.ops.ledger.log import log_evidence
from databus.ops.ledger.quarantine import OwnBatch, own_batches, quarantine_evidence
from databus.ops.ledger.show import LedgerState, begins_anew, own_history, read_ledger
from databus.ops.ledger.sinks import sinks_evidence
from databus.records.ledger.reports import LedgerReports, ReportFact
from databus.records.store import RecordStore
from databus.runtime.context import Services

_ROUNDS = 3


@dataclass(frozen=True)
class Verification:
    """Ledger verification result.

    Attributes:
        state: the ledger as it was read.
        looked_at: (place, what was compared there), also what could not be.
        problems: what does not add up; empty for a sound ledger.
    """

    state: LedgerState
    looked_at: tuple[tuple[str, str], ...]
    problems: tuple[Discrepancy, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "sound": not self.problems,
            "looked_at": [{"subject": subject, "what": what} for subject, what in self.looked_at],
            "problems": [{"subject": found.subject, "problem": found.problem} for found in self.problems],
        }


def verify(flow: Flow, services: Services, last: int | None) -> Verification:
    """Derive the ledger again and compare; changes nothing. A flow that goes on meanwhile is looked at once more.

    Args:
        flow: the flow.
        services: where to connect.
        last: read only so many of the newest batches again from the log; None for all.

    Raises:
        DatabusError: ZooKeeper, SQL, a sink or the source does not answer: nothing can be said.
    """
    for attempt in range(_ROUNDS):
        found = _verify(flow, services, last)
        moved = services.store.load(flow.name) != found.state.checkpoint
        if not found.problems or not moved or attempt == _ROUNDS - 1:
            return found
    raise AssertionError("unreachable")


def _verify(flow: Flow, services: Services, last: int | None) -> Verification:
    state = read_ledger(flow, services)
    with RecordStore(services.settings.records_url) as records:
        reports = LedgerReports(records).facts(flow.name)
        held = LedgerReports(records).held_by_batch(flow.name)
        checked = LedgerReports(records).held_by_batch(flow.name, CHECK)
    # Before histories: what is in flight here is either committed there, or was not when they were read.
    # Sinks that were taken out of the flow had batches of their own, too, and reports of them.
    sinks = dict.fromkeys([*(spec.sink_name for spec in flow.sinks), *(s for r in reports for s, _ in r.receipts)])
    in_flight = [services.store.of_sink(sink).pending_plan(flow.name) for sink in sinks]
    alone = {sink: own_history(flow, services, sink) for sink in sinks}
    evidence = [
        _history(state),
        _pages(state),
        _reports(state, reports, alone),
        quarantine_evidence(state, held, checked, _own(state, reports, in_flight, alone)),
        *sinks_evidence(flow, services, state, alone),
        _log(flow, services, state, last, reports),
    ]
    problems = [*state.ledger.problems, *(Discrepancy(e.subject, p) for e in evidence for p in e.problems)]
    return Verification(state, tuple((e.subject, what) for e in evidence for what in e.looked_at), tuple(problems))


def _history(state: LedgerState) -> Evidence:
    """Compare history with itself and with the checkpoint that its last entry must have written."""
    problems = []
    for before, after in pairwise(state.history):
        if after.number != before.number + 1:
            problems.append(f"entries {before.number + 1}–{after.number - 1} are missing in ZooKeeper")
    checkpoint, newest = state.checkpoint, state.history[-1] if state.history else None
    if checkpoint is not None and newest is None:
        problems.append(f"the checkpoint stands at {checkpoint.offset}, and there is no history")
    if checkpoint is None and newest is not None:
        problems.append(f"entry {newest.number} ends at {newest.offset}, and there is no checkpoint")
    if checkpoint is not None and newest is not None:
        if newest.offset.compare(checkpoint.offset) is not Ordering.EQUAL:
            problems.append(f"entry {newest.number} ends at {newest.offset}, the checkpoint at {checkpoint.offset}")
        if newest.batch != checkpoint.batch:
            problems.append(f"entry {newest.number} is of batch {newest.batch}, the checkpoint of {checkpoint.batch}")
        if newest.action == "commit" and dict(newest.counts) != dict(checkpoint.counts):
            problems.append(
                f"entry {newest.number} and the checkpoint count the rows of batch {newest.batch} otherwise"
            )
    if state.plan is not None and checkpoint is not None:
        start = state.plan.range.start
        if start.compare(checkpoint.offset) is not Ordering.EQUAL:
            problems.append(f"the plan in flight begins at {start}, the checkpoint stands at {checkpoint.offset}")
    first = state.history[0].number if state.history else 0
    looked_at = f"{len(state.history)} entries from {first} on, chained; the checkpoint; {len(state.gaps)} gaps"
    return Evidence("history", (looked_at,), tuple(problems))


def _pages(state: LedgerState) -> Evidence:
    """Compare the pages with each other and with history."""
    if begins_anew(state.history, state.pages):
        told = f"{len(state.pages)} pages are of an earlier life of the flow; the present one has none yet"
        return Evidence("pages", (told,))
    problems = [f"page {page.number} cannot be read: {page.problem}" for page in state.pages if page.entry is None]
    numbers = [page.number for page in state.pages]
    first = state.pages[0].first if numbers else 0
    for before, after in pairwise(state.pages):
        if after.first != before.number + 1:
            problems.append(f"pages {before.number + 1}–{after.first - 1} are missing")
    by_number = {entry.number: entry for entry in state.history}
    if by_number:
        head, oldest = max(by_number), min(by_number)
        if numbers and numbers[-1] > head:
            problems.append(
                f"page {numbers[-1]} is there, the history ends at entry {head}: "
                "ZooKeeper was restored from an older copy, or entries were deleted"
            )
        if oldest > (numbers[-1] if numbers else 0) + 1:
            problems.append(f"entries before {oldest} are gone from ZooKeeper and have no page")
    for page in state.pages:
        entry = by_number.get(page.number)
        alone = page.entry is not None and page.entry.merged is None
        if page.entry is not None and alone and entry is not None and page.entry != entry:
            problems.append(f"page {page.number} differs from the history: {_difference(page.entry, entry)}")
    looked_at = [f"{len(numbers)} pages from {first} on against history; {state.unpaged} entries wait for theirs"]
    parts = [page.entry.merged for page in state.pages if page.entry is not None and page.entry.merged]
    if parts:
        batches = sum(part.batches for part in parts)
        looked_at.append(
            f"{batches} batches are merged into {len(parts)} pages: their ranges and sums are shown, not each of them"
        )
    return Evidence("pages", tuple(looked_at), tuple(problems))


def _difference(page: HistoryEntry, entry: HistoryEntry) -> str:
    mine, theirs = page.to_json(), entry.to_json()
    names = [name for name in mine if mine[name] != theirs.get(name)]
    return "; ".join(f"{name} is {mine[name]} there and {theirs.get(name)} in ZooKeeper" for name in names)


def _reports(
    state: LedgerState, reports: Sequence[ReportFact], alone: Mapping[str, Sequence[HistoryEntry]]
) -> Evidence:
    """Compare each commit with the report that its run stored, those that a sink behind made alone too."""
    problems = []
    by_batch = {(report.batch, report.plan_hash): report for report in reports}
    paged = {page.number for page in state.pages}
    commits = [entry for entry in state.entries if entry.action == "commit" and entry.plan_hash]
    own_plans = {sink: {(entry.batch, entry.plan_hash) for entry in entries} for sink, entries in alone.items()}
    found: set[tuple[int, str]] = set()
    for entry in commits:
        report = by_batch.get((entry.batch, entry.plan_hash))
        if report is None:
            if entry.number in paged:
                problems.append(f"batch {entry.batch} is committed and has no report")
            continue
        found.add((report.batch, report.plan_hash))
        shared = {sink for sink, plans in own_plans.items() if (entry.batch, entry.plan_hash) in plans}
        for name, mine, theirs in report.compared(entry, shared):
            problems.append(f"batch {entry.batch}: its report has {name} {mine}, the ledger {theirs}")
    missing, own_commits = 0, 0
    of_flow = {(entry.batch, entry.plan_hash): {str(r.get("sink")) for r in entry.receipts} for entry in commits}
    for sink, entries in alone.items():
        for entry in (entry for entry in entries if entry.action == "commit"):
            own_commits += 1
            report = by_batch.get((entry.batch, entry.plan_hash))
            if report is None:
                missing += 1
                continue
            found.add((report.batch, report.plan_hash))
            where = f"batch {entry.batch} of sink {sink}"
            for name, mine, theirs in report.compared(entry, of_flow.get((entry.batch, entry.plan_hash), set())):
                problems.append(f"{where}: its report has {name} {mine}, its history {theirs}")
    lowest = min((entry.batch for entry in commits), default=0)
    highest = state.checkpoint.batch if state.checkpoint else 0
    trimmed = _trimmed(alone)
    problems += [
        f"batch {report.batch} (plan {report.plan_hash}) has a report and no entry"
        for report in reports
        if lowest <= report.batch <= highest
        and report.mode == "live"
        and not report.earlier_life
        and (report.batch, report.plan_hash) not in found
        and not _was_trimmed(report, trimmed)
    ]
    told = [f"{len(commits)} commits against their reports"]
    if own_commits:
        told.append(f"{own_commits} batches of sinks that were behind, {missing} of them without a report (a kill)")
    return Evidence("reports", tuple(told), tuple(problems))


def _trimmed(alone: Mapping[str, Sequence[HistoryEntry]]) -> dict[str, int]:
    """Return sink → batch of the oldest entry of its own history, where older ones are gone."""
    return {sink: entries[0].batch for sink, entries in alone.items() if entries and entries[0].number > 1}


def _was_trimmed(report: ReportFact, trimmed: Mapping[str, int]) -> bool:
    """Return whether a report may be of a batch whose entry a sink's own history, which has no pages, let go of."""
    sinks = {sink for sink, _ in report.receipts}
    return bool(sinks) and all(sink in trimmed and report.batch < trimmed[sink] for sink in sinks)


def _own(
    state: LedgerState,
    reports: Sequence[ReportFact],
    in_flight: Sequence[Plan | None],
    alone: Mapping[str, Sequence[HistoryEntry]],
) -> list[OwnBatch]:
    """Return the batches of sinks alone: in flight, by their own histories, and by reports of what these let go of."""
    found = [OwnBatch(plan.batch, plan.range.start, plan.range.end) for plan in in_flight if plan is not None]
    found += own_batches(alone.values())
    of_flow = {(entry.batch, entry.plan_hash) for entry in state.entries if entry.action == "commit"}
    trimmed = _trimmed(alone)
    return found + [
        OwnBatch(report.batch, report.start, report.end)
        for report in reports
        if report.mode == "live"
        and not report.earlier_life
        and (report.batch, report.plan_hash) not in of_flow
        and _was_trimmed(report, trimmed)
    ]


def _log(
    flow: Flow, services: Services, state: LedgerState, last: int | None, reports: Sequence[ReportFact]
) -> Evidence:
    spans = state.ledger.spans if last is None else state.ledger.spans[len(state.ledger.spans) - last :]
    alike = {"", *flow.hashes_alike(PLAN_CODE)}
    other = frozenset(report.batch for report in reports if report.spec_hash not in alike)
    return log_evidence(flow, services, spans, other)
