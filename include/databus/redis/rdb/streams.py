"""Streams of an RDB file: entries in listpacks by a first id, groups, consumers, pending entries.

Sources: Redis 7.0 `rdb.c` (`rdbLoadObject`, streams), `t_stream.c` (the layout above `streamAppendItem`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from databus.redis.byte_reader import ByteReader
from databus.redis.rdb.blobs import BlobError, Item, listpack, texts
from databus.redis.rdb.primitives import corrupt, read_length, read_milliseconds, read_signed, read_string
from databus.redis.rdb.values import Consumer, Group, Pending, Stream, StreamEntry, StreamId

_DELETED, _SAME_FIELDS = 1, 2
_64_BITS = (1 << 64) - 1


def read_stream(reader: ByteReader, *, version: int) -> Stream:
    """Return a stream.

    Args:
        reader: stands behind the key's name.
        version: 1 as Redis 5 and 6 wrote it, 2 as Redis 7.0 does.

    Raises:
        RdbCorruptError: it contradicts itself.
    """
    entries: list[StreamEntry] = []
    for _ in range(read_length(reader)):
        first = _id_of(reader, read_string(reader))
        try:
            entries += _entries(listpack(read_string(reader)), first)
        except BlobError as error:
            raise corrupt(reader, str(error)) from None
    length, last_id = read_length(reader), _read_id(reader)
    later: tuple[StreamId | None, StreamId | None, int | None] = (None, None, None)
    if version > 1:
        later = _read_id(reader), _read_id(reader), read_length(reader)
    if length != len(entries):
        raise corrupt(reader, f"a stream of {len(entries)} entries says {length}")
    ids = [entry.id for entry in entries] + ([last_id] if entries else [])
    if any(left > right for left, right in pairwise(ids)) or len(set(ids[:-1])) != len(entries):
        raise corrupt(reader, "the ids of a stream's entries do not ascend")
    groups = tuple(_read_group(reader, version) for _ in range(read_length(reader)))
    return Stream(tuple(entries), last_id, *later, groups)


def _entries(items: list[Item], first: StreamId) -> Iterator[StreamEntry]:
    """Yield the entries of one listpack that are not deleted.

    Raises:
        BlobError: its counts do not add up.
    """
    walk = _EntryWalk(items)
    left, deleted = walk.number(), walk.number()
    shared = walk.names(walk.number())
    walk.number()
    seen = [0, 0]
    while walk.more():
        flags, ms, seq = walk.number(), walk.number(), walk.number()
        begun = walk.at
        names = shared if flags & _SAME_FIELDS else None
        count = len(shared) if names is not None else walk.number()
        if names is None:
            words = walk.names(count * 2)
            fields = tuple(zip(words[::2], words[1::2], strict=True))
        else:
            fields = tuple(zip(names, walk.names(count), strict=True))
        if walk.at - begun + 3 != walk.number():
            raise BlobError("an entry of a stream has another length than it says")
        seen[flags & _DELETED] += 1
        if not flags & _DELETED:
            yield StreamEntry(StreamId(first.ms + ms & _64_BITS, first.seq + seq & _64_BITS), fields)
    if seen != [left, deleted]:
        raise BlobError(f"a stream's node of {seen[0]} entries and {seen[1]} deleted ones says {left} and {deleted}")


class _EntryWalk:
    """Items of a listpack, one after the other."""

    def __init__(self, items: list[Item]):
        self.items = items
        self.at = 0

    def more(self) -> bool:
        return self.at < len(self.items)

    def number(self) -> int:
        """Return the next item, a number.

        Raises:
            BlobError: there is none.
        """
        item = self.items[self.at] if self.more() else b""
        if not isinstance(item, int):
            raise BlobError("a stream's node has no number where one was to be")
        self.at += 1
        return item

    def names(self, count: int) -> list[bytes]:
        """Return the next items as text.

        Raises:
            BlobError: there are fewer.
        """
        found = texts(self.items[self.at : self.at + count]) if count >= 0 else []
        if len(found) != count:
            raise BlobError(f"a stream's node ends before {count} fields")
        self.at += count
        return found


def _read_group(reader: ByteReader, version: int) -> Group:
    name, last_id = read_string(reader), _read_id(reader)
    read = read_signed(reader) if version > 1 else -1
    pending: dict[StreamId, tuple[int, int]] = {}
    for _ in range(read_length(reader)):
        entry = _id_of(reader, reader.take(16))
        if entry in pending:
            raise corrupt(reader, f"entry {entry} is pending twice in a group")
        pending[entry] = read_milliseconds(reader), read_length(reader)
    consumers: list[Consumer] = []
    owners: dict[StreamId, bytes] = {}
    for _ in range(read_length(reader)):
        consumer = Consumer(read_string(reader), read_milliseconds(reader))
        consumers.append(consumer)
        for _ in range(read_length(reader)):
            entry = _id_of(reader, reader.take(16))
            if entry not in pending or entry in owners:
                raise corrupt(reader, f"a consumer has entry {entry}, which is not pending, or another one's")
            owners[entry] = consumer.name
    if len(owners) != len(pending):
        raise corrupt(reader, "a pending entry of a group is no consumer's")
    listed = tuple(Pending(entry, *pending[entry], owners[entry]) for entry in sorted(pending))
    return Group(name, last_id, None if read == -1 else read, listed, tuple(consumers))


def _read_id(reader: ByteReader) -> StreamId:
    return StreamId(read_length(reader), read_length(reader))


def _id_of(reader: ByteReader, data: bytes) -> StreamId:
    if len(data) != 16:
        raise corrupt(reader, f"the id of a stream's entry has {len(data)} bytes, not 16")
    return StreamId(int.from_bytes(data[:8], "big"), int.from_bytes(data[8:], "big"))
