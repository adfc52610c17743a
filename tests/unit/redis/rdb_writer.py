"""RDB writer: every form that Redis up to 7.0 writes, also those that 7.0 only reads."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from databus.redis.byte_reader import crc64
from databus.redis.rdb.values import Stream, StreamId

Item = bytes | int
_INT_FORMS = ((1, 0xC0), (2, 0xC1), (4, 0xC2))


def length(number: int) -> bytes:
    if number < 64:
        return bytes([number])
    if number < 16384:
        return bytes([0x40 | number >> 8, number & 255])
    if number < 1 << 32:
        return b"\x80" + number.to_bytes(4, "big")
    return b"\x81" + number.to_bytes(8, "big")


def canonical(data: bytes, bits: int = 63) -> int | None:
    """Return the number that a text is, where the number's text is the same again."""
    if len(data) > 20 or not data.lstrip(b"-").isdigit():
        return None
    number = int(data)
    return number if b"%d" % number == data and -(1 << bits) <= number < 1 << bits else None


def string(data: bytes, *, compressed: bool = False) -> bytes:
    """A string as Redis writes it; `compressed` with LZF, which need not be shorter."""
    if compressed and data:
        packed = compress(data)
        return b"\xc3" + length(len(packed)) + length(len(data)) + packed
    if (number := canonical(data, 31)) is not None:
        for width, mark in _INT_FORMS:
            if -(1 << width * 8 - 1) <= number < 1 << width * 8 - 1:
                return bytes([mark]) + number.to_bytes(width, "little", signed=True)
    return length(len(data)) + data


def compress(data: bytes) -> bytes:
    """LZF with references to the last place of three equal bytes."""
    out, plain, seen, at = bytearray(), bytearray(), dict[bytes, int](), 0

    def flush() -> None:
        for start in range(0, len(plain), 32):
            piece = plain[start : start + 32]
            out.append(len(piece) - 1)
            out.extend(piece)
        plain.clear()

    while at < len(data):
        start = seen.get(data[at : at + 3], -1) if at + 3 <= len(data) else -1
        seen[data[at : at + 3]] = at
        back = at - start - 1
        if start < 0 or back > 0x1FFF:
            plain.append(data[at])
            at += 1
            continue
        count = 3
        while count < 264 and at + count < len(data) and data[start + count] == data[at + count]:
            count += 1
        flush()
        short = min(count - 2, 7)
        out.append(short << 5 | back >> 8)
        if short == 7:
            out.append(count - 2 - 7)
        out.append(back & 255)
        at += count
    flush()
    return bytes(out)


def _backwards(size: int) -> bytes:
    width = 1 if size <= 127 else 2 if size < 16383 else 3 if size < 2097151 else 4
    groups = [size >> 7 * index & 127 for index in range(width)]
    return bytes([groups[-1], *(group | 128 for group in reversed(groups[:-1]))])


def _listpack_item(item: Item) -> bytes:
    number = item if isinstance(item, int) else canonical(item)
    if number is None:
        size = len(item)  # type: ignore[arg-type]
        if size < 64:
            head = bytes([0x80 | size])
        elif size < 4096:
            head = bytes([0xE0 | size >> 8, size & 255])
        else:
            head = b"\xf0" + size.to_bytes(4, "little")
        return head + item  # type: ignore[operator]
    if 0 <= number <= 127:
        return bytes([number])
    if -4096 <= number <= 4095:
        return bytes([0xC0 | (number & 0x1FFF) >> 8, number & 255])
    for width, mark in ((2, 0xF1), (3, 0xF2), (4, 0xF3), (8, 0xF4)):
        if -(1 << width * 8 - 1) <= number < 1 << width * 8 - 1:
            return bytes([mark]) + number.to_bytes(width, "little", signed=True)
    raise ValueError(number)


