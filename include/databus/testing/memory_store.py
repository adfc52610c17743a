"""Checkpoint store in memory, for tests of the path. Nothing survives the process, so it is no store for a flow."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from databus.checkpoints.codec import decode_as
from databus.core.errors.checkpoint import LeaseBusyError
from databus.core.state.checkpoint import Epoch, HistoryEntry
from databus.testing.memory_amendments import MemoryAmendments
from databus.testing.memory_batches import MemoryBatches
from databus.testing.memory_flows import MemoryFlow, MemoryLease, MemoryServer
from databus.testing.memory_snapshots import MemorySnapshots


class MemoryCheckpoints(MemoryBatches, MemoryAmendments, MemorySnapshots):
    """Implements `databus.core.state.checkpoint_store.CheckpointStore` without durability; atomic through one lock."""

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

    def connected(self) -> bool:
        """Return True: nothing can be cut."""
        return True


__all__ = ["MemoryCheckpoints", "MemoryFlow", "MemoryLease", "MemoryServer"]
