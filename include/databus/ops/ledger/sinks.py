"""Sink evidence for a flow's ledger, lagging sinks included: each of those has a history of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from databus.core.batches.counts import TableCounts
from databus.core.errors.sink import SinkBackpressureError, SinkUnavailableError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext, SinkSpec
from databus.core.positions.offsets import Offset, Ordering
from databus.core.state.checkpoint import Checkpoint, HistoryEntry
from databus.core.state.evidence import AcceptedOutput, CommittedState, Evidence, EvidentSink
from databus.core.state.plan import Plan
from databus.ops.ledger.show import LedgerState
from databus.runtime.context import Services

_MOVES = frozenset({"commit", "detach", "join", "accept"})


def sinks_evidence(
    flow: Flow, services: Services, state: LedgerState, alone: Mapping[str, Sequence[HistoryEntry]]
) -> list[Evidence]:
    """Ask each sink what it holds; one that is behind by its own checkpoint, and only if it answers.

    Args:
        flow: the flow.
        services: where to connect.
        state: the flow's ledger.
        alone: sink → its own history, ascending.

    Raises:
        SinkUnavailableError: a sink that goes with the flow does not answer.
    """
    if state.checkpoint is None:
        return []
    behind = services.store.sinks_behind(flow.name)
    found = []
    for spec in flow.sinks:
        name, own = spec.sink_name, alone.get(spec.sink_name, ())
        checkpoint, plan = state.checkpoint, state.plan
        told: list[str] = []
        if name in behind:
            store = services.store.of_sink(name)
            checkpoint, plan = store.load(flow.name) or checkpoint, store.pending_plan(flow.name)
            told.append(f"is behind, at {checkpoint.offset} after batch {checkpoint.batch}; its own checkpoint holds")
        problems: list[str] = []
        if own:
            looked_at, problems = _own_chain(state, own, checkpoint if name in behind else None)
            told.append(looked_at)
        try:
            shown = _shown(flow, services, spec, _ledger_evidence(flow, state, name, own, (checkpoint, plan)))
        except (SinkUnavailableError, SinkBackpressureError) as error:
            if name not in behind:
                raise
            told.append(f"does not answer, so what it holds was not compared: {error.message}")
        else:
            told += shown.looked_at
            problems += shown.problems
        found.append(Evidence(f"sink {name}", tuple(told), tuple(problems)))
    return found


def _ledger_evidence(
    flow: Flow, state: LedgerState, sink: str, own: Sequence[HistoryEntry], standing: tuple[Checkpoint, Plan | None]
) -> CommittedState:
    """Return what entries say of a sink: the flow's, and between them those of the times when it was behind."""
    commits = [entry for entry in (*state.entries, *own) if entry.action == "commit"]
    # A sink's own batches are numbered above all that went before: by number they lie where they were written. Of what
    # was merged it wrote none behind them: a part ends where it joins again.
    commits.sort(key=lambda entry: entry.merged.batch if entry.merged else entry.batch)
    hashes = {entry.batch: entry.plan_hash for entry in commits if entry.plan_hash}
    told = [(e, r) for e in commits for r in e.receipts if r.get("sink") == sink]
    receipts = [(e.batch, r) for e, r in told]
    checkpoint, plan = standing
    accepted = _accepted((*state.entries, *own), sink)
    begins = {place: e.merged.batch for place, (e, _) in enumerate(told) if e.merged}
    return CommittedState(flow.name, checkpoint, plan, hashes, receipts, accepted, begins)


def _accepted(entries: Sequence[HistoryEntry], sink: str) -> dict[str, AcceptedOutput]:
    """Return a sink's output → when a person last accepted it as another."""
    found: dict[str, AcceptedOutput] = {}
    for replaced, at in sorted(((e.replaced, e.at) for e in entries if e.replaced), key=lambda one: one[0].upto):
        of_sink = AcceptedOutput(at, replaced.upto, replaced.written.get(sink))
        found |= dict.fromkeys(replaced.outputs.get(sink, ()), of_sink)
    return found


def _shown(flow: Flow, services: Services, spec: SinkSpec, ledger: CommittedState) -> Evidence:
    sink = spec.open(services.connections, FlowContext(flow.name, services.settings, services.server_ids))
    try:
        if isinstance(sink, EvidentSink):
            return sink.evidence(ledger)
    finally:
        sink.close()
    return Evidence(f"sink {spec.sink_name}", (f"a sink of kind {spec.kind} shows nothing",))


