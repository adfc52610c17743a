"""Flows in memory, as all parts of the memory store read and write them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime

from databus.checkpoints.codec import check_size, decode_as, encode
from databus.checkpoints.nodes.stored_outputs import StoredCheckpoint, restored
from databus.checkpoints.paths import Layout
from databus.checkpoints.rules import history_entries as entries
from databus.checkpoints.rules import plans as transitions
from databus.checkpoints.rules.snapshots import after_batch
from databus.core.protocols.recorder import Clock
from databus.core.state.amendments import Pause
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.state.plan import Plan
from databus.core.state.snapshot import Snapshot


@dataclass
class MemoryFlow:
    """Flow state in memory, stored as the same bytes that ZooKeeper would hold."""

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
    snapshot: bytes | None = None
    scope: bytes | None = None
    sinks: dict[str, MemoryFlow] = field(default_factory=dict)


class MemoryServer:
    """Memory server that several stores of one process share, as several clients share a ZooKeeper."""

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
        """Return whether the lease is still ours."""
        with self._server.changed:
            holder = self._server.flow(self.flow).holder
            return holder is not None and holder[0] == self._claim

    def confirm(self) -> None:
        """Ask whether this is the latest claim."""
        with self._server.changed:
            transitions.check_epoch(self.flow, self.epoch, self._server.flow(self.flow).epoch)

    def successor_waiting(self) -> bool:
        """Return whether another waits for it."""
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


class MemoryFlows:
    """State and reads that the parts of a store share; a view of one sink has its own."""

    def __init__(self, server: MemoryServer | None = None, clock: Clock | None = None, history: int = 1000):
        self._server = server or MemoryServer()
        self._clock = clock or _WallClock()
        self._history = history
        self._leases: list[MemoryLease] = []
        self._sink = ""

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

    def _said(self, flow: str, checkpoint: Checkpoint, action: str, said: Pause) -> None:
        state = self._server.flow(flow)
        entry = entries.pause_entry(state.history_number + 1, checkpoint, action, (said.who, said.why, said.at))
        self._put(state, checkpoint, entry, f"the {action}")

    def _moved_snapshot(self, flow: str, plan: Plan) -> None:
        """Move the flow's snapshot by a batch that is committed; a sink that is behind moves it by none."""
        if plan.chunks is not None and not self._sink:
            after = after_batch(self._snapshot(flow), plan.chunks.snapshot)
            self._server.flow(flow).snapshot = encode(after.to_json())

    def _load(self, flow: str) -> Checkpoint | None:
        data, outputs = self._at(flow).checkpoint, self._at(flow).outputs
        return decode_as(data, f"checkpoint of flow {flow}", lambda at: restored(at, outputs)) if data else None

    def _plan(self, flow: str) -> Plan | None:
        data = self._at(flow).plan
        return decode_as(data, f"plan of flow {flow}", Plan.from_json) if data else None

    def _snapshot(self, flow: str) -> Snapshot | None:
        data = self._server.flow(flow).snapshot
        return decode_as(data, f"snapshot of flow {flow}", Snapshot.from_json) if data else None
