"""Lagging sink of a detached holder: it stands still while ZooKeeper is away."""

from __future__ import annotations

from typing import Protocol

from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import CheckpointStore, Lease
from databus.core.state.plan import Plan
from databus.runtime.drain import Drain
from databus.runtime.zookeeper_loss.retrying_store import Retry, RetryingStore

_STAND_STILL = "its sinks that are behind stand still"


class OwnStore(Protocol):
    """The store of the flow itself."""

    def require_attached(self, flow: str, what: str) -> None:
        """Raise CheckpointUnavailableError while ZooKeeper is away."""
        ...

    def highest_batch(self, flow: str) -> int:
        """Return the highest batch number of all checkpoints and plans."""
        ...

    def note_batch(self, batch: int) -> None:
        """Remember that a batch number is used."""
        ...


class SinkView(RetryingStore):
    """The view of a sink that is behind, of a holder that goes on without ZooKeeper: asked once, never waited for."""

    def __init__(self, flows: OwnStore, store: CheckpointStore):
        super().__init__(store, Retry(0.0, Drain()))
        self._flows = flows

    def load(self, flow: str) -> Checkpoint | None:
        """Return the sink's checkpoint."""
        self._flows.require_attached(flow, _STAND_STILL)
        return super().load(flow)

    def pending_plan(self, flow: str) -> Plan | None:
        """Return the sink's plan in flight."""
        self._flows.require_attached(flow, _STAND_STILL)
        return super().pending_plan(flow)

    def highest_batch(self, flow: str) -> int:
        """Return the highest batch number of all."""
        self._flows.require_attached(flow, _STAND_STILL)
        return self._flows.highest_batch(flow)

    def write_plan(self, lease: Lease, plan: Plan) -> None:
        """Write the sink's plan; its number is used from now on, whether the answer comes or not."""
        self._flows.require_attached(plan.flow, _STAND_STILL)
        self._flows.note_batch(plan.batch)
        super().write_plan(lease, plan)
