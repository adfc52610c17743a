"""Sinks of the snapshot model: a log of records with a marker, and documents with versions.

Both see what a consumer sees, and say at once when a key goes back to an older value.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.snapshot_model.entries import Key, Row


class Violation(Exception):  # noqa: N818 - what is looked for
    """An invariant does not hold."""


class Killed(Exception):  # noqa: N818 - a fault
    """The process ends here."""


class Records:
    """Log of records by key, written in transactions that hold a marker: as Kafka."""

    name = "records"

    def __init__(self) -> None:
        self.rows: dict[Key, int] = {}
        self.marker = 0
        self.stale: set[Key] = set()
        self.changes = 0
        self._newest: dict[Key, int] = {}
        self._floor = self._last = 0
        self._read: set[tuple[int, int, Key]] = set()

    def write(self, batch: int, rows: list[Row], point: Callable[[], None]) -> None:
        """Write a batch in one transaction, unless the marker says that it is there.

        Args:
            batch: its number.
            rows: its rows.
            point: where the process may be killed.
        """
        if self.marker == batch:
            return
        point()
        for row in rows:
            self._take(row)
        self.marker = batch

    def _take(self, row: Row) -> None:
        op, key, serial, _, place, snapshot = row
        if op != "r":
            if place < self._last:
                raise Violation(f"records: a change of place {place} comes behind one of {self._last}")
            self._last = place
            self.changes += 1
        if key is None:
            self.rows.clear()
            self.stale.clear()
            self._floor = serial
            return
        if op == "h":
            self.stale.add(key)
            return
        if op == "r":
            if (*snapshot, key) in self._read:
                raise Violation(f"records: key {key} comes twice in snapshot {snapshot}")
            self._read.add((*snapshot, key))
        if serial < self._newest.get(key, 0) or serial < self._floor:
            raise Violation(f"records: key {key} goes back to {serial}")
        self._newest[key] = serial
        self.stale.discard(key)
        if op == "d":
            self.rows.pop(key, None)
        else:
            self.rows[key] = serial


class Documents:
    """Documents by key, each with the version of its row: as a search index.

    Args:
        chance: draws from 0 to 1.
    """

    name = "documents"

    def __init__(self, chance: Callable[[], float]) -> None:
        self.rows: dict[Key, int] = {}
        self.stale: set[Key] = set()
        self._chance = chance
        self._versions: dict[Key, tuple[int, int, int]] = {}
        self._emptied = 0

    def write(self, rows: list[Row], newest: int, point: Callable[[], None]) -> None:
        """Write a batch; what is there already stays, and a kill leaves a part of it.

        Args:
            rows: its rows.
            newest: greatest version that the flow can have written.
            point: where the process may be killed.
        """
        window: dict[Key, Row] = {}
        place = -1
        for row in rows:
            if row.op == "h":
                continue
            if row.key is None:
                self._send(window, newest, point)
                window = {}
                self._clear(row)
                continue
            if row.version != place and window and self._chance() < 0.3:
                self._send(window, newest, point)
                window = {}
            place = row.version
            if row.version < self._emptied:
                if self._emptied > newest:
                    raise Violation(f"documents: emptied at {self._emptied}, ahead of {newest}")
                continue
            before = window.get(row.key)
            if before is None or row.version >= before.version:
                window[row.key] = row
        self._send(window, newest, point)
        for row in rows:
            if row.key is None:
                self.stale.clear()
            elif row.op == "h":
                self.stale.add(row.key)
            else:
                self.stale.discard(row.key)

    def _send(self, window: dict[Key, Row], newest: int, point: Callable[[], None]) -> None:
        for number, (op, key, serial, version, place, _) in enumerate(window.values()):
            if number == 1:
                point()
            stored = self._versions.get(key)
            if stored is not None:
                if stored[0] > newest:
                    raise Violation(f"documents: {key} has version {stored[0]}, ahead of {newest}")
                if version < stored[0]:
                    continue
                if place < stored[2]:
                    raise Violation(f"documents: key {key} goes back to {serial}")
            self._versions[key] = (version, serial, place)
            if op == "d":
                self.rows.pop(key, None)
            else:
                self.rows[key] = serial

    def _clear(self, row: Row) -> None:
        for key in [key for key in self.rows if self._versions[key][0] < row.version]:
            del self.rows[key]
            self._versions[key] = (row.version, row.serial, row.place)
        self._emptied = max(self._emptied, row.version)
