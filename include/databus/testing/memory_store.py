"""A checkpoint store in memory, for tests of the path. Nothing survives the process, so it is no store for a flow."""

from __future__ import annotations

import copy
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from databus.checkpoints.codec import check_size, decode_as, encode
from databus.checkpoints.nodes.stored_outputs import StoredCheckpoint, restored
from databus.checkpoints.paths import Layout
from databus.checkpoints.rules import history_entries as entries
from databus.checkpoints.rules import lagging_sinks as splits
from databus.checkpoints.rules import plans as transitions
from databus.core.batches.counts import TableCounts
from databus.core.errors import LeaseBusyError
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import Offset
from databus.core.protocols import Clock
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan
from databus.testing.memory_catching_up import MemoryCatchingUp
from databus.testing.memory_mediation import MemoryMediation


@dataclass
class MemoryFlow:
    """One flow's state, stored as the same bytes that ZooKeeper would hold."""

    epoch: Epoch = field(default=Epoch(0))
    holder: tuple[str, str] | None = None  # claim, who
    waiting: set[str] = field(default_factory=set)
    checkpoint: bytes | None = None
    outputs: bytes | None = None
    plan: bytes | None = None
    history: list[bytes] = field(default_factory=list)
    history_number: int = 0
    recorded: int = 0
    gaps: list[bytes] = field(default_factory=list)
    paused: bytes | None = None
    sinks: dict[str, MemoryFlow] = field(default_factory=dict)


class MemoryServer:
    """What several stores of one process share, as several clients share a ZooKeeper."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.flows: dict[str, MemoryFlow] = {}

    def flow(self, name: str) -> MemoryFlow:
        """Return a flow's state, made at first use; call it with `changed` held."""
        Layout().flow(name)  # refuses what is no name
        return self.flows.setdefault(name, MemoryFlow())


class MemoryLease:
    """A claim of a flow in memory."""

    def __init__(self, server: MemoryServer, flow: str, claim: str, epoch: Epoch):
        self.flow = flow
        self.epoch = epoch
        self._server = server
        self._claim = claim

    def held(self) -> bool:
        """Tell whether the lease is still ours."""
        with self._server.changed:
            holder = self._server.flow(self.flow).holder
            return holder is not None and holder[0] == self._claim

    def confirm(self) -> None:
        """Ask whether this is the latest claim."""
        with self._server.changed:
            transitions.check_epoch(self.flow, self.epoch, self._server.flow(self.flow).epoch)

    def successor_waiting(self) -> bool:
        """Tell whether another waits for it."""
        with self._server.changed:
            return bool(self._server.flow(self.flow).waiting)

    def release(self) -> None:
        """Give the lease up; safe to call twice, and after another claimed it."""
        with self._server.changed:
            state = self._server.flow(self.flow)
            if state.holder is not None and state.holder[0] == self._claim:
                state.holder = None
                self._server.changed.notify_all()


