"""Source head and a flow's place, cheaply: ZooKeeper and one look at the source, no records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from databus.core.connections import ConnectionSource
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.protocols.optional_source import SharedLogSource
from databus.core.settings import Settings
from databus.core.state.snapshot_progress import SnapshotProgress
from databus.ops.health.distance import distance, rests
from databus.ops.health.status import FlowLook

Seen = TypeVar("Seen")


@dataclass(frozen=True)
class FlowPosition:
    """A flow's place, as plain values for a trigger's event.

    Attributes:
        flow: flow name.
        committed: committed offset in text form, "" before the first run.
        head: head of the source's log in text form.
        lag_bytes: log bytes between them, None where the source does not know or before the first run.
        lag_seconds: age of the oldest uncommitted change; 0.0 when nothing is to be moved.
        running: whether a run holds the flow's lease.
        changed: whether anything of the flow's own was changed; None where only the whole log was looked at.
        snapshot: how far a snapshot that is under way has come; "" without one, and where nobody asked.
    """

    flow: str
    committed: str
    head: str
    lag_bytes: int | None
    lag_seconds: float | None
    running: bool = False
    changed: bool | None = None
    snapshot: str = ""

    @property
    def stands(self) -> str:
        """Text that is another one whenever the flow has moved, also by rows of a snapshot alone; "" before any run."""
        return f"{self.committed} {self.snapshot}".rstrip()

    @property
    def has_changes(self) -> bool:
        """Return whether there is something to move: a flow that never ran, or reads a snapshot, always has."""
        if not self.committed or self.snapshot:
            return True
        return self.lag_bytes != 0 if self.changed is None else self.changed

    def within(self, max_seconds: float | None, max_bytes: int | None) -> bool:
        """Return whether the lag is known and does not exceed what is given; a flow that never ran is not."""
        if not self.committed:
            return False
        asked = [(self.lag_seconds, max_seconds), (self.lag_bytes, max_bytes)]
        return all(value is not None and value <= bound for value, bound in asked if bound is not None)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "flow": self.flow,
            "committed": self.committed,
            "head": self.head,
            "lag_bytes": self.lag_bytes,
            "lag_seconds": self.lag_seconds,
            "running": self.running,
            "changed": self.changed,
            **({"snapshot": self.snapshot} if self.snapshot else {}),
        }


@dataclass(frozen=True)
class SnapshotSeen:
    """A flow's last snapshot, seen from outside any run.

    Attributes:
        progress: how far it has come, at the rate of the looks so far; None before the first.
        running: whether a run holds the flow's lease.
    """

    progress: SnapshotProgress | None
    running: bool


class HeadLook:
    """Looks again and again, as `FlowLook` does; used by one thread at a time."""

    def __init__(self, flow: Flow, connections: ConnectionSource, settings: Settings | None = None) -> None:
        self._look = FlowLook(flow, connections, settings or Settings.from_environment())

    def place(self) -> FlowPosition:
        """Return the flow's place; a connection that was cut since the last look is opened again.

        Raises:
            DatabusError: ZooKeeper or the source does not answer.
        """
        return self._looked(self._place)

    def change(self) -> FlowPosition:
        """Return the flow's place, for who wants to know whether there is something to move: without a lag if not.

        Raises:
            DatabusError: ZooKeeper or the source does not answer.
        """
        return self._looked(self._change)

    def snapshot(self) -> SnapshotSeen:
        """Return how far the flow's last snapshot has come; the source is not asked.

        Raises:
            DatabusError: ZooKeeper does not answer.
        """
        return self._looked(self._seen)

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        self._look.close()

    def _looked(self, look: Callable[[], Seen]) -> Seen:
        try:
            try:
                return look()
            except DatabusError:
                self.close()
                return look()
        finally:
            self._look.rest()

    def _change(self) -> FlowPosition:
        at, source = self._look.position(), self._look.source()
        if at is None or not isinstance(source, SharedLogSource):
            return self._place()
        snapshot = self._snapshot()
        if not rests(self._look.flow, self._look.store) and source.changed_since(at[1]):
            return replace(self._place(), changed=True, snapshot=snapshot)
        running = self._look.store.holder(self._look.flow.name) is not None
        return FlowPosition(self._look.flow.name, str(at[1]), "", None, None, running, changed=False, snapshot=snapshot)

    def _seen(self) -> SnapshotSeen:
        store = self._look.store
        return SnapshotSeen(self._look.snapshot(), store.holder(self._look.flow.name) is not None)

    def _snapshot(self) -> str:
        """Return how far a snapshot has come that is under way: its rows wait, though nothing is logged."""
        found = self._look.store.snapshot(self._look.flow.name)
        if found is None or not found.under_way:
            return ""
        return f"snapshot-{found.number}-{sum(table.chunks for table in found.tables)}"

    def _place(self) -> FlowPosition:
        name, at, source = self._look.flow.name, self._look.position(), self._look.source()
        running = self._look.store.holder(name) is not None
        if at is None:
            return FlowPosition(name, "", str(source.latest_offset()), None, None, running)
        lag, _ = distance(self._look.flow, self._look.store, source, at[1])
        return FlowPosition(name, str(at[1]), lag.head, lag.bytes, lag.seconds, running)
