"""Window of a data topic that its state topic may have already: which of its records are passed over."""

from __future__ import annotations

import hashlib
import sqlite3
import weakref

from databus.core.errors.consumer import StateTopicError

_CACHE_KB = 16_384
"""Memory of a window; what does not fit lies in a temporary file of SQLite's."""
_FAR = 2**62


class ChangesWindow:
    """Records of one partition between two offsets, and what of them the state has.

    Both topics have the rows of a key in the same order. So where the state's row of a key is in the window, the key's
    records up to it are older or the same, and are passed over; where it is not, it is from before the window.
    """

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._db.close)
        for statement in (
            f"PRAGMA cache_size=-{_CACHE_KB}",
            "PRAGMA journal_mode=OFF",
            "PRAGMA synchronous=OFF",
            "CREATE TABLE written (event BLOB PRIMARY KEY, key BLOB, behind INTEGER) WITHOUT ROWID",
            "CREATE TABLE known (key BLOB PRIMARY KEY, behind INTEGER) WITHOUT ROWID",
        ):
            self._db.execute(statement)
        self._written = self._known = 0
        self._cut = _FAR
        self._end = 0

    def note(self, key: bytes | None, event_id: str, offset: int) -> None:
        """Note a record of the window, in the order of offsets.

        Args:
            key: its key; None of a statement (TRUNCATE), behind which rows come again although the state has them.
            event_id: its event id; a tombstone's is that of its delete.
            offset: its offset.
        """
        self._end = offset + 1
        if key is None:
            self._cut = min(self._cut, offset)
            return
        self._written += 1
        self._db.execute("INSERT OR REPLACE INTO written VALUES (?, ?, ?)", (_short(event_id), _short(key), offset + 1))

    def state_has(self, key: bytes, event_id: str) -> None:
        """Note that the state has this row of a key, and so all before it.

        Raises:
            StateTopicError: the window has the row under another key.
        """
        if not self._written:
            return
        found = self._db.execute("SELECT key, behind FROM written WHERE event = ?", (_short(event_id),)).fetchone()
        if found is None:
            return
        if found[0] != _short(key):
            raise StateTopicError(
                f"event {event_id} has the key {key.decode(errors='replace')[:100]} in the state topic, and another "
                "one in the topic of changes",
                hint="Give both sinks of the flow the same key, format and transforms.",
            )
        self._known += 1
        self._db.execute(
            "INSERT INTO known VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET behind = max(behind, excluded.behind)",
            found,
        )

    def passes(self, key: bytes | None, offset: int) -> bool:
        """Return whether a record of the topic of changes is passed over: the state's row is the same or newer."""
        if key is None or not self._known or offset >= self._end or offset > self._cut:
            return False
        found = self._db.execute("SELECT behind FROM known WHERE key = ?", (_short(key),)).fetchone()
        return found is not None and offset < found[0]


def _short(value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return hashlib.blake2b(raw, digest_size=16).digest()
