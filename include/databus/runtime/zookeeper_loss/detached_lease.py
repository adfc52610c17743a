"""Detached lease of a holder that may run without ZooKeeper."""

from __future__ import annotations

from typing import Protocol

from databus.core.state.checkpoint import Epoch
from databus.core.state.checkpoint_store import Lease


class DetachingStore(Protocol):
    """The store of the flow."""

    @property
    def detached(self) -> bool:
        """Return whether the holder goes on without ZooKeeper just now."""
        ...

    def successor_waiting(self, flow: str, lease: Lease) -> bool:
        """Return whether another run waits for the lease."""
        ...


class DetachableLease:
    """A lease that counts as held while its holder goes on without ZooKeeper: the register fences it then."""

    def __init__(self, lease: Lease, store: DetachingStore, flow: str):
        self.epoch: Epoch = lease.epoch
        self._flow = flow
        self._lease = lease
        self._store = store

    def held(self) -> bool:
        """Return whether the lease is still ours as far as this process knows."""
        return self._store.detached or self._lease.held()

    def confirm(self) -> None:
        """Ask ZooKeeper whether this is the latest claim; while it is away nobody can say."""
        self._lease.confirm()

    def successor_waiting(self) -> bool:
        """Return whether another run waits for it."""
        return self._store.successor_waiting(self._flow, self._lease)

    def release(self) -> None:
        """Give it up."""
        self._lease.release()
