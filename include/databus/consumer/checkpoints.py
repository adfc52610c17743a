"""Checkpoints of consumers in a file, and in the caller's own database transaction."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from databus.consumer.change import Place
from databus.core.errors.config import ConfigError
from databus.core.errors.consumer import StoredPlaceBusyError, StoredPlaceError, StoredPlaceMovedError

Places = Mapping[Place, int]
"""Topic and partition → offset of the next record."""
_VERSION = 1


class FileCheckpoint:
    """Checkpoint in a file of this machine, which is replaced as a whole: written beside it, synced, renamed.

    One process at a time has it: a lock lies beside it. A consumer with it joins no group; several share the partitions
    by `share=`, each with a file of its own.

    Args:
        path: the file; its folder must be there. E.g. "/var/lib/billing/orders.json".
    """

    def __init__(self, path: str | Path):
        self._path = Path(path)
        self._lock: IO[str] | None = None
        self._places: dict[Place, int] = {}

    def open(self) -> None:
        """Lock the file and read it; nothing if it is open.

        Raises:
            StoredPlaceBusyError: another process has it.
            StoredPlaceError: it cannot be read, or is none.
        """
        if self._lock is not None:
            return
        try:
            lock = self._path.with_name(f"{self._path.name}.lock").open("w")
        except OSError as error:
            raise self._failed("locked", error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise StoredPlaceBusyError(f"checkpoint {self._path} is in use by another process") from None
        self._lock = lock
        try:
            self._places = self._read()
        except BaseException:
            self.close()
            raise

    def load(self) -> dict[Place, int]:
        """Return the stored places; empty before the first."""
        self.open()
        return dict(self._places)

    def store(self, places: Places) -> None:
        """Store places beside those of other partitions; on disk when it returns."""
        self.open()
        kept = {**self._places, **places}
        topics: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(kept.items()):
            topics.setdefault(topic, {})[str(partition)] = offset
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            with beside.open("w") as file:
                json.dump({"v": _VERSION, "next_offsets": topics}, file)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise self._failed("written", error) from error
        self._places = kept

    def close(self) -> None:
        """Let go of the lock; safe to call twice."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _read(self) -> dict[Place, int]:
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._failed("read", error) from error
        try:
            document = json.loads(text)
            if document["v"] != _VERSION:
                raise ValueError(f"version {document['v']}")
            return {
                (topic, int(partition)): int(offset)
                for topic, offsets in document["next_offsets"].items()
                for partition, offset in offsets.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoredPlaceError(
                f"{self._path} is no checkpoint of a consumer: {str(error)[:100]}",
                hint="Bring the right file back, or name another; without it reading begins anew.",
            ) from None

    def _failed(self, what: str, error: OSError) -> StoredPlaceError:
        return StoredPlaceError(
            f"checkpoint {self._path} cannot be {what}: {error.strerror}",
            hint="Make its folder, and let this user write there.",
        )


_MARKS: Mapping[str, str] = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}", "named": ":{}"}


