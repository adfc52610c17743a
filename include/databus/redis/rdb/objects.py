"""Values of keys by their type byte: each form of strings, lists, sets, hashes, sorted sets and streams.

Source: Redis 7.0 `rdb.h` (RDB_TYPE_*), `rdb.c` (`rdbLoadObject`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan

from databus.core.errors.redis import RdbUnknownError
from databus.redis.byte_reader import ByteReader
from databus.redis.rdb.blobs import BlobError, Item, intset, listpack, texts, ziplist, zipmap
from databus.redis.rdb.primitives import (
    corrupt,
    parse_double,
    read_double,
    read_double_text,
    read_length,
    read_signed,
    read_string,
)
from databus.redis.rdb.streams import read_stream
from databus.redis.rdb.values import ModuleValue, Value

_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_END, _SIGNED, _UNSIGNED, _FLOAT, _DOUBLE, _STRING = range(6)
_PLAIN, _PACKED = 1, 2

Unpack = Callable[[bytes], Sequence[Item]]


def read_module(reader: ByteReader) -> ModuleValue:
    """Return a module's value, or what it keeps beside the keys (auxiliary fields begin with when they are read).

    Raises:
        RdbCorruptError: a part is of no known form.
    """
    identity = read_length(reader)
    name = "".join(_CHARACTERS[identity >> shift & 63] for shift in range(58, 4, -6))
    return ModuleValue(name, identity & 1023, tuple(_parts(reader)))


def _parts(reader: ByteReader) -> Iterator[int | float | bytes]:
    while (mark := read_length(reader)) != _END:
        if mark == _SIGNED:
            yield read_signed(reader)
        elif mark == _UNSIGNED:
            yield read_length(reader)
        elif mark == _FLOAT:
            yield struct.unpack("<f", reader.take(4))[0]
        elif mark == _DOUBLE:
            yield read_double(reader)
        elif mark == _STRING:
            yield read_string(reader)
        else:
            raise corrupt(reader, f"a module's value has a part of unknown form {mark}")


@dataclass(frozen=True, slots=True)
class ValueType:
    """Type of a value in an RDB file: the key's kind, the form, and what reads it."""

    kind: str
    encoding: str
    _read: Callable[[ByteReader], Value]

    def read(self, reader: ByteReader) -> Value:
        """Return the value.

        Raises:
            RdbCorruptError: it contradicts itself.
        """
        try:
            return self._read(reader)
        except BlobError as error:
            raise corrupt(reader, str(error)) from None


def type_of(reader: ByteReader, code: int) -> ValueType:
    """Return the type whose byte was read last.

    Raises:
        RdbUnknownError: no such type up to Redis 7.0.
    """
    if code not in _TYPES:
        raise RdbUnknownError(
            f"{reader.name}, before byte {reader.place}: type or opcode {code}, which Redis 7.0 does not write"
        )
    return ValueType(*_TYPES[code])


def _items(reader: ByteReader, unpack: Unpack) -> list[bytes]:
    return texts(list(unpack(read_string(reader))))


def _strings(reader: ByteReader) -> list[bytes]:
    return [read_string(reader) for _ in range(read_length(reader))]


def _nodes(reader: ByteReader) -> list[bytes]:
    """Return the items of a list in nodes of ziplists (Redis 3.2 to 6.2)."""
    return [item for _ in range(read_length(reader)) for item in texts(ziplist(read_string(reader)))]


def _listpack_nodes(reader: ByteReader) -> list[bytes]:
    """Return the items of a list in nodes: a listpack each, or one item that is too large for one."""
    found: list[bytes] = []
    for _ in range(read_length(reader)):
        form = read_length(reader)
        if form == _PLAIN:
            found.append(read_string(reader))
        elif form == _PACKED:
            found += texts(listpack(read_string(reader)))
        else:
            raise corrupt(reader, f"a list has a node of unknown form {form}")
    return found


def _set(reader: ByteReader, items: list[bytes]) -> set[bytes]:
    found = set(items)
    if len(found) != len(items):
        raise corrupt(reader, "a set has a member twice")
    return found


def _hash(reader: ByteReader, items: list[bytes]) -> dict[bytes, bytes]:
    found = dict(_pairs(reader, items))
    if len(found) != len(items) // 2:
        raise corrupt(reader, "a hash has a field twice")
    return found


def _scores(reader: ByteReader, items: list[tuple[bytes, float]]) -> dict[bytes, float]:
    found = dict(items)
    if len(found) != len(items) or any(map(isnan, found.values())):
        raise corrupt(reader, "a sorted set has a member twice, or a score that is no number")
    return found


def _pairs(reader: ByteReader, items: list[bytes]) -> list[tuple[bytes, bytes]]:
    if len(items) % 2:
        raise corrupt(reader, f"{len(items)} items where pairs were to be")
    return list(zip(items[::2], items[1::2], strict=True))


def _read_set(reader: ByteReader) -> Value:
    return _set(reader, _strings(reader))


def _read_intset(reader: ByteReader) -> Value:
    return _set(reader, _items(reader, intset))


def _read_hash(reader: ByteReader) -> Value:
    fields = [(read_string(reader), read_string(reader)) for _ in range(read_length(reader))]
    return _hash(reader, [text for field in fields for text in field])


def _read_packed_hash(reader: ByteReader, *, unpack: Unpack) -> Value:
    return _hash(reader, _items(reader, unpack))


def _read_packed_list(reader: ByteReader) -> Value:
    return _items(reader, ziplist)


def _read_zset(reader: ByteReader, *, score: Callable[[ByteReader], float]) -> Value:
    return _scores(reader, [(read_string(reader), score(reader)) for _ in range(read_length(reader))])


def _read_packed_zset(reader: ByteReader, *, unpack: Unpack) -> Value:
    pairs = _pairs(reader, _items(reader, unpack))
    return _scores(reader, [(member, parse_double(reader, score)) for member, score in pairs])


def _refuse_old_module(reader: ByteReader) -> Value:
    raise RdbUnknownError(
        f"{reader.name}, before byte {reader.place}: a module's value of before Redis 4.0 has no marks to read it by",
        hint="Save the file with a released version of Redis and its modules.",
    )


_TYPES: dict[int, tuple[str, str, Callable[[ByteReader], Value]]] = {
    0: ("string", "string", read_string),
    1: ("list", "linkedlist", _strings),
    2: ("set", "hashtable", _read_set),
    3: ("zset", "skiplist-text", partial(_read_zset, score=read_double_text)),
    4: ("hash", "hashtable", _read_hash),
    5: ("zset", "skiplist", partial(_read_zset, score=read_double)),
    6: ("module", "module-1", _refuse_old_module),
    7: ("module", "module-2", read_module),
    9: ("hash", "zipmap", partial(_read_packed_hash, unpack=zipmap)),
    10: ("list", "ziplist", _read_packed_list),
    11: ("set", "intset", _read_intset),
    12: ("zset", "ziplist", partial(_read_packed_zset, unpack=ziplist)),
    13: ("hash", "ziplist", partial(_read_packed_hash, unpack=ziplist)),
    14: ("list", "quicklist", _nodes),
    15: ("stream", "stream-listpacks", partial(read_stream, version=1)),
    16: ("hash", "listpack", partial(_read_packed_hash, unpack=listpack)),
    17: ("zset", "listpack", partial(_read_packed_zset, unpack=listpack)),
    18: ("list", "quicklist-2", _listpack_nodes),
    19: ("stream", "stream-listpacks-2", partial(read_stream, version=2)),
}
"""Type byte → kind, encoding, and what reads it."""