def listpack(items: Sequence[Item]) -> bytes:
    parts = [_listpack_item(item) for item in items]
    body = b"".join(part + _backwards(len(part)) for part in parts)
    return struct.pack("<IH", len(body) + 7, min(len(items), 65535)) + body + b"\xff"


def ziplist(items: Sequence[Item]) -> bytes:
    body, before, tail = bytearray(), 0, 10
    for item in items:
        tail = 10 + len(body)
        entry = bytes([before]) if before < 254 else b"\xfe" + before.to_bytes(4, "little")
        entry += _ziplist_item(item)
        before = len(entry)
        body += entry
    return struct.pack("<IIH", len(body) + 11, tail, min(len(items), 65535)) + bytes(body) + b"\xff"


def _ziplist_item(item: Item) -> bytes:
    number = item if isinstance(item, int) else canonical(item)
    if number is None:
        size = len(item)  # type: ignore[arg-type]
        if size < 64:
            head = bytes([size])
        elif size < 16384:
            head = bytes([0x40 | size >> 8, size & 255])
        else:
            head = b"\x80" + size.to_bytes(4, "big")
        return head + item  # type: ignore[operator]
    if 0 <= number <= 12:
        return bytes([0xF1 + number])
    for width, mark in ((1, 0xFE), (2, 0xC0), (3, 0xF0), (4, 0xD0), (8, 0xE0)):
        if -(1 << width * 8 - 1) <= number < 1 << width * 8 - 1:
            return bytes([mark]) + number.to_bytes(width, "little", signed=True)
    raise ValueError(number)


def zipmap(fields: Mapping[bytes, bytes], unused: int = 0) -> bytes:
    def size(data: bytes) -> bytes:
        return bytes([len(data)]) if len(data) < 254 else b"\xfe" + len(data).to_bytes(4, "little")

    body = b"".join(
        size(name) + name + size(value) + bytes([unused]) + value + b"x" * unused for name, value in fields.items()
    )
    return bytes([min(len(fields), 254)]) + body + b"\xff"


def intset(numbers: Iterable[int]) -> bytes:
    found = sorted(set(numbers))
    width = next(w for w in (2, 4, 8) if all(-(1 << w * 8 - 1) <= n < 1 << w * 8 - 1 for n in found))
    return struct.pack("<II", width, len(found)) + b"".join(n.to_bytes(width, "little", signed=True) for n in found)


def _raw_id(identity: StreamId) -> bytes:
    return struct.pack(">QQ", *identity)


def _id(identity: StreamId) -> bytes:
    return length(identity.ms) + length(identity.seq)


def stream_node(entries: Sequence[tuple[StreamId, Sequence[tuple[bytes, bytes]], bool]]) -> bytes:
    """A node: entries as (id, fields, deleted); the first one's names are shared."""
    first = entries[0][0]
    names = [name for name, _ in entries[0][1]]
    deleted = sum(gone for _, _, gone in entries)
    items: list[Item] = [len(entries) - deleted, deleted, len(names), *names, 0]
    for identity, fields, gone in entries:
        same = [name for name, _ in fields] == names
        items += [gone | same << 1, _wrapped(identity.ms - first.ms), _wrapped(identity.seq - first.seq)]
        words: list[Item] = (
            [value for _, value in fields] if same else [len(fields), *(w for field in fields for w in field)]
        )
        items += [*words, len(words) + 3]
    return listpack(items)