class DatabaseCheckpoint:
    """Checkpoint in a table of the caller's database, saved in the transaction of the change's effects: exactly once.

    Make the table once with `create`. In the loop, `save(cursor)` before your commit: what was delivered up to then,
    the change in hand included, is stored with your effects or not at all. Each save compares the stored places with
    those that this consumer went on from, so a second consumer, or a save that was rolled back, is told and nothing is
    applied twice or left out.

    Args:
        name: of the consumer, e.g. "billing".
        connect: opens a connection of its own, with which places are loaded when partitions are assigned.
        table: default "databus_consumer_places".
        paramstyle: of the driver (PEP 249), e.g. "qmark"; default that of the cursor's module.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], Any],
        table: str = "databus_consumer_places",
        paramstyle: str = "",
    ):
        if not table.replace("_", "").replace(".", "").isalnum():
            raise ConfigError(f"checkpoint {name}: {table!r} is no name of a table")
        if paramstyle and paramstyle not in _MARKS:
            raise ConfigError(f"checkpoint {name}: paramstyle is one of {', '.join(_MARKS)}, not {paramstyle!r}")
        self.name = name
        self._connect, self._table, self._style = connect, table, paramstyle
        self._stored: dict[Place, int] = {}
        self._unsaved: dict[Place, int] = {}
        self._loaded: dict[Place, int] = {}
        self._delivered: Callable[[], Places] | None = None

    def create(self, cursor: Any) -> None:
        """Create the table unless it is there. In MySQL that commits an open transaction."""
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (consumer VARCHAR(190) NOT NULL, topic VARCHAR(249) NOT NULL, "
            "part INTEGER NOT NULL, next_offset BIGINT NOT NULL, PRIMARY KEY (consumer, topic, part))"
        )

    def load(self, cursor: Any) -> dict[Place, int]:
        """Return the stored places.

        Raises:
            StoredPlaceError: there is no table, or it cannot be read.
        """
        query = f"SELECT topic, part, next_offset FROM {self._table} WHERE consumer = {self._marks(cursor, 1)[0]}"  # noqa: S608 - the name is checked
        try:
            cursor.execute(query, (self.name,))
            return {(topic, int(part)): int(offset) for topic, part, offset in cursor.fetchall()}
        except Exception as error:
            raise StoredPlaceError(
                f"checkpoint {self.name}: table {self._table} cannot be read: {error}",
                hint="Run checkpoint.create(cursor) once, as a user that may create tables.",
            ) from error

    def load_anew(self) -> dict[Place, int]:
        """Return the places to go on from: stored ones, and of partitions that come back what the caller still has.

        Stored ones are those that a connection of its own sees.
        """
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            loaded = self.load(cursor)
        self._loaded = loaded
        return {**loaded, **self._unsaved}

    def save(self, cursor: Any) -> None:
        """Store what was delivered, the change in hand included, in the cursor's transaction.

        Raises:
            StoredPlaceMovedError: the stored place is another than this consumer went on from: roll back and `rewind`.
            ConfigError: no `Changes` reads with this checkpoint.
        """
        if self._delivered is None:
            raise ConfigError(f"checkpoint {self.name} belongs to no consumer: Changes(…, checkpoint=checkpoint)")
        update = self._update(cursor)
        for place, offset in {**self._unsaved, **self._delivered()}.items():
            stored = self._stored.get(place)
            if stored == offset:
                continue
            if stored is None:
                self._insert(cursor, place, offset)
            else:
                cursor.execute(update, (offset, self.name, *place, stored))
                if cursor.rowcount != 1:
                    raise self._moved(place, str(stored))
            self._stored[place] = offset
        self._unsaved.clear()

    def bind(self, delivered: Callable[[], Places]) -> None:
        """Belong to a consumer.

        Args:
            delivered: returns place → next offset behind what was delivered.
        """
        self._delivered = delivered

    def pin(self, places: Places) -> None:
        """Store places at which reading begins, in a transaction of their own: who takes over begins there too.

        Raises:
            StoredPlaceMovedError: another consumer has stored one meanwhile.
        """
        if not places:
            return
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            for place, offset in places.items():
                self._insert(cursor, place, offset)
            connection.commit()
        self._stored.update(places)

    def take_up(self, place: Place) -> None:
        """Go on from what `load_anew` returned for a partition that the consumer has now."""
        if self._unsaved.pop(place, None) is None:
            self._stored.pop(place, None)
            if place in self._loaded:
                self._stored[place] = self._loaded[place]

    def give_up(self, place: Place, delivered: int) -> None:
        """Note that a partition goes to another consumer; what is unsaved of it still belongs to the next save.

        Args:
            place: the partition.
            delivered: offset behind what the caller was given; below 0 for nothing.
        """
        if delivered >= 0 and delivered != self._stored.get(place):
            self._unsaved[place] = delivered
        else:
            self._stored.pop(place, None)

    def reset(self) -> None:
        """Forget what was delivered and not saved: the caller's transaction is rolled back, or was committed."""
        self._stored.clear()
        self._unsaved.clear()

    def _moved(self, place: Place, stored: str) -> StoredPlaceMovedError:
        return StoredPlaceMovedError(
            f"checkpoint {self.name}: the stored place of {place[0]}:{place[1]} is not {stored}, at which this "
            "consumer goes on"
        )

    def _insert(self, cursor: Any, place: Place, offset: int) -> None:
        marks = ", ".join(self._marks(cursor, 4))
        insert = f"INSERT INTO {self._table} (consumer, topic, part, next_offset) VALUES ({marks})"  # noqa: S608 - the name is checked
        try:
            cursor.execute(insert, (self.name, *place, offset))
        except Exception as error:
            if "ntegrity" not in type(error).__name__ and "nique" not in type(error).__name__:
                raise
            raise self._moved(place, "none") from error

    def _update(self, cursor: Any) -> str:
        one, two, three, four, five = self._marks(cursor, 5)
        return (
            f"UPDATE {self._table} SET next_offset = {one} "  # noqa: S608 - the name is checked
            f"WHERE consumer = {two} AND topic = {three} AND part = {four} AND next_offset = {five}"
        )

    def _marks(self, cursor: Any, count: int) -> list[str]:
        style = self._style or getattr(sys.modules.get(type(cursor).__module__.partition(".")[0]), "paramstyle", "")
        if style not in _MARKS:
            raise ConfigError(
                f"checkpoint {self.name}: the paramstyle of {type(cursor).__module__} is not known",
                hint='Name it, e.g. paramstyle="qmark".',
            )
        return [_MARKS[style].format(number) for number in range(1, count + 1)]