def _own_chain(state: LedgerState, own: Sequence[HistoryEntry], checkpoint: Checkpoint | None) -> tuple[str, list[str]]:
    """Follow a sink's own history: each time behind begins where the flow stood, and loses and repeats no range.

    Args:
        state: the flow's ledger.
        own: the sink's own history, ascending.
        checkpoint: the sink's, None when it goes with the flow.

    Returns:
        What was compared, and what does not add up.
    """
    chain = _SinkChain(state)
    for entry in own:
        chain.add(entry)
    chain.end(checkpoint)
    commits = sum(entry.action == "commit" for entry in own)
    times = sum(entry.action == "detach" for entry in own)
    return f"{commits} batches of its own, of {times} times behind: chained, and counted as the flow's", chain.problems


class _SinkChain:
    """The state while following a sink's own history."""

    def __init__(self, state: LedgerState) -> None:
        self.problems: list[str] = []
        self._state = state
        self._last: HistoryEntry | None = None
        self._began: Offset | None = None
        """Beginning of the present time behind, None when its counts cannot be compared."""
        self._counts: dict[str, TableCounts] = {}

    def add(self, entry: HistoryEntry) -> None:
        """Compare an entry with those before it."""
        if self._last is not None and entry.number != self._last.number + 1:
            self._wrong(entry, f"follows {self._last.number}: entries between are missing")
            self._began = None
        if entry.action == "detach":
            if self._last is not None and self._last.action != "join":
                self._wrong(entry, "begins a time behind while one was not over")
            self._began, self._counts = entry.offset, {}
        else:
            self._follow(entry)
        if entry.action not in _MOVES:
            self._began = None  # moved by a person: its counts are not the flow's over one range
        if entry.action == "join":
            self._compare(entry.offset)
        self._last = entry

    def end(self, checkpoint: Checkpoint | None) -> None:
        """Compare the newest entry with the sink's own checkpoint, None when it goes with the flow."""
        last = self._last
        if last is None:
            return
        if checkpoint is None:
            if last.action != "join":
                self._wrong(last, f"is the newest, at {last.offset}, and the sink has no checkpoint of its own")
        elif last.action == "join" or last.offset.compare(checkpoint.offset) is not Ordering.EQUAL:
            self._wrong(last, f"is the newest, at {last.offset}; its own checkpoint stands at {checkpoint.offset}")
        else:
            self._compare(checkpoint.offset)

    def _follow(self, entry: HistoryEntry) -> None:
        last, before = self._last, entry.previous
        if last is not None and before is not None and before.compare(last.offset) is not Ordering.EQUAL:
            self._wrong(entry, f"goes on from {before}, the one before it ended at {last.offset}")
            self._began = None
        for table, counts in sorted(entry.counts.items()):
            self._counts[table] = self._counts.get(table, TableCounts()).plus(counts)
            if not counts.reconciled:
                self._wrong(entry, f"table {table}: {counts}")

    def _compare(self, end: Offset) -> None:
        if self._began is not None:
            self.problems += _against_the_flow(self._state, (self._began, end), self._counts)

    def _wrong(self, entry: HistoryEntry, problem: str) -> None:
        self.problems.append(f"its own entry {entry.number} ({entry.action}) {problem}")


def _against_the_flow(state: LedgerState, over: tuple[Offset, Offset], counts: Mapping[str, TableCounts]) -> list[str]:
    """Compare a sink's counts over a range with the flow's, where the flow's batches begin and end there too."""
    start, end = over
    inside, reached = [], start
    for entry in state.entries:
        if entry.action != "commit" or entry.previous is None or entry.previous.compare(reached) is not Ordering.EQUAL:
            continue
        if entry.offset.compare(end) is Ordering.AFTER:
            break
        inside.append(entry)
        reached = entry.offset
    if reached.compare(end) is not Ordering.EQUAL:
        return []
    theirs: dict[str, TableCounts] = {}
    for entry in inside:
        for table, more in entry.counts.items():
            theirs[table] = theirs.get(table, TableCounts()).plus(more)
    return [
        f"table {table}: alone it counts {counts.get(table)} in ({start}, {end}], the flow {theirs.get(table)}"
        for table in sorted({*counts, *theirs})
        if _moved(counts.get(table)) != _moved(theirs.get(table))
    ]


def _moved(counts: TableCounts | None) -> TableCounts | None:
    """Return counts with refused rows among those dispatched: which are refused differs from sink to sink."""
    return counts and replace(counts, quarantined=0, dispatched=counts.quarantined + counts.dispatched)
