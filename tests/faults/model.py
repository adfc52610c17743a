"""The commit, lease and marker protocol at small size, every interleaving of it, on the product's own code.

Two processes run the same flow over a log of a few units. Each state holds ZooKeeper's nodes, each slot's marker,
producer epoch and visible rows, and where each process stands. A step is one process doing one thing that others can
see, or a fault: a crash (its executor's task may go on as an orphan), the end of a session that its process does not
hear of, an answer of ZooKeeper that is lost although the write was applied, or with the write.

What decides is the product's: `ZooKeeperCheckpoints` (claim, start, write_plan, commit, release, with their multis and
versions) runs on the nodes of the state, `runtime.commit` makes the checkpoint, `markers.compare` judges markers. What
is modelled is Kafka itself (a transaction holds rows and marker; init_transactions fences older producers) and the
writer's steps. A process reads ZooKeeper at one step and writes at a later one, and others may come in between.
A claim may be of another definition of the flow, whose plan in flight it closes by the product's own code, one request
to Kafka at a step (model_closing.py).

Invariants, in every state: each slot shows units 1..n once and in order; the checkpoint is never ahead of a slot; no
write of a claim but the latest is applied; the latest claim never finds a marker that does not fit its plan. From every
state the flow can still be finished.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest import mock

from databus.checkpoints import claimant, flows, zookeeper
from databus.checkpoints.holder import LeaseHolder
from databus.checkpoints.lease import Claim, ZooKeeperLease
from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.errors import DatabusError, LeaseBusyError, StaleEpochError
from databus.core.positions.offsets import OffsetRange
from databus.core.state.checkpoint import Epoch, merged_slots
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.runtime import commit as runtime_commit
from databus.runtime.pacing.batch_sizing import Pace
from databus.runtime.plan import PlannedBatch
from tests.faults.model_closing import Closings
from tests.faults.model_state import (
    CHECKPOINTS,
    FLOW,
    PLANS,
    SINK,
    ModelSession,
    Nodes,
    Process,
    Size,
    Slot,
    State,
    Violation,
    Writer,
    interned,
    put,
    stored_text,
    with_process,
)
from tests.faults.model_writer import is_closed, offset_of, rows_of, standing_of, unit_of, writer_steps

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class Model:
    """The transitions of the model at one size."""

    def __init__(self, size: Size):
        self.size = size
        self.zk = ModelSession()
        connection = Connection(conn_id="model", conn_type="zookeeper", host="model", extra={"history": 1})
        with mock.patch.object(flows, "ZooKeeperSession", return_value=self.zk):
            self.store = zookeeper.ZooKeeperCheckpoints(connection, SimpleNamespace(now=lambda: NOW))
        self._known: dict[int, tuple[int, int]] = {}
        self._nodes: list[Nodes] = []
        self._numbers: dict[Nodes, int] = {}
        self._memory: dict[Any, Any] = {}
        self._closings = Closings()
        self.paths = self.store._layout.flow(FLOW)

    def first(self) -> State:
        """Return the state before anything."""
        return State(self._number(()), (Slot(),) * self.size.slots, (Process(), Process()))

    def finished(self, state: State) -> bool:
        """Tell whether every unit is committed."""
        return self._standing(state.nodes)[0] == self.size.units

    def at_bound(self, state: State) -> bool:
        """Tell whether the bound on claims keeps this state from being finished."""
        return self._standing(state.nodes)[1] >= self.size.epochs

    def check(self, state: State) -> None:
        """Raise Violation unless the invariants hold."""
        committed = self._standing(state.nodes)[0]
        for number, slot in enumerate(state.slots):
            if self.size.resized and number:
                # It has the rows of those plans only that had so many slots; each is asked before its commit.
                if list(slot.seen) != sorted(set(slot.seen)):
                    raise Violation(f"slot {number} shows {slot.seen}")
                continue
            if slot.seen != tuple(rows_of(number, 0, max(slot.seen, default=0))):
                raise Violation(f"slot {number} shows {slot.seen}")
            if len(slot.seen) < len(rows_of(number, 0, committed)):
                raise Violation(f"the checkpoint says {committed}, slot {number} shows {slot.seen}")

    def _standing(self, nodes: int) -> tuple[int, int]:
        """Return the committed unit and the epoch."""
        found = self._known.get(nodes)
        if found is None:
            self._enter(nodes)
            checkpoint = self.store.load(FLOW)
            found = (unit_of(checkpoint.offset) if checkpoint else 0, self.store.epoch(FLOW))
            self._known[nodes] = found
        return found

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield (what happens, state after) for everything that can happen next."""
        for number, process in enumerate(state.processes):
            yield from self._process(state, number, process)
            if process.step != "claim" and state.crashes < self.size.crashes:
                gone = with_process(state._replace(crashes=state.crashes + 1), number, Process())
                yield f"p{number} crashes", gone
                if process.writer is not None and not state.orphans:
                    for orphan in self._tasks(process.writer):
                        yield (
                            f"p{number} crashes, its task of slot {orphan.slot} goes on",
                            gone._replace(orphans=(orphan,)),
                        )
            if process.session and self._owns(state, process.session) and state.expiries < self.size.expiries:
                nodes = self._without(state.nodes, process.session)
                yield f"session of p{number} ends unheard", state._replace(nodes=nodes, expiries=state.expiries + 1)
        living = {p.session for p in state.processes}
        dead = {n[3] for n in self._nodes[state.nodes]} - living - {0}
        for session in dead:
            nodes = self._without(state.nodes, session)
            yield f"session {session} of a dead process ends", state._replace(nodes=nodes)
        for orphan in state.orphans:
            for text, writer, slot in self._write(state, orphan):
                left = (writer,) if isinstance(writer, Writer) else ()
                slots = put(state.slots, orphan.slot, slot)
                yield f"orphan {text}", state._replace(orphans=left, slots=slots)

    def _tasks(self, writer: Writer) -> Iterator[Writer]:
        """Yield the tasks of a batch that may be at work: slots are written side by side."""
        yield writer
        for slot in range(writer.slot + 1, PLANS[writer.plan].sinks[SINK].slots):
            yield Writer(writer.plan, slot)

    # --- one process ---

    def _process(self, state: State, number: int, process: Process) -> Iterator[tuple[str, State]]:
        if process.step == "claim":
            yield from self._claim(state, number)
        elif process.step in ("load", "replan"):
            yield from self._plan(state, number, process)
        elif process.step == "close":
            yield from self._close(state, number, process)
        elif process.step == "open":
            yield from self._open(state, number, process)
        elif process.step == "planned":
            yield from self._stored(state, number, process, self._write_plan, "writes the plan")
        elif process.step == "write":
            yield from self._dispatch(state, number, process)
        elif process.step == "commit":
            yield from self._stored(state, number, process, self._commit, "commits")
        elif process.step == "stop":
            yield from self._stored(state, number, process, self._release, "releases")

    def _claim(self, state: State, number: int) -> Iterator[tuple[str, State]]:
        if self.finished(state) or self.at_bound(state):
            return
        session = state.sessions + 1
        for lose in ("", "write", "answer"):
            if lose and state.lost >= self.size.lost:
                continue
            found = self._remembered(
                ("claim", state.nodes, session, lose), lambda lose=lose: self._claimed(state, lose)
            )
            if found is not None:
                nodes, process = found
                after = state._replace(nodes=nodes, sessions=session, lost=state.lost + bool(lose))
                for definition in range(self.size.definitions):
                    text = f"p{number} claims epoch {process.lease[0]} {lose}" + f" as definition {definition}"
                    yield text, with_process(after, number, process._replace(definition=definition))

    def _claimed(self, state: State, lose: str) -> tuple[int, Process] | None:
        session = state.sessions + 1
        self._enter(state.nodes, session=session, lose=lose)
        try:
            with mock.patch.object(claimant.uuid, "uuid4", return_value=SimpleNamespace(hex=f"{session}")):  # type: ignore[attr-defined]
                lease = self.store.claim(FLOW, "run", 0)
                checkpoint = self.store.load(FLOW) or self.store.start(FLOW, lease, offset_of(0), "run")
        except LeaseBusyError:
            return None
        claim = (lease.epoch, lease._claim.epoch_version)
        process = Process("load", session, claim, stored_text(checkpoint), producers=(0,) * self.size.slots)
        return self._number(self.zk.nodes), process

    def _remembered(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what the product does at a place where it was before."""
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]

    def _pending(self, nodes: int) -> Plan | None:
        self._enter(nodes)
        return self.store.pending_plan(FLOW)

    def _plan(self, state: State, number: int, process: Process) -> Iterator[tuple[str, State]]:
        checkpoint = CHECKPOINTS[process.checkpoint]
        pending = self._remembered(("pending", state.nodes), lambda: self._pending(state.nodes))
        if pending is not None and process.step == "load" and pending.spec_hash != f"spec {process.definition}":
            after = process._replace(step="close", plan=interned(pending))
            yield f"p{number} finds batch {pending.batch} of another definition", with_process(state, number, after)
            return
        if pending is not None and process.step == "load":
            after = process._replace(step="write", plan=interned(pending), cut_off=False)
            after = after._replace(writer=self._writer(after, after.plan, 0))
            if self.size.definitions > 1:  # of one definition nothing is ever closed
                after = after._replace(step="open", writer=None)
            yield f"p{number} takes up batch {pending.batch}", with_process(state, number, after)
            return
        start = unit_of(checkpoint.offset)
        if start >= self.size.units:
            yield f"p{number} has caught up", with_process(state, number, process._replace(step="stop"))
            return
        fewest = 1 if self.size.resized else self.size.slots
        for end, slots in product(range(start + 1, self.size.units + 1), range(fewest, self.size.slots + 1)):
            known = merged_slots(checkpoint.slots, {SINK: process.marks} if process.marks else {}).get(SINK, ())
            batch = 1 + max(checkpoint.batch, *process.marks, 0)
            standing = tuple(standing_of(slot) for slot in state.slots[:slots])
            sinks = {SINK: SinkPlan(slots, standing, {"t": 1}).following(known, batch - 1)}
            spanned = OffsetRange(offset_of(start), offset_of(end))
            plan = Plan(
                "i", FLOW, batch, spanned, sinks, f"spec {process.definition}",
                NOW + dt.timedelta(seconds=process.lease[0]),
            )  # fmt: skip
            after = process._replace(step="planned", plan=interned(plan), read=state.nodes, marks=())
            yield f"p{number} plans {start}..{end} in {slots} slots", with_process(state, number, after)

    def _stored(
        self, state: State, number: int, process: Process, call: Callable[[Process, Any], Process], text: str
    ) -> Iterator[tuple[str, State]]:
        """One write to ZooKeeper: on what was read before or now, answered, or with the answer or the write lost."""
        for read in sorted({process.read if process.read != state.nodes else -1, -1}):
            for lose in ("", "write", "answer"):
                if lose and state.lost >= self.size.lost:
                    continue
                key = (text, process, state.nodes, read, lose)
                made = self._remembered(
                    key, lambda read=read, lose=lose: self._called(state.nodes, read, lose, process, call)
                )
                if made is not None:
                    nodes, after, outcome = made
                    moved = state._replace(nodes=nodes, lost=state.lost + bool(lose))
                    yield f"p{number} {text} {outcome} {lose}", with_process(moved, number, after)

    def _called(
        self, nodes: int, read: int, lose: str, process: Process, call: Callable[[Process, Any], Process]
    ) -> tuple[int, Process, str] | None:
        self._enter(nodes, read, process.session, lose)
        lease = self._lease(process)
        self.zk.claimed = process.lease[1]
        try:
            after, outcome = call(process, lease), ""
        except DatabusError as error:
            after, outcome = process._replace(step="stop", plan="", writer=None, read=-1), error.code
        if lose and self.zk.lose:  # nothing was sent: no answer to lose
            return None
        return self._number(self.zk.nodes), after, outcome

    def _write_plan(self, process: Process, lease: Any) -> Process:
        self.store.write_plan(lease, PLANS[process.plan])
        left = self._number(self.zk.nodes)
        return process._replace(step="write", read=left, writer=self._writer(process, process.plan, 0))

    def _commit(self, process: Process, lease: Any) -> Process:
        plan = PLANS[process.plan]
        batch = PlannedBatch(plan, SourcePlan(plan.range, (), 0, 0), CHECKPOINTS[process.checkpoint], 1)
        session: Any = SimpleNamespace(
            store=self.store,
            clock=SimpleNamespace(now=lambda: NOW),
            identity=SimpleNamespace(run_id="run"),
            sinks=plan.sinks,
            flow=SimpleNamespace(batching=Batching()),
        )
        # As the window does: it goes on from what it has committed.
        checkpoint = runtime_commit.commit(session, lease, batch, {}, (), Pace())
        return process._replace(step="load", checkpoint=stored_text(checkpoint), plan="", read=-1)

    def _release(self, process: Process, lease: Any) -> Process:
        lease.release()
        return Process()

    def _writer(self, process: Process, plan: str, slot: int) -> Writer:
        producer = process.producers[slot]
        return Writer(plan, slot, "marker" if producer else "init", producer, kept=bool(producer))

    def _dispatch(self, state: State, number: int, process: Process) -> Iterator[tuple[str, State]]:
        assert process.writer is not None
        for text, result, slot in self._write(state, process.writer):
            slots = put(state.slots, process.writer.slot, slot)
            if isinstance(result, Writer):
                after = process._replace(writer=result)
            elif not result:
                cut_off = process.cut_off and is_closed(slot, process.writer.plan)
                if text.endswith("sink_marker_diverged") and self._is_latest(state, process) and not cut_off:
                    raise Violation(f"the holder is stopped by its own marker: {text}")
                after = process._replace(step="stop", plan="", writer=None)
            else:
                current = process.writer
                after = process._replace(producers=put(process.producers, current.slot, slot.producer))
                plan = PLANS[current.plan]
                if current.slot + 1 < plan.sinks[SINK].slots:
                    after = after._replace(writer=self._writer(after, current.plan, current.slot + 1))
                else:
                    if self._is_latest(state, process):  # of any other, the commit is refused
                        self._require_rows(plan, slots)
                    after = after._replace(step="commit", writer=None, read=state.nodes)
            yield f"p{number} {text}", with_process(state._replace(slots=slots), number, after)

    def _require_rows(self, plan: Plan, slots: tuple[Slot, ...]) -> None:
        for slot in range(plan.sinks[SINK].slots):
            rows = rows_of(slot, unit_of(plan.range.start), unit_of(plan.range.end))
            if not set(rows) <= set(slots[slot].seen):
                raise Violation(f"batch {plan.batch} counts as written, slot {slot} shows {slots[slot].seen}")

    def _close(self, state: State, number: int, process: Process) -> Iterator[tuple[str, State]]:
        done = self._closings.step(
            PLANS[process.plan], process.answers, state.slots, stale=self._is_stale(state, process)
        )
        after = process._replace(answers=done.answers)
        if done.error is not None:
            if done.error.code == "sink_marker_diverged" and self._is_latest(state, process):
                raise Violation(f"the holder cannot close a plan in flight: {done.error}")
            # What another process has closed meanwhile, that one puts back.
            alone = sum(other.step == "close" for other in state.processes) == 1
            closed = [at for at, slot in enumerate(done.slots) if is_closed(slot, process.plan)]
            if done.error.code == "checkpoint_plan_changed" and alone and self._is_latest(state, process) and closed:
                raise Violation(f"the former definition cannot finish its batch: slots {closed} stay closed")
            after = process._replace(step="stop", plan="", answers=())
        elif done.marks is not None:
            after = process._replace(step="replan", plan="", answers=(), marks=done.marks)
        moved = state._replace(slots=done.slots)
        other = state.processes[1 - number]
        looked = other.step == "write" or (other.step == "open" and other.answers)
        closed, before = (sum(is_closed(s, process.plan) for s in slots) for slots in (done.slots, state.slots))
        if looked and other.plan == process.plan and closed > before:
            moved = moved._replace(processes=put(moved.processes, 1 - number, other._replace(cut_off=True)))
        yield f"p{number} {done.text}", with_process(moved, number, after)

    def _open(self, state: State, number: int, process: Process) -> Iterator[tuple[str, State]]:
        done = self._closings.step(
            PLANS[process.plan], process.answers, state.slots, stale=self._is_stale(state, process), opens=True
        )
        after = process._replace(answers=done.answers)
        if done.error is not None:
            if done.error.code == "sink_marker_diverged" and self._is_latest(state, process):
                raise Violation(f"the holder cannot open its plan again: {done.error}")
            after = process._replace(step="stop", plan="", answers=())
        elif done.done:
            after = process._replace(step="write", answers=(), writer=self._writer(process, process.plan, 0))
        yield f"p{number} {done.text}", with_process(state._replace(slots=done.slots), number, after)

    def _is_stale(self, state: State, process: Process) -> bool:
        """Tell what the product's own question to ZooKeeper says of the claim."""
        return bool(self._remembered(("stale", state.nodes, process.lease), lambda: self._stale(state.nodes, process)))

    def _stale(self, nodes: int, process: Process) -> bool:
        self._enter(nodes, session=process.session)
        try:
            self._lease(process).confirm()
        except StaleEpochError:
            return True
        return False

    def _lease(self, process: Process) -> ZooKeeperLease:
        epoch, version = process.lease
        holder = LeaseHolder("run", Epoch(epoch), NOW, "", 0, "")
        return ZooKeeperLease(self.zk, FLOW, self.paths, Claim(holder, version, process.session))  # type: ignore[arg-type]

    def _is_latest(self, state: State, process: Process) -> bool:
        nodes = self._nodes[state.nodes]
        return any(path == self.paths.epoch and version == process.lease[1] for path, _, version, _ in nodes)

    def _write(self, state: State, writer: Writer) -> Iterator[tuple[str, Writer | bool, Slot]]:
        return writer_steps(writer, state.slots[writer.slot], PLANS[writer.plan])

    def _owns(self, state: State, session: int) -> bool:
        return any(node[3] == session for node in self._nodes[state.nodes])

    def _enter(self, nodes: int, read: int = -1, session: int = 0, lose: str = "") -> None:
        self.zk.nodes, self.zk.session, self.zk.lose = self._nodes[nodes], session, lose
        self.zk.first_read = None if read < 0 else self._nodes[read]
        self.zk.claimed = None
        # One store serves all processes and states here: what a process remembers is the view of its first read.
        self.store._left.clear()

    def _number(self, nodes: Nodes) -> int:
        number = self._numbers.setdefault(nodes, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(nodes)
        return number

    def _without(self, nodes: int, session: int) -> int:
        return self._number(tuple(n for n in self._nodes[nodes] if n[3] != session))