def _wrapped(number: int) -> int:
    """As Redis has it: the difference of two numbers of 64 bits without sign, as one with sign."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def stream(value: Stream, *, version: int = 2, node: int = 3) -> bytes:
    """A stream in nodes of so many entries."""
    nodes = []
    for start in range(0, len(value.entries), node):
        chosen = [(entry.id, entry.fields, False) for entry in value.entries[start : start + node]]
        nodes.append(string(_raw_id(chosen[0][0])) + string(stream_node(chosen)))
    out = length(len(nodes)) + b"".join(nodes) + length(len(value.entries)) + _id(value.last_id)
    if version > 1:
        assert value.first_id is not None
        assert value.max_deleted_id is not None
        assert value.entries_added is not None
        out += _id(value.first_id) + _id(value.max_deleted_id) + length(value.entries_added)
    out += length(len(value.groups))
    for group in value.groups:
        out += string(group.name) + _id(group.last_id)
        if version > 1:
            out += length((1 << 64) - 1 if group.entries_read is None else group.entries_read)
        out += length(len(group.pending))
        for pending in group.pending:
            out += _raw_id(pending.id) + struct.pack("<q", pending.delivered_ms) + length(pending.deliveries)
        out += length(len(group.consumers))
        for consumer in group.consumers:
            own = [pending.id for pending in group.pending if pending.consumer == consumer.name]
            out += string(consumer.name) + struct.pack("<q", consumer.seen_ms) + length(len(own))
            out += b"".join(_raw_id(identity) for identity in own)
    return out


def double_text(score: float) -> bytes:
    if score == float("inf"):
        return b"\xfe"
    if score == float("-inf"):
        return b"\xff"
    text = repr(score).encode()
    return bytes([len(text)]) + text


def score_text(score: float) -> bytes:
    """A score inside of a listpack: whole numbers without a point."""
    return b"%d" % score if abs(score) < 1 << 53 and score == int(score) else repr(score).encode()


def value(code: int, found: Any, *, compressed: bool = False) -> bytes:
    """A value in the form of a type byte, without the byte."""

    def text(data: bytes) -> bytes:
        return string(data, compressed=compressed)

    def counted(parts: Iterable[bytes]) -> bytes:
        return length(len(found)) + b"".join(parts)

    def items(score: Callable[[float], bytes] = bytes) -> list[bytes]:
        return [item for name, data in found.items() for item in (name, score(data))]

    def nodes() -> list[list[bytes]]:
        return [found[start : start + 4] for start in range(0, len(found), 4)]

    def quicklist() -> bytes:
        return length(len(nodes())) + b"".join(text(ziplist(node)) for node in nodes())

    def quicklist_2() -> bytes:
        parts = [b"\x01" + text(node[0]) if len(node) == 1 else b"\x02" + text(listpack(node)) for node in nodes()]
        return length(len(parts)) + b"".join(parts)

    forms: dict[int, Callable[[], bytes]] = {
        0: lambda: text(found),
        1: lambda: counted(map(text, found)),
        2: lambda: counted(map(text, found)),
        3: lambda: counted(text(member) + double_text(score) for member, score in found.items()),
        4: lambda: counted(text(name) + text(data) for name, data in found.items()),
        5: lambda: counted(text(member) + struct.pack("<d", score) for member, score in found.items()),
        9: lambda: text(zipmap(found, unused=len(found) % 3)),
        10: lambda: text(ziplist(found)),
        11: lambda: text(intset(map(int, found))),
        12: lambda: text(ziplist(items(score_text))),
        13: lambda: text(ziplist(items())),
        14: quicklist,
        15: lambda: stream(found, version=1),
        16: lambda: text(listpack(items())),
        17: lambda: text(listpack(items(score_text))),
        18: quicklist_2,
        19: lambda: stream(found),
    }
    return forms[code]()


def entry(code: int, name: bytes, found: object, before: bytes = b"") -> bytes:
    """A key with its value; `before` are opcodes that stand before it (expiry, idle time)."""
    return before + bytes([code]) + string(name) + value(code, found)


def file(*parts: bytes, version: int = 10, summed: bool = True) -> bytes:
    body = b"REDIS%04d" % version + b"".join(parts) + b"\xff"
    if version < 5:
        return body
    return body + (crc64(body) if summed else 0).to_bytes(8, "little")


def payload(body: bytes, version: int = 10) -> bytes:
    """A DUMP payload of type byte and value."""
    data = body + version.to_bytes(2, "little")
    return data + crc64(data).to_bytes(8, "little")
