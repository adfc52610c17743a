"""ZooKeeper session: lazily opened, with reads that survive a reconnect and writes that never repeat themselves."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ZookeeperError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from databus.checkpoints.codec import check_size
from databus.checkpoints.connection.client import new_client, reachability, tls_fault
from databus.checkpoints.connection.options import ZooKeeperOptions
from databus.checkpoints.connection.transaction import (
    Operation,
    OperationKind,
    OutcomeUnknownError,
    first_refusal,
    size_bytes,
)
from databus.core.connections import Connection
from databus.core.errors.checkpoint import CheckpointError, CheckpointUnavailableError

_log = logging.getLogger(__name__)

_LOST = (ConnectionLoss, SessionExpiredError, SessionMovedError, OperationTimeoutError, KazooTimeoutError)
_DENIED = (NoAuthError, AuthFailedError, InvalidACLError)


@dataclass(frozen=True)
class Node:
    """A node as it was read.

    Attributes:
        data: content.
        version: data version.
        owner: session id of an ephemeral's creator, 0 for a persistent node.
    """

    data: bytes
    version: int
    owner: int


class ZooKeeperSession:
    """A client and its session. Safe for several threads; not across a fork.

    After the session expired the client opens another by itself: what hung on the old one is gone, and `alive` says so.
    """

    def __init__(self, options: ZooKeeperOptions, conn_id: str):
        self.options = options
        self._conn_id = conn_id
        self._lock = threading.Lock()
        self._client: Any = None
        self._current: Any = None
        self._online = threading.Event()
        self._session_id: int | None = None
        self._suspended_at: float | None = None
        self._losses = 0

    def read(self, *paths: str, sync: bool = False) -> list[Node | None]:
        """Read nodes in the order given, with one round trip; None for a node that is not there.

        Args:
            paths: nodes.
            sync: first bring the server that answers up to date with the leader.

        Raises:
            CheckpointUnavailableError: no answer within `operation_timeout_s`.
            CheckpointError: access denied.
        """

        def issue(client: Any) -> list[Any]:
            first = [client.sync_async(self.options.root)] if sync else []
            return first + [client.get_async(path) for path in paths]

        answers = self._retrying(issue)[1 if sync else 0 :]
        return [a and Node(a[0], a[1].version, a[1].ephemeralOwner) for a in answers]

    def children(self, path: str) -> list[str]:
        """Return the sorted names under a node; none when it is not there. Raises as `read`."""
        answer = self._retrying(lambda client: [client.get_children_async(path)])[0]
        return sorted(answer or ())

    def acls(self, path: str) -> list[tuple[str, str]]:
        """Return (scheme, id) of each entry of a node's ACL; none when it is not there. Raises as `read`."""
        answer = self._retrying(lambda client: [client.get_acls_async(path)])[0]
        return [(acl.id.scheme, acl.id.id) for acl in answer[0]] if answer else []

    def changed_at(self, path: str) -> datetime | None:
        """Return when a node's content was last written; None when it is not there. Raises as `read`."""
        stat = self._retrying(lambda client: [client.exists_async(path)])[0]
        return datetime.fromtimestamp(stat.mtime / 1000, UTC) if stat else None

    def now(self, path: str) -> datetime:
        """Return the time by the clock of ZooKeeper's leader: that of a write to a node that holds nothing else.

        Raises as `read`.
        """
        self.ensure(path)
        stat = self._retrying(lambda client: [client.set_async(path, b"")])[0]
        if stat is None:
            raise CheckpointError(f"ZooKeeper (connection {self._conn_id}): {path} was deleted by somebody else")
        return datetime.fromtimestamp(stat.mtime / 1000, UTC)

    def watch(self, path: str, changed: Callable[[], None]) -> bool:
        """Return whether a node is there; call `changed` once it changes or the connection does. Raises as `read`."""
        return self._retrying(lambda client: [client.exists_async(path, lambda _event: changed())])[0] is not None

    def watched_children(self, path: str, changed: Callable[[], None]) -> list[str] | None:
        """Return the names under a node, and call `changed` once they change or the connection does. Raises as `read`.

        None, and no call, when the node is not there.
        """
        names: list[str] | None = self._retrying(lambda c: [c.get_children_async(path, lambda _event: changed())])[0]
        return names

    def ensure(self, path: str) -> None:
        """Make a persistent empty node and its parents unless they are there; idempotent. Raises as `read`."""
        parts = path.strip("/").split("/")
        steps = ["/" + "/".join(parts[: i + 1]) for i in range(len(parts))]
        # Looked for first: a client may own the root without the right to create beside it.
        found = self._retrying(lambda client: [client.exists_async(step) for step in steps])
        missing = [step for step, there in zip(steps, found, strict=True) if there is None]
        if missing:
            self._retrying(lambda client: [client.create_async(step) for step in missing])

    def write(self, operations: Sequence[Operation], what: str) -> list[Any]:
        """Apply all operations or none; sent once, never repeated.

        Args:
            operations: in order.
            what: names the write in errors.

        Returns:
            kazoo's result of each operation: the path of a created node, the ZnodeStat of a set one, else True.

        Raises:
            CheckpointTooLargeError: over the bound on the size; nothing was sent.
            CheckpointUnavailableError: no connection to send it on; nothing was sent.
            OutcomeUnknownError: sent, or queued, but not answered.
            RefusedError: refused; nothing was changed.
            CheckpointError: access denied; nothing was changed.
        """
        check_size(size_bytes(operations), what)
        client = self._connected(time.monotonic() + self.options.operation_timeout_s)
        request = client.transaction()
        for o in operations:
            if o.kind is OperationKind.CREATE:
                request.create(o.path, o.data, ephemeral=o.ephemeral, sequence=o.sequence)
            elif o.kind is OperationKind.SET:
                request.set_data(o.path, o.data, o.version)
            elif o.kind is OperationKind.DELETE:
                request.delete(o.path, o.version)
            else:
                request.check(o.path, o.version)
        try:
            results: list[Any] = request.commit_async().get(timeout=self.options.operation_timeout_s)
        except _LOST as error:
            raise OutcomeUnknownError(f"{what}: {type(error).__name__}") from error
        except ZookeeperError as error:
            raise self._failed(error) from error
        refusal = first_refusal(operations, results)
        if refusal is None:
            return results
        if isinstance(refusal.cause, _DENIED):
            raise self._failed(refusal.cause) from refusal
        raise refusal

    def alive(self, session_id: int) -> bool:
        """Return whether a session of this client still holds what was created under it, as far as is known here.

        A connection that has been down for the session's whole timeout counts as ended, although it may come back:
        ZooKeeper itself may have been down.
        """
        suspended = self._suspended_at
        if self._session_id != session_id:
            return False
        return suspended is None or time.monotonic() - suspended < self.options.session_timeout_s

    @property
    def losses(self) -> int:
        """Count of lost or closed connections: watches left before the last of them do not count any more."""
        return self._losses

    @property
    def online(self) -> bool:
        """Return whether it is connected now, as far as is known here; does not connect."""
        return self._online.is_set()

    def close(self) -> None:
        """End the session and with it everything ephemeral; safe to call twice. The next call opens a new one."""
        with self._lock:
            client, self._client = self._client, None
            self._current = None
            self._online.clear()
            self._session_id = None
            self._losses += 1
        if client is not None:
            client.stop()
            client.close()

    def detach(self) -> Any:
        """Return the connected client, which is the caller's to stop from now on. Raises as `read`."""
        client = self._connected(time.monotonic() + self.options.connect_timeout_s)
        with self._lock:
            self._client = self._current = None
            self._session_id = None
            self._online.clear()
            self._losses += 1
        return client

    def _retrying(self, issue: Callable[[Any], list[Any]]) -> list[Any]:
        """Send requests that may be repeated until all are answered; NoNode and NodeExists count as the answer None."""
        deadline = time.monotonic() + self.options.operation_timeout_s
        while True:
            pending = issue(self._connected(deadline))
            try:
                return [_answer(p, max(0.1, deadline - time.monotonic())) for p in pending]
            except _LOST as error:
                if time.monotonic() >= deadline:
                    raise self._unavailable(type(error).__name__) from error
            except ZookeeperError as error:
                raise self._failed(error) from error

    def _connected(self, deadline: float) -> Any:
        """Return the client once it is connected, opening it at the first call."""
        with self._lock:
            if self._client is None:
                self._client = self._open()
            client = self._client
        if not self._online.wait(max(0.0, deadline - time.monotonic())):
            raise self._unavailable("the connection was lost and did not come back")
        return client

    def _open(self) -> Any:
        client = self._current = new_client(self.options)
        client.add_listener(lambda state: self._on_state(client, state))
        try:
            client.start(timeout=self.options.connect_timeout_s)
        except KazooTimeoutError as error:
            raise self._no_session() from error
        return client

    def _no_session(self) -> CheckpointError:
        found = tls_fault(self.options, self._conn_id)
        if found is None:
            return self._unavailable(f"no session within {self.options.connect_timeout_s:g} s")
        fault, detail = found
        return CheckpointError(
            f"ZooKeeper (connection {self._conn_id}, {self.options.hosts}): {fault.what}: {detail}",
            hint=fault.hint.format(ca="use_ssl and ca", cert="certfile and keyfile"),
            code=fault.code,
        )

    def _on_state(self, client: Any, state: str) -> None:
        """Follow the connection; runs in kazoo's thread and must not block."""
        if client is not self._current:
            return
        if state == KazooState.CONNECTED:
            identity = client.client_id
            self._session_id = identity[0] if identity else None
            if self._suspended_at is not None:
                _log.info("ZooKeeper (connection %s): connected again", self._conn_id)
            self._suspended_at = None
            self._online.set()
            return
        self._online.clear()
        self._losses += 1
        if state == KazooState.LOST:
            self._session_id = None
            _log.warning("ZooKeeper (connection %s): the session has ended, its leases with it", self._conn_id)
        else:
            self._suspended_at = time.monotonic()
            _log.warning("ZooKeeper (connection %s): the connection was lost, reconnecting", self._conn_id)

    def _unavailable(self, reason: str) -> CheckpointUnavailableError:
        return CheckpointUnavailableError(
            f"ZooKeeper (connection {self._conn_id}) cannot be reached: {reason}: {reachability(self.options.hosts)}",
            hint=f"Check that ZooKeeper runs at {self.options.hosts}: `echo srvr | nc HOST PORT` names its mode. "
            f"Address and timeouts are those of the connection {self._conn_id}.",
        )

    def _failed(self, error: Exception) -> CheckpointError:
        if isinstance(error, _DENIED):
            return CheckpointError(
                f"ZooKeeper (connection {self._conn_id}) denies access below {self.options.root} "
                f"to {self.options.login or 'a client without a login'}: {type(error).__name__}",
                code="checkpoint_access_denied",
                hint=f"Set the login and password that made {self.options.root} in the connection {self._conn_id}, "
                "or use another root.",
            )
        return CheckpointError(f"ZooKeeper (connection {self._conn_id}): {type(error).__name__}: {error}")


def start_client(connection: Connection) -> Any:
    """Return a started KazooClient for a connection; the caller stops and closes it.

    Raises:
        CheckpointUnavailableError: no server answers.
        ConfigError: a bad or unknown option.
    """
    return ZooKeeperSession(ZooKeeperOptions.from_connection(connection), connection.conn_id).detach()


def _answer(pending: Any, timeout_s: float) -> Any:
    try:
        return pending.get(timeout=timeout_s)
    except (NoNodeError, NodeExistsError):
        return None
