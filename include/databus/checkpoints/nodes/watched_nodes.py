"""Cached "node is absent", invalidated by a ZooKeeper watch (pause flag, waiting successor).

ZooKeeper notifies a client of a change before it answers any later request of that client, and a client that lost its
connection is notified: until then what was read stands (Programmer's Guide, "ZooKeeper Watches").
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from databus.checkpoints.connection.session import ZooKeeperSession


class _AwaitedWatch(ABC):
    """Awaited znode that is not there, and may come. Safe for several threads."""

    def __init__(self, session: ZooKeeperSession, path: str):
        self._session, self._path = session, path
        self._changes = 0
        self._absent_at: tuple[int, int] | None = None

    def there(self) -> bool:
        """Return whether it is there.

        Raises:
            CheckpointUnavailableError: it had to be asked for, and there was no answer.
            CheckpointError: access denied.
        """
        now = self._changes, self._session.losses
        if self._absent_at == now:
            return False
        found = self._ask()
        if found is False:
            self._absent_at = now
        return bool(found)

    def _changed(self) -> None:
        self._changes += 1

    @abstractmethod
    def _ask(self) -> bool | None:
        """Read, and have `_changed` called once that changes; None where nothing is there that could be watched."""


class AwaitedNode(_AwaitedWatch):
    """A node that may be made."""

    def _ask(self) -> bool | None:
        return self._session.watch(self._path, self._changed)


class AwaitedChildren(_AwaitedWatch):
    """Nodes that may be made under one."""

    def _ask(self) -> bool | None:
        names = self._session.watched_children(self._path, self._changed)
        return None if names is None else bool(names)
