"""Replaying rows of the quarantine once, after a fix."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from databus.core.batches.receipts import CHECK
from databus.core.errors.checkpoint import CheckpointConflictError, LeaseBusyError, PlanChangedError
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import SinkSettingError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.protocols.sink import Sink
from databus.core.state.checkpoint import Checkpoint, Epoch, merged_slots
from databus.core.state.plan import Plan
from databus.core.stored_form import canonical_json
from databus.ops.checkpoint.amend import Attribution
from databus.ops.quarantine.outcome import ReplayResult, beside, origin_of, outcome, result_of, tally
from databus.ops.quarantine.replay_closing import settled, told
from databus.ops.quarantine.replay_entries import in_replays, stages_of
from databus.ops.quarantine.replay_range import BatchRanges
from databus.ops.quarantine.replay_refusals import (
    ReplayRefusal,
    concerns_its_rows_alone,
    is_gone,
    lost_hint,
    require_none,
    require_passed,
)
from databus.ops.quarantine.replay_rewound import RewoundRows
from databus.ops.quarantine.show import held_rows, replays_of
from databus.records.quarantine.held_row import OTHERWISE, HeldRow, HeldState
from databus.records.quarantine.rows import HeldRows, Selection
from databus.runtime.beside.look import looking
from databus.runtime.beside.replay import ROWS_GONE, ReplayOutcome, pinned_sinks, reopened, replay
from databus.runtime.context import FlowSession, RunIdentity, Services, open_session
from databus.runtime.routing import routes_named, takes
from databus.runtime.takeover.closing import close_for_good, close_unwritten, open_again
from databus.runtime.takeover.forgotten_markers import recall

if TYPE_CHECKING:
    from databus.core.state.checkpoint_store import Lease

log = logging.getLogger(__name__)


def replay_rows(
    flow: Flow, services: Services, run: tuple[Any, RunIdentity], wanted: Selection, said: Attribution
) -> list[ReplayResult]:
    """Replay held rows through the flow's own path, each once, whatever is killed in between.

    A replay is a small flow beside the flow, with lease, plan, checkpoint and markers of its own: one that a kill left
    unfinished is finished first, under its own number, and a sink that had it all writes nothing again. Rows keep
    their event ids. The flow itself may run meanwhile: its rows of the same key may come before a replayed one.

    Args:
        flow: the flow, mended.
        services: the installation.
        run: Spark session, and who runs.
        wanted: which of the held rows.
        said: who and why.

    Raises:
        LeaseBusyError: another replay of the flow runs.
        MarkerDivergedError: nothing shows any more whether the sinks hold an unfinished replay, and the user did not
            consent.
        PlanChangedError: an unfinished replay was begun under another definition of the flow, and partly written.
        ConfigError: the range that held a row back is not known any more.
        OffsetPurgedError, SourceDivergedError: the log that holds the rows is gone.
        CheckpointConflictError: a sink that is to get rows is behind, and has yet to pass their batch's range; or it is
            not known whether the flow moved rows again behind a rewind, and the user did not consent.
        ReplaysRefusedError: that is so of some batches; rows of the others were replayed, or there are several reasons.
        SinkSettingError: a topic is compacted, and the user did not consent.
    """
    spark, identity = run
    try:
        lease = services.store.claim(replays_of(flow), said.who, 0.0)
    except LeaseBusyError as error:
        raise LeaseBusyError(f"another replay of flow {flow.name} runs: {error.message}", hint=error.hint) from error
    try:
        with (
            open_session(flow, services, spark, identity) as opened,
            looking(opened) as session,
            held_rows(flow, services) as rows,
        ):
            work = _Replays(session, services, lease, rows, said)
            done = work.finish()
            held, refused = work.without_rewound(rows.select(replace(wanted, state=HeldState.HELD)))
            for origin, batch in in_replays(held):
                try:
                    done.append(work.begin(origin, batch))
                except DatabusError as error:
                    if not work.is_refusal(error, origin):
                        raise
                    log.info("flow %s: rows of batch %d are not replayed: %s", flow.name, origin, error)
                    refused.append(ReplayRefusal(origin, len(batch), error))
            require_none(flow.name, done, refused)
            return done
    finally:
        lease.release()


@dataclass(frozen=True)
class _Replays:
    """Replays under one claim."""

    session: FlowSession
    services: Services
    lease: Lease
    rows: HeldRows
    said: Attribution

    def finish(self) -> list[ReplayResult]:
        """Take up the replay that a kill left unfinished."""
        pending = self.services.store.pending_plan(self._name)
        if pending is None:
            return []
        taken = self.rows.of_replay(pending.batch)
        with self._sinks(pending) as sinks:
            read = self._ranges.as_written(pending, origin_of(taken), sinks) if taken else pending.range
            marked = replace(pending, range=read)
            recall(sinks, marked, self.lease, self.services.clock.now(), accept=self.said.consents)
            if not taken or not self._takes_up(pending, taken):
                return self._give_up(pending, marked, sinks)
            log.warning("flow %s: replay %d found unfinished, taken up again", self._flow.name, pending.batch)
            open_again(sinks, marked, self.lease)
        try:
            return [self._run(pending, marked, taken)]
        except DatabusError as error:
            if not self._is_gone(error, marked.range):
                raise
            return [self._close(pending, marked, taken, error)]

    def without_rewound(self, held: Sequence[HeldRow]) -> tuple[list[HeldRow], list[ReplayRefusal]]:
        """Return the rows to replay, and those refused, for the flow may have moved them again behind a rewind."""
        now = self.services.clock.now()
        return RewoundRows(self._flow.name, self.services.store, self._ranges, self.said, now).left(held)

    def begin(self, origin: int, taken: Sequence[HeldRow]) -> ReplayResult:
        """Replay rows that one batch had held back."""
        standing = self._standing()
        number = standing.batch + 1
        said = (self.said.who, self.said.why, self.services.clock.now())
        planned = self._ranges.of(origin)
        require_passed(self._flow, self.services.store, planned, taken)
        with reopened(self.session, planned) as source:
            sinks = pinned_sinks(self.session, source, standing.slots)
        self._require_consent(sinks)
        self.rows.take_up(taken, number, origin, said)
        taken = self.rows.of_replay(number)
        sequence = standing.offset.sequence if isinstance(standing.offset, SequenceOffset) else 0
        plan = Plan(
            installation=self.session.settings.installation,
            flow=self._name,
            batch=number,
            range=OffsetRange(SequenceOffset(sequence), SequenceOffset(sequence + 1)),
            sinks=sinks,
            spec_hash=_hash(self.session.spec_hash, taken),
            clock=self.services.clock.now(),
            mode="replay",
        )
        self.services.store.write_plan(self.lease, plan)
        marked = replace(plan, range=planned)
        with self._sinks(plan) as opened:
            recall(opened, marked, self.lease, plan.clock, accept=False)
        try:
            return self._run(plan, marked, taken)
        except DatabusError as error:
            if self._is_gone(error, planned):
                self._close(plan, marked, taken, error)
            raise

    def is_refusal(self, error: DatabusError, origin: int) -> bool:
        """Return whether an error concerns the rows of one batch alone; one whose log is gone says what to do."""
        if concerns_its_rows_alone(error):
            return True
        moved = next(iter(self._ranges.told(origin)), None)
        gone = moved is not None and self._is_gone(error, moved)
        if gone and error.code != ROWS_GONE:  # whose own hint fits replays
            error.hint = lost_hint(self._flow.name)
        return gone

    def _is_gone(self, error: DatabusError, moved: OffsetRange) -> bool:
        standing = self.services.store.load(self._flow.name)
        return is_gone(error, moved, standing.offset if standing else None)

    def _close(self, plan: Plan, marked: Plan, taken: Sequence[HeldRow], why: DatabusError) -> ReplayResult:
        """Close a replay whose rows cannot be read any more: the markers show what became of them."""
        with self._sinks(plan) as sinks:
            closed = close_for_good(sinks, marked, self.lease)
        states, held = settled(taken, plan.batch, self._sinks_of(taken, sinks), closed)
        said, origin = (self.said.who, self.said.why, self.services.clock.now()), origin_of(taken)
        self.session.recorder.quarantine(self._flow.name, origin, held)
        self.rows.settle(plan.batch, origin, states, said)
        self._commit_closed(plan, closed.slots)
        result = result_of(plan.batch, origin, tally(states, held))
        log.warning(
            "flow %s: %s: closed, for it cannot be finished: %s: %s",
            self._flow.name, result.line(), told(closed), why.message,
        )  # fmt: skip
        return result

    def _sinks_of(self, taken: Sequence[HeldRow], names: Collection[str]) -> dict[str, list[str]]:
        """Return table → those of some sinks that take its rows."""
        specs = [self.session.sink_spec(name) for name in sorted(names)]
        routes = {row.table: routes_named(self._flow, row.table) for row in taken}
        return {
            table: [spec.sink_name for spec in specs if any(takes(spec, route) for route in found)]
            for table, found in routes.items()
        }

    def _run(self, plan: Plan, marked: Plan, taken: Sequence[HeldRow]) -> ReplayResult:
        """Replay rows: `marked` is the plan over the range that they come from, which writers get."""
        wanted, answered = stages_of(taken)
        with reopened(self.session, marked.range) as source:
            done = replay(self.session, marked, source, wanted)
        states, again = outcome(answered, done)
        now = self.services.clock.now()
        origin = origin_of(taken)
        self.session.recorder.quarantine(self._flow.name, origin, again)
        unanswered = {row.identity: HeldState.HELD for row in taken if row.identity not in states}
        said = (self.said.who, self.said.why, now)
        self.rows.settle(plan.batch, origin, {**states, **unanswered}, said)
        events = tuple({event_id for event_id, stage in states if stage == CHECK})
        if events:
            others = beside(self.rows.select(Selection(event_ids=events)), states, done)
            self.rows.settle(OTHERWISE, origin, {row.identity: HeldState.REPLAYED for row in others}, said)
        self._commit(plan, done)
        result = result_of(plan.batch, origin, tally(states, again), done.receipts)
        level = logging.WARNING if result.held else logging.INFO
        log.log(level, "flow %s: %s, by %s: %s", self._flow.name, result.line(), self.said.who, self.said.why)
        return result

    def _commit(self, plan: Plan, done: ReplayOutcome) -> None:
        checkpoint = Checkpoint(
            offset=plan.range.end,
            batch=plan.batch,
            epoch=Epoch(self.lease.epoch),
            run_id=self.said.who,
            plan_hash=plan.hash,
            counts=done.tables,
            watermark=None,
            updated_at=self.services.clock.now(),
            slots=merged_slots(
                self._standing().slots, {name: sink.marks_after(plan.batch) for name, sink in plan.sinks.items()}
            ),
        )
        receipts = [receipt.to_json() for receipt in done.receipts]
        self.services.store.commit(self.lease, plan, checkpoint, receipts, done.tables)

    def _give_up(self, pending: Plan, marked: Plan, sinks: Mapping[str, Sink]) -> list[ReplayResult]:
        """Close a replay whose flow has changed since, if no sink holds any of it."""
        closed = close_unwritten(sinks, marked, self.lease)
        if closed.held:
            raise PlanChangedError(
                f"flow {self._flow.name} changed while replay {pending.batch} was half written "
                f"(already in: {', '.join(closed.held)})",
                hint=f"Put the former definition back, let `databus quarantine replay {self._flow.name}` finish, then "
                "change it.",
            )
        self._commit_closed(pending, closed.slots)
        log.warning("flow %s: replay %d was begun under another definition: closed", self._flow.name, pending.batch)
        return []

    def _commit_closed(self, pending: Plan, slots: Mapping[str, tuple[int, ...]]) -> None:
        standing = self._standing()
        end = SequenceOffset(pending.range.end.sequence) if isinstance(pending.range.end, SequenceOffset) else None
        if end is None:
            raise CheckpointConflictError(f"flow {self._name}: the replay's plan is over {pending.range}")
        closed_as = replace(standing, batch=pending.batch, plan_hash=pending.hash, offset=end, counts={})
        moved = replace(
            closed_as,
            epoch=Epoch(self.lease.epoch),
            updated_at=self.services.clock.now(),
            slots=merged_slots(standing.slots, slots),
        )
        self.services.store.commit(self.lease, pending, moved, [], {})

    @contextmanager
    def _sinks(self, pending: Plan) -> Iterator[Mapping[str, Sink]]:
        """Open the sinks of a replay, with its own markers."""
        context = FlowContext(self._name, self.session.settings)
        with ExitStack() as stack:
            sinks: dict[str, Sink] = {}
            for name in (name for name in pending.sinks if name in self.session.sinks):
                sinks[name] = self.session.sink_spec(name).open(self.services.connections, context)
                stack.callback(sinks[name].close)
            yield sinks

    def _standing(self) -> Checkpoint:
        store = self.services.store
        return store.load(self._name) or store.start(self._name, self.lease, SequenceOffset(0), self.said.who)

    def _require_consent(self, sinks: Any) -> None:
        for name, pinned in sinks.items():
            outputs = [f"{output}[0]" for output in pinned.partitions]
            refused = self.session.sinks[name].effect_of(outputs, back=True).refused
            if refused and not self.said.consents:
                raise SinkSettingError(
                    f"flow {self._flow.name}: sink {name}: {refused}",
                    hint="Give --accept if no newer row of these keys was sent.",
                    code="sink_refuses_move",
                )

    def _takes_up(self, pending: Plan, taken: Sequence[HeldRow]) -> bool:
        """Return whether a replay in flight may be finished by flow and code as they are (see `Flow.takes_up`)."""
        specs = self._flow.hashes_alike(self.session.identity.plan_code)
        return any(_hash(spec, taken) == pending.spec_hash for spec in specs)

    @property
    def _ranges(self) -> BatchRanges:
        sinks = [spec.sink_name for spec in self._flow.sinks]
        return BatchRanges(self._flow.name, self.services.store, self.rows, sinks)

    @property
    def _flow(self) -> Flow:
        return self.session.flow

    @property
    def _name(self) -> str:
        return replays_of(self.session.flow)


def _hash(spec: str, taken: Sequence[HeldRow]) -> str:
    """Return what changes with the flow and the code (their hash is `spec`) and with the rows taken up."""
    rows = sorted([row.event_id, row.stage] for row in taken)
    return hashlib.sha256(canonical_json({"spec": spec, "rows": rows})).hexdigest()[:16]
