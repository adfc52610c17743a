"""Turns to dump a stretch of a server's log, so that flows that stand at one place need one dump between them."""

from __future__ import annotations

import logging
import threading
import uuid

from databus.checkpoints.codec import OWNER, decode_as, encode
from databus.checkpoints.connection.session import ZooKeeperSession
from databus.checkpoints.connection.transaction import OutcomeUnknownError, RefusedError, create, delete
from databus.checkpoints.paths import Layout
from databus.core.errors.checkpoint import CheckpointError

_log = logging.getLogger(__name__)


class ZooKeeperDumpTurns:
    """Implements `databus.core.flow_specs.DumpTurns`: one ephemeral node per stretch, gone with the session.

    A turn only saves work: while ZooKeeper is away each flow dumps for itself, and waits for nobody.
    """

    def __init__(self, session: ZooKeeperSession, layout: Layout):
        self._session = session
        self._layout = layout
        self._owner = uuid.uuid4().hex

    def take(self, server: str, stretch: str) -> bool:
        """Return whether the turn is ours; also True when ZooKeeper does not say."""
        if not self._session.online:
            return True
        parent, path = self._paths(server, stretch)
        content = encode(OWNER.write({"owner": self._owner}))
        try:
            self._session.ensure(parent)
            self._session.write([create(path, content, ephemeral=True)], "the turn to dump a log")
        except RefusedError:
            return False
        except (CheckpointError, OutcomeUnknownError) as error:
            _log.debug("the turn to dump %s of %s is not known: %s", stretch, server, error)
        return True

    def release(self, server: str, stretch: str) -> None:
        """Give a turn back; safe to call twice. When ZooKeeper is unreachable it ends with the session."""
        _, path = self._paths(server, stretch)
        if not self._session.online:
            return
        try:
            node = self._session.read(path, sync=True)[0]
            if node is not None and decode_as(node.data, path, OWNER.read).get("owner") == self._owner:
                self._session.write([delete(path, node.version)], "the release of the turn to dump a log")
        except (CheckpointError, OutcomeUnknownError, RefusedError) as error:
            _log.warning("the turn to dump %s of %s ends with its session: %s", stretch, server, error)

    def wait(self, server: str, stretch: str, timeout_s: float) -> bool:
        """Wait until another's turn is over; False when it was not within the time."""
        _, path = self._paths(server, stretch)
        over = threading.Event()
        try:
            return not self._session.watch(path, over.set) or over.wait(timeout_s)
        except CheckpointError as error:
            _log.debug("the turn to dump %s of %s is not known: %s", stretch, server, error)
            return False

    def _paths(self, server: str, stretch: str) -> tuple[str, str]:
        parent = self._layout.dump_turns(server)
        return parent, f"{parent}/{stretch}"
