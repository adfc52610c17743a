"""Claiming a flow's lease: the epoch is raised with it, and a successor registers while it waits."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid

from databus.checkpoints.codec import encode
from databus.checkpoints.connection.session import ZooKeeperSession
from databus.checkpoints.connection.transaction import OutcomeUnknownError, RefusedError, create, delete, set_data
from databus.checkpoints.holder import LeaseHolder, encode_epoch, read_epoch, read_holder
from databus.checkpoints.lease import Claim, ZooKeeperLease
from databus.checkpoints.paths import FlowPaths
from databus.core.errors.checkpoint import CheckpointError, CheckpointUnavailableError, LeaseBusyError
from databus.core.protocols.recorder import Clock
from databus.core.state.checkpoint import Epoch
from databus.core.stored_form import Form

WAITER = Form("waiter", "who since")

_log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 5.0
"""A waiter looks at the lease this often even when its watch is silent."""

_FRUITLESS_ROUNDS = 50
"""After so many writes in a row that were refused or cut off, and no holder to be seen, something else is wrong."""


class LeaseClaimant:
    """Attempt of a run to get a flow's lease."""

    def __init__(self, session: ZooKeeperSession, flow: str, paths: FlowPaths, clock: Clock, run_url: str = ""):
        self._session = session
        self._flow = flow
        self._paths = paths
        self._clock = clock
        self._claim = uuid.uuid4().hex
        self._run_url = run_url
        self._queued = False

    def claim(self, who: str, wait_s: float) -> ZooKeeperLease:
        """Take the lease, waiting for at most `wait_s` until it is free.

        Each round reads what is there, and only then writes: so an answer that was lost is found by the next round.

        Raises:
            LeaseBusyError: another run holds it still.
            CheckpointUnavailableError: ZooKeeper does not answer.
        """
        deadline = time.monotonic() + wait_s
        fruitless = 0
        try:
            while fruitless < _FRUITLESS_ROUNDS:
                held, holder = self._round(who)
                if held is not None:
                    return held
                if holder is None:
                    fruitless += 1
                    continue
                fruitless = 0
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise self._busy(holder, wait_s)
                self._wait(left_s, who)
            raise CheckpointUnavailableError(
                f"flow {self._flow}: {fruitless} attempts to claim it were refused or cut off",
                hint=f"Look at the nodes below {self._paths.root}, and at the network to ZooKeeper.",
            )
        finally:
            self._leave_queue()

    def _round(self, who: str) -> tuple[ZooKeeperLease | None, LeaseHolder | None]:
        """Return our lease, or who holds it, or neither when the next round has to look again."""
        epoch_node, lease_node = self._session.read(self._paths.epoch, self._paths.lease, sync=True)
        if epoch_node is None:
            self._prepare()
            return None, None
        if lease_node is not None:
            holder = read_holder(lease_node.data, self._flow)
            if holder.claim != self._claim:
                return None, holder
            if read_epoch(epoch_node.data, self._flow) != holder.epoch:
                return None, None  # the two reads are not one snapshot: ours came in between
            # Its session may have ended since; then `held` is false from the start, and the caller sees it.
            claim = Claim(holder, epoch_node.version, lease_node.owner)
            _log.info("flow %s: epoch %d claimed by %s", self._flow, holder.epoch, who)
            return ZooKeeperLease(self._session, self._flow, self._paths, claim), None
        epoch = Epoch(read_epoch(epoch_node.data, self._flow) + 1)
        here = socket.gethostname(), os.getpid()
        holder = LeaseHolder(who, epoch, self._clock.now(), *here, self._claim, self._run_url)
        try:
            self._session.write(
                [
                    create(self._paths.lease, encode(holder.to_json()), ephemeral=True),
                    set_data(self._paths.epoch, encode_epoch(epoch), epoch_node.version),
                ],
                f"the claim of flow {self._flow}",
            )
        except (OutcomeUnknownError, RefusedError) as error:
            _log.info("flow %s: claim of epoch %d: %s; looking again", self._flow, epoch, error)
        return None, None

    def _prepare(self) -> None:
        """Make the flow's nodes; several runs may do so at once."""
        for path in (self._paths.waiters, self._paths.history):
            self._session.ensure(path)
        try:
            self._session.write([create(self._paths.epoch, encode_epoch(0))], f"the first epoch of flow {self._flow}")
        except (OutcomeUnknownError, RefusedError):
            _log.debug("flow %s: the epoch node was made by another run, or the next round looks again", self._flow)

    def _wait(self, left_s: float, who: str) -> None:
        """Wait until the lease node changes, registered where its holder can see it."""
        self._queued = True
        if not any(name.startswith(self._claim) for name in self._session.children(self._paths.waiters)):
            waiter = encode(WAITER.write({"who": who, "since": self._clock.now().isoformat()}))
            path = f"{self._paths.waiters}/{self._claim}-"
            try:
                self._session.write([create(path, waiter, ephemeral=True, sequence=True)], "the queue for a lease")
            except (OutcomeUnknownError, RefusedError) as error:
                _log.debug("flow %s: %s; the next round looks again", self._flow, error)
                return
        changed = threading.Event()
        if self._session.watch(self._paths.lease, changed.set):
            changed.wait(min(left_s, _LOOK_AGAIN_S))

    def _leave_queue(self) -> None:
        """Delete our entry in the queue, so that the next holder does not think that somebody waits."""
        if not self._queued:
            return
        try:
            for name in self._session.children(self._paths.waiters):
                if name.startswith(self._claim):
                    self._session.write([delete(f"{self._paths.waiters}/{name}")], "leaving the queue for a lease")
        except (CheckpointError, OutcomeUnknownError, RefusedError) as error:
            _log.warning("flow %s: the entry in the queue ends with its session: %s", self._flow, error)

    def _busy(self, holder: LeaseHolder, wait_s: float) -> LeaseBusyError:
        return LeaseBusyError(
            f"flow {self._flow}: the lease is held by {holder}, and was not free within {wait_s:g} s",
            hint=f"Wait for that run, or stop it. If its process is dead, the lease ends by itself after the session's "
            f"timeout of {self._session.options.session_timeout_s:g} s.",
        )