class _WallClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class MemoryCheckpoints(MemoryMediation, MemoryCatchingUp):
    """Implements `databus.core.state.checkpoint_store.CheckpointStore` without durability; atomic through one lock."""

    def __init__(self, server: MemoryServer | None = None, clock: Clock | None = None, history: int = 1000):
        self._server = server or MemoryServer()
        self._clock = clock or _WallClock()
        self._history = history
        self._leases: list[MemoryLease] = []
        self._sink = ""

    def close(self) -> None:
        """Let go of this store's leases, as the end of a session does."""
        for lease in self._leases:
            lease.release()

    def list_flows(self) -> Sequence[str]:
        """Return the names of all flows that were ever claimed, sorted."""
        with self._server.changed:
            return tuple(
                sorted(name for name, flow in self._server.flows.items() if flow.epoch > 0 and "." not in name)
            )

    def load(self, flow: str) -> Checkpoint | None:
        """Return the committed checkpoint, None before the first."""
        with self._server.changed:
            return self._load(flow)

    def pending_plan(self, flow: str) -> Plan | None:
        """Return the plan in flight, None when the last one was committed."""
        with self._server.changed:
            return self._plan(flow)

    def history(self, flow: str, last: int) -> Sequence[HistoryEntry]:
        """Return the newest entries, newest first."""
        with self._server.changed:
            stored = self._at(flow).history[-last:] if last > 0 else []
        return tuple(decode_as(data, f"history of flow {flow}", HistoryEntry.from_json) for data in reversed(stored))

    def recorded(self, flow: str, number: int) -> None:
        """Let history entries up to `number` go, those above the number kept."""
        with self._server.changed:
            state = self._server.flow(flow)
            state.recorded = number
            self._trim(state)

    def gaps(self, flow: str) -> Sequence[Gap]:
        """Return the flow's named gaps, oldest first."""
        with self._server.changed:
            stored = list(self._server.flow(flow).gaps)
        return tuple(decode_as(data, f"gaps of flow {flow}", Gap.from_json) for data in stored)

    def claim(self, flow: str, who: str, wait_s: float, run_url: str = "") -> MemoryLease:  # noqa: ARG002 - nobody looks
        """Take the lease and raise the epoch; waits up to `wait_s`, then raises LeaseBusyError naming the holder."""
        claim = uuid.uuid4().hex
        deadline = time.monotonic() + wait_s
        with self._server.changed:
            state = self._server.flow(flow)
            try:
                while state.holder is not None:
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        raise LeaseBusyError(
                            f"flow {flow}: the lease is held by {state.holder[1]} (epoch {state.epoch})"
                        )
                    state.waiting.add(claim)
                    self._server.changed.wait(left_s)
            finally:
                state.waiting.discard(claim)
            state.epoch = Epoch(state.epoch + 1)
            state.holder = (claim, who)
            lease = MemoryLease(self._server, flow, claim, state.epoch)
            self._leases.append(lease)
            return lease

    def start(self, flow: str, lease: Lease, offset: Offset, who: str) -> Checkpoint:
        """Write the first checkpoint of a flow (batch 0)."""
        with self._server.changed:
            state = self._server.flow(flow)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            stored = self._load(flow)
            if stored is not None:
                transitions.check_start(flow, offset, stored)
                return stored
            checkpoint = transitions.first_checkpoint(offset, lease.epoch, who, self._clock.now())
            self._put(
                state, checkpoint, entries.entry(state.history_number + 1, "start", "", None, checkpoint), "the start"
            )
            return checkpoint

    def write_plan(self, lease: Lease, plan: Plan) -> None:
        """Write the plan ahead of reading; replaces one of a lower batch number."""
        with self._server.changed:
            state = self._server.flow(plan.flow)
            transitions.check_epoch(plan.flow, lease.epoch, state.epoch)
            pending = self._plan(plan.flow)
            if pending is not None and pending.hash == plan.hash:
                return
            transitions.check_plan(plan, self._load(plan.flow), pending)
            data = encode(plan.to_json())
            check_size(len(data), f"the plan of batch {plan.batch}")
            self._at(plan.flow).plan = data

    def commit(
        self,
        lease: Lease,
        plan: Plan,
        checkpoint: Checkpoint,
        receipts: Sequence[Mapping[str, Any]],
        counts: Mapping[str, TableCounts],
    ) -> None:
        """Move the checkpoint, delete the plan and append history in one atomic step, or raise and change nothing."""
        transitions.check_commit(lease.epoch, plan, checkpoint)
        with self._server.changed:
            state = self._server.flow(plan.flow)
            previous = self._load(plan.flow)
            if transitions.is_committed(plan, lease.epoch, previous):
                return
            transitions.check_epoch(plan.flow, lease.epoch, state.epoch)
            transitions.check_planned(plan, self._plan(plan.flow), previous)
            if previous is None:
                raise AssertionError("a plan in flight was written after a checkpoint")
            own = self._at(plan.flow)
            entry = entries.commit_entry(own.history_number + 1, previous, checkpoint, receipts, counts)
            self._put(own, checkpoint, entry, f"the commit of batch {plan.batch}")
            own.plan = None

    def connected(self) -> bool:
        """Return True: nothing can be cut."""
        return True

    def of_sink(self, sink: str) -> MemoryCheckpoints:
        """Return a view in which checkpoint, plan and history are those of a sink that is behind."""
        view = copy.copy(self)
        view._sink = sink  # noqa: SLF001 - a view of our own
        return view

    def sinks_behind(self, flow: str) -> Sequence[str]:
        """Return the names of the sinks that have a checkpoint of their own, sorted."""
        with self._server.changed:
            sinks = self._server.flow(flow).sinks
            return tuple(sorted(name for name, own in sinks.items() if own.checkpoint is not None))

    def highest_batch(self, flow: str) -> int:
        """Return the highest batch number of the flow's checkpoints and plans, those of sinks behind included."""
        with self._server.changed:
            views = [self.of_sink(name) for name in ("", *self._server.flow(flow).sinks)]
            kept = [item for view in views for item in (view._load(flow), view._plan(flow))]  # noqa: SLF001
        return max((item.batch for item in kept if item is not None), default=0)

    def detach(self, flow: str, lease: Lease, sink: str, why: str) -> Checkpoint:
        """Give a sink a checkpoint of its own and the plan in flight."""
        Layout().flow(flow).of_sink(sink)  # refuses what is no name
        with self._server.changed:
            state, view = self._server.flow(flow), self.of_sink(sink)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            checkpoint, plan = splits.detached(flow, sink, self._load(flow), self._plan(flow), lease.epoch)
            own, stored = view._at(flow), view._load(flow)  # noqa: SLF001
            if stored is not None:
                splits.check_detached(flow, sink, checkpoint, stored)
                return stored
            entry = entries.entry(own.history_number + 1, "detach", why, None, checkpoint)
            self._put(own, checkpoint, entry, f"the detachment of sink {sink}")
            own.plan = encode(plan.to_json()) if plan else None
            return checkpoint

    def join(self, flow: str, lease: Lease, sink: str, who: str) -> Checkpoint:
        """Let a sink that caught up go with the flow again."""
        with self._server.changed:
            state, view = self._server.flow(flow), self.of_sink(sink)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            own = view._at(flow)  # noqa: SLF001
            stands = (self._load(flow), self._plan(flow)), (view._load(flow), view._plan(flow))  # noqa: SLF001
            joined = splits.joined(flow, sink, *stands, splits.Joining(lease.epoch, who, self._clock.now()))
            why = f"sink {sink} caught up"
            entry = entries.entry(state.history_number + 1, "join", why, joined.offset, joined)
            self._put(state, joined, entry, f"the joining of sink {sink}")
            entry = entries.entry(own.history_number + 1, "join", why, joined.offset, joined)
            self._put(own, joined, entry, f"the joining of sink {sink}")
            own.checkpoint = None
            return joined

    def _at(self, flow: str) -> MemoryFlow:
        state = self._server.flow(flow)
        return state.sinks.setdefault(self._sink, MemoryFlow()) if self._sink else state

    def _put(self, state: MemoryFlow, checkpoint: Checkpoint, entry: HistoryEntry, what: str) -> None:
        stored, appended = StoredCheckpoint.of(checkpoint, entry.number), encode(entry.to_json())
        check_size(len(stored.content) + len(appended), what)
        state.checkpoint, state.outputs = stored.content, stored.outputs
        state.history = [*state.history, appended]
        state.history_number = entry.number
        self._trim(state)

    def _trim(self, state: MemoryFlow) -> None:
        """Delete entries that have pages and that more than the number kept have followed."""
        oldest = state.history_number - len(state.history) + 1
        surplus = min(state.recorded, state.history_number - self._history) - oldest + 1
        state.history = state.history[max(0, surplus) :]

    def _load(self, flow: str) -> Checkpoint | None:
        data, outputs = self._at(flow).checkpoint, self._at(flow).outputs
        return decode_as(data, f"checkpoint of flow {flow}", lambda at: restored(at, outputs)) if data else None

    def _plan(self, flow: str) -> Plan | None:
        data = self._at(flow).plan
        return decode_as(data, f"plan of flow {flow}", Plan.from_json) if data else None
