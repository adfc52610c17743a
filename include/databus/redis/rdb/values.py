"""Values of Redis' keys as an RDB file holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class StreamId(NamedTuple):
    """Id of a stream's entry; as text `ms-seq`, as Redis prints it."""

    ms: int
    seq: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """Entry of a stream: its id, and (field, value) in order; a field may come twice."""

    id: StreamId
    fields: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Pending:
    """Entry of a stream that a group delivered and nobody acknowledged.

    Attributes:
        id: of the entry, which may be deleted meanwhile.
        delivered_ms: time of the last delivery, ms since the epoch.
        deliveries: how often it was delivered.
        consumer: who has it.
    """

    id: StreamId
    delivered_ms: int
    deliveries: int
    consumer: bytes


@dataclass(frozen=True, slots=True)
class Consumer:
    """Consumer of a group, and when it was last seen (ms since the epoch)."""

    name: bytes
    seen_ms: int


@dataclass(frozen=True, slots=True)
class Group:
    """Consumer group of a stream.

    Attributes:
        name: of the group.
        last_id: of the entry that was delivered last.
        entries_read: how many were delivered, by Redis' count; None where the file does not know it.
        pending: in order of ids.
        consumers: in the file's order.
    """

    name: bytes
    last_id: StreamId
    entries_read: int | None
    pending: tuple[Pending, ...]
    consumers: tuple[Consumer, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """Stream: its entries in order of ids, and its groups.

    Attributes:
        entries: that are left.
        last_id: greatest id that was ever added.
        first_id: id of the first entry that is left; as `max_deleted_id` and `entries_added` None in files before
            Redis 7.0.
        max_deleted_id: greatest id that was deleted.
        entries_added: how many were ever added.
        groups: in the file's order.
    """

    entries: tuple[StreamEntry, ...]
    last_id: StreamId
    first_id: StreamId | None
    max_deleted_id: StreamId | None
    entries_added: int | None
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class ModuleValue:
    """Value of a module's own type, not understood: which module, and the parts it wrote.

    Attributes:
        module: name of the type, nine characters.
        encoding_version: version of the module's encoding.
        parts: whole numbers, floating-point numbers and bytes, in order.
    """

    module: str
    encoding_version: int
    parts: tuple[int | float | bytes, ...]


Value = bytes | list[bytes] | set[bytes] | dict[bytes, bytes] | dict[bytes, float] | Stream | ModuleValue
"""Value of a key: string, list, set, hash, sorted set (member → score), stream, a module's."""


@dataclass(frozen=True, slots=True)
class Key:
    """Key of a database with its value.

    Attributes:
        database: number of the database.
        name: of the key.
        kind: string, list, set, hash, zset, stream or module.
        value: as `kind` says.
        encoding: form in which the file holds the value, such as "listpack".
        expires_at_ms: when it expires, ms since the epoch; None: never. A file may hold keys that have expired.
        idle_s: seconds since it was used, in files of servers that evict by last use; else None.
        frequency: counter of its use, 0 to 255, in files of servers that evict by frequency; else None.
    """

    database: int
    name: bytes
    kind: str
    value: Value
    encoding: str
    expires_at_ms: int | None = None
    idle_s: int | None = None
    frequency: int | None = None
