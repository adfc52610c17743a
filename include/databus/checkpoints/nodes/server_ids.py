"""Replication server ids, leased so that two readers of one server never disconnect each other."""

from __future__ import annotations

import logging
import secrets
import uuid

from databus.checkpoints.codec import OWNER, decode_as, encode
from databus.checkpoints.connection.session import ZooKeeperSession
from databus.checkpoints.connection.transaction import OutcomeUnknownError, RefusedError, create, delete
from databus.checkpoints.paths import Layout
from databus.core.errors.checkpoint import CheckpointError, LeaseBusyError

_log = logging.getLogger(__name__)


class ZooKeeperServerIds:
    """Implements `databus.core.flow_specs.ServerIds`: one ephemeral node per id, gone with the session."""

    def __init__(self, session: ZooKeeperSession, layout: Layout):
        self._session = session
        self._layout = layout
        self._owner = uuid.uuid4().hex

    def lease(self, server: str) -> int:
        """Return an id that no other holder has on `server` ("host:port") until it is released or the session ends.

        Ids are drawn at random: one just given back may still have a dump thread on the server.

        Raises:
            LeaseBusyError: all ids of the range are taken.
            CheckpointUnavailableError: ZooKeeper does not answer.
        """
        parent = self._layout.server_ids(server)
        self._session.ensure(parent)
        first, last = self._session.options.first_server_id, self._session.options.last_server_id
        while True:
            taken = {int(name) for name in self._session.children(parent) if name.isdigit()}
            count = last - first + 1
            start = secrets.randbelow(count)
            free = next((n for i in range(count) if (n := first + (start + i) % count) not in taken), None)
            if free is None:
                raise LeaseBusyError(
                    f"all replication server ids from {first} to {last} are in use on {server}",
                    hint="Widen first_server_id and last_server_id in the ZooKeeper connection's extra.",
                )
            if self._take(f"{parent}/{free}"):
                _log.info("server id %d leased on %s", free, server)
                return free

    def release(self, server: str, server_id: int) -> None:
        """Give an id back; safe to call twice. When ZooKeeper is unreachable it ends with the session."""
        path = f"{self._layout.server_ids(server)}/{server_id}"
        try:
            node = self._session.read(path, sync=True)[0]
            if node is not None and self._is_ours(node.data, path):
                self._session.write([delete(path, node.version)], f"the release of server id {server_id}")
        except (CheckpointError, OutcomeUnknownError, RefusedError) as error:
            _log.warning("server id %d on %s ends with its session: %s", server_id, server, error)

    def _take(self, path: str) -> bool:
        content = encode(OWNER.write({"owner": self._owner}))
        try:
            self._session.write([create(path, content, ephemeral=True)], "the lease of a server id")
        except RefusedError:
            return False
        except OutcomeUnknownError:
            node = self._session.read(path, sync=True)[0]
            return node is not None and self._is_ours(node.data, path)
        return True

    def _is_ours(self, data: bytes, path: str) -> bool:
        return decode_as(data, path, OWNER.read).get("owner") == self._owner
