"""Claimed lease: whether it still holds, whether a successor waits, and its release."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from databus.checkpoints.connection.session import ZooKeeperSession
from databus.checkpoints.connection.transaction import OutcomeUnknownError, RefusedError, check, delete
from databus.checkpoints.holder import LeaseHolder
from databus.checkpoints.nodes.watched_nodes import AwaitedChildren
from databus.checkpoints.paths import FlowPaths
from databus.core.errors.checkpoint import CheckpointError, StaleEpochError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Claim:
    """Claim in ZooKeeper: epoch node's data version, lease node's owning session."""

    holder: LeaseHolder
    epoch_version: int
    session_id: int


class ZooKeeperLease:
    """A claimed lease. Ends with `release`, with its session, or when another claims after either.

    Attributes:
        flow: flow name.
        epoch: number of the claim.
    """

    def __init__(self, session: ZooKeeperSession, flow: str, paths: FlowPaths, claim: Claim):
        self.flow = flow
        self.epoch = claim.holder.epoch
        self._session = session
        self._paths = paths
        self._claim = claim
        self._released = False
        self._queue = AwaitedChildren(session, paths.waiters)

    def held(self) -> bool:
        """Return whether the lease is still ours as far as this process knows; asks no server."""
        return not self._released and self._session.alive(self._claim.session_id)

    def confirm(self) -> None:
        """Ask whether this is the latest claim (see `Lease.confirm`)."""
        (node,) = self._session.read(self._paths.epoch, sync=True)
        if node is None or node.version != self._claim.epoch_version:
            raise StaleEpochError(
                f"flow {self.flow}: this run holds epoch {self.epoch}, and the flow has been claimed since",
                hint="Another run has taken over; this one changed nothing.",
            )

    def successor_waiting(self) -> bool:
        """Return whether another run waits for this lease; read once, and again when a ZooKeeper watch fires."""
        return self._queue.there()

    def release(self) -> None:
        """Give the lease up; safe to call twice, and after another claimed it.

        Never raises for an unreachable ZooKeeper: the lease then ends with the session.
        """
        if self._released:
            return
        self._released = True
        try:
            _delete_if_ours(self._session, self._paths, self._claim)
            _log.info("flow %s: epoch %d released", self.flow, self.epoch)
        except CheckpointError as error:
            _log.warning(
                "flow %s: epoch %d could not be released and ends with its session: %s", self.flow, self.epoch, error
            )


def _delete_if_ours(session: ZooKeeperSession, paths: FlowPaths, claim: Claim) -> None:
    """Delete the lease unless the epoch moved on: then the node there is another's."""
    while True:
        try:
            session.write([check(paths.epoch, claim.epoch_version), delete(paths.lease)], "the release of a lease")
        except RefusedError:
            return
        except OutcomeUnknownError:
            epoch, lease = session.read(paths.epoch, paths.lease, sync=True)
            if lease is None or epoch is None or epoch.version != claim.epoch_version:
                return
        else:
            return
