"""Changes of open transactions, in memory up to a bound and then in files."""

from __future__ import annotations

import struct
import tempfile
import weakref
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, overload

from databus.consumer.change import Change, Message
from databus.core.errors.consumer import SpillFullError

_HEAD = struct.Struct("<iqiiiI")
"""Partition, offset, bytes of topic, of key (-1: none), of value, number of headers."""
_HEADER = struct.Struct("<ii")
"""Bytes of a name, of a value (-1: none)."""
Decode = Callable[[Message], Change]


class StoredMessage:
    """Kafka record as a spill file keeps it."""

    __slots__ = ("_headers", "_key", "_offset", "_partition", "_topic", "_value")

    def __init__(self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None, headers: Any):
        self._topic, self._partition, self._offset = topic, partition, offset
        self._key, self._value, self._headers = key, value, headers

    def topic(self) -> str:
        """Return the topic."""
        return self._topic

    def partition(self) -> int:
        """Return the partition."""
        return self._partition

    def offset(self) -> int:
        """Return the offset."""
        return self._offset

    def key(self) -> bytes | None:
        """Return the key."""
        return self._key

    def value(self) -> bytes | None:
        """Return the value."""
        return self._value

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        """Return the headers."""
        return self._headers  # type: ignore[no-any-return]  # what was stored


class SpillRoom:
    """Room that open transactions share: changes in memory, bytes on disk.

    Args:
        memory_changes: changes kept in memory at most.
        disk_bytes: bytes of spill files at most.
        folder: where they are made; None for the system's folder of temporary files.
        decode: makes a change of a stored record, filters applied.
    """

    def __init__(self, memory_changes: int, disk_bytes: int, folder: Path | None, decode: Decode):
        self._most, self._disk, self._folder = memory_changes, disk_bytes, folder
        self.decode = decode
        self.in_memory = self.on_disk = 0
        self._open: dict[int, ChangeList] = {}

    def new(self) -> ChangeList:
        """Return an empty list."""
        return ChangeList(self)

    def grew(self, changes: ChangeList) -> None:
        """Note that a list got a change; the largest lists go to disk where there are too many."""
        self._open[id(changes)] = changes
        self.in_memory += 1
        while self.in_memory > self._most:
            largest = max(self._open.values(), key=lambda each: each.in_memory)
            self.in_memory -= largest.in_memory
            self.on_disk += largest.spill(self._folder)
            if self.on_disk > self._disk:
                raise SpillFullError(
                    f"open transactions take {self.on_disk:,} bytes of disk, of {self._disk:,} that they may"
                )

    def freed(self, changes: ChangeList) -> None:
        """Note that a list has come out."""
        if self._open.pop(id(changes), None) is not None:
            self.in_memory -= changes.in_memory
            self.on_disk -= changes.on_disk


class ChangeList(Sequence[Change]):
    """Changes of one transaction, sorted by their order; in a file where they were too many.

    Args:
        room: room that it shares with others, until it is `finished`.
    """

    def __init__(self, room: SpillRoom):
        self._room = room
        self._memory: list[Change] = []
        self._file: IO[bytes] | None = None
        self._orders, self._offsets = array("q"), array("q")
        self._sorted: Sequence[int] | None = None
        self.on_disk = 0

    @property
    def in_memory(self) -> int:
        """Changes that are in memory."""
        return len(self._memory)

    def add(self, order: int, change: Change) -> None:
        """Add a change.

        Raises:
            SpillFullError: there is no room on disk.
        """
        self._memory.append(change)
        self._orders.append(order)
        self._room.grew(self)

    def spill(self, folder: Path | None) -> int:
        """Move all that is in memory to the file; return its bytes."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="databus-transaction-", dir=folder)  # noqa: SIM115 - lives on
            weakref.finalize(self, self._file.close)
        place = self._file.seek(0, 2)
        begun = place
        for change in self._memory:
            self._offsets.append(place)
            place += self._file.write(_packed(change._message))  # noqa: SLF001 - a change is its record
        self._memory.clear()
        self.on_disk += place - begun
        return place - begun

    def finish(self) -> None:
        """Sort it, and leave the room to others: nothing more is added."""
        self._room.freed(self)
        if self._file is not None and self._memory:
            self.spill(None)
        self._sorted = array("q", sorted(range(len(self._orders)), key=self._orders.__getitem__))

    def __len__(self) -> int:
        return len(self._orders)

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Change]: ...
    def __getitem__(self, index: int | slice) -> Change | Sequence[Change]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        number = index if self._sorted is None else self._sorted[index]
        if self._file is None:
            return self._memory[number]
        self._file.seek(self._offsets[number])
        return self._room.decode(_unpacked(self._file))


def _packed(message: Message) -> bytes:
    topic, key, value = message.topic().encode(), message.key(), message.value() or b""
    headers = message.headers() or ()
    sizes = (len(topic), -1 if key is None else len(key), len(value), len(headers))
    parts = [_HEAD.pack(message.partition(), message.offset(), *sizes), topic, key or b"", value]
    for name, text in headers:
        encoded, raw = name.encode(), text.encode() if isinstance(text, str) else text
        parts += [_HEADER.pack(len(encoded), -1 if raw is None else len(raw)), encoded, raw or b""]
    return b"".join(parts)


def _unpacked(file: IO[bytes]) -> StoredMessage:
    partition, offset, topic_size, key_size, value_size, count = _HEAD.unpack(file.read(_HEAD.size))
    topic = file.read(topic_size).decode()
    key = None if key_size < 0 else file.read(key_size)
    value = file.read(value_size)
    headers = []
    for _ in range(count):
        name_size, size = _HEADER.unpack(file.read(_HEADER.size))
        name = file.read(name_size).decode()
        headers.append((name, None if size < 0 else file.read(size)))
    return StoredMessage(topic, partition, offset, key, value, headers)
