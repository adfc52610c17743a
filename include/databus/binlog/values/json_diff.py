"""Apply the differences that a PARTIAL_UPDATE_ROWS event logs of a JSON column to the document before the update.

Wire format: MySQL 8.0 source documentation, "Json_diff::write_binary" (operation; path as text, and unless it removes,
the new value in binary JSON, each behind its packed length) and sql-common/json_binary.h. Only the containers on a
path are taken apart; everything else is carried over as it lies.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING = range(5, 13)
_OPAQUE = 15
_REPLACE, _INSERT, _REMOVE = range(3)

_SIZES = {_LITERAL: 1, _INT16: 2, _UINT16: 2, _INT32: 4, _UINT32: 4, _INT64: 8, _UINT64: 8, _DOUBLE: 8}
_INLINE = {
    False: frozenset({_LITERAL, _INT16, _UINT16}),
    True: frozenset({_LITERAL, _INT16, _UINT16, _INT32, _UINT32}),
}
_HEAD = {False: struct.Struct("<HH"), True: struct.Struct("<II")}
_KEY = {False: struct.Struct("<HH"), True: struct.Struct("<IH")}
_ENTRY = {False: struct.Struct("<BH"), True: struct.Struct("<BI")}
_MOST_SMALL = 0xFFFF
_CELL = re.compile(r"\[\s*(?:(\d+)|last\s*(?:-\s*(\d+))?)\s*\]")
_NAME = re.compile(r'[^.\["\s]+')
_JSON_STRING = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class _Cell:
    """A leg of a path that names an array's element, counted from the front or from the end."""

    number: int
    from_end: bool

    def index(self, length: int) -> int:
        """Return the index; −1 where it would lie before the first element."""
        return max(-1, length - 1 - self.number) if self.from_end else self.number


_Leg = bytes | _Cell


@dataclass
class _Value:
    """A value of a document: its bytes, or once something inside has changed, its members.

    Attributes:
        kind: type byte of its bytes.
        raw: the bytes; None when they no longer hold.
        members: of an object that was taken apart.
        items: of an array that was taken apart.
    """

    kind: int
    raw: bytes | None
    members: dict[bytes, _Value] | None = None
    items: list[_Value] | None = None

    def take_apart(self) -> None:
        """Fill in `members` or `items`, if this is a container."""
        if self.kind > _LARGE_ARRAY or self.members is not None or self.items is not None:
            return
        assert self.raw is not None  # noqa: S101 - only what was taken apart can change
        found = list(_members(self.kind, self.raw))
        if self.kind <= _LARGE_OBJECT:
            self.members = {key: value for key, value in found if key is not None}
        else:
            self.items = [value for _, value in found]

    def put(self, other: _Value) -> None:
        """Become another value."""
        self.kind, self.raw, self.members, self.items = other.kind, other.raw, other.members, other.items


def apply_diffs(document: bytes, diffs: bytes) -> bytes:
    """Return the document after a sequence of differences.

    Args:
        document: binary JSON before the update.
        diffs: the differences as logged; none leaves the document as it is.

    Raises:
        ValueError: the bytes are no differences or no document, or a path is not in the document.
    """
    if not diffs:
        return document
    if not document:
        raise ValueError("there is no document to apply differences to")
    root = _Value(document[0], document[1:])
    try:
        for operation, path, value in _read(diffs):
            _apply(root, operation, path, value)
        kind, raw = _encode(root)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged binary JSON: {error}") from error
    return bytes([kind]) + raw


def _read(diffs: bytes) -> Iterator[tuple[int, str, _Value | None]]:
    at = 0
    while at < len(diffs):
        operation = diffs[at]
        if operation > _REMOVE:
            raise ValueError(f"the operation {operation} on a JSON document is unknown")
        path, at = _prefixed(diffs, at + 1)
        value = None
        if operation != _REMOVE:
            data, at = _prefixed(diffs, at)
            value = _Value(data[0], data[1:])
        yield operation, path.decode("utf-8"), value


def _prefixed(data: bytes, at: int) -> tuple[bytes, int]:
    first = data[at]
    width = {252: 2, 253: 3, 254: 8}.get(first, 0)
    size = int.from_bytes(data[at + 1 : at + 1 + width], "little") if width else first
    at += 1 + width
    if first in (251, 255) or at + size > len(data):
        raise ValueError("a difference reaches past its end")
    return data[at : at + size], at + size


def _legs(path: str) -> list[_Leg]:
    if not path.startswith("$"):
        raise ValueError(f"{path!r} is no JSON path")
    legs: list[_Leg] = []
    at = 1
    while at < len(path):
        cell = _CELL.match(path, at)
        if cell is not None:
            legs.append(_Cell(int(cell[1] or cell[2] or 0), cell[1] is None))
            at = cell.end()
            continue
        name = _NAME.match(path, at + 1) if path[at] == "." else None
        if name is not None:
            key, at = name[0], name.end()
        elif path.startswith('."', at):
            key, at = _JSON_STRING.raw_decode(path, at + 1)
        else:
            raise ValueError(f"{path!r} is no JSON path of one place")
        legs.append(key.encode("utf-8"))
    return legs


def _apply(root: _Value, operation: int, path: str, value: _Value | None) -> None:
    legs = _legs(path)
    if not legs:
        if operation != _REPLACE or value is None:
            raise ValueError("a whole document can only be replaced")
        root.put(value)
        return
    parent = root
    above = [root]
    for leg in legs[:-1]:
        child = _child(parent, leg)
        if child is None:
            raise ValueError(f"the document holds nothing at {path}")
        parent = child
        above.append(parent)
    if not _change(parent, legs[-1], operation, value):
        raise ValueError(f"the document does not allow the logged change at {path}")
    for changed in above:
        if changed.members is not None or changed.items is not None:
            changed.raw = None


def _child(parent: _Value, leg: _Leg) -> _Value | None:
    parent.take_apart()
    if isinstance(leg, bytes):
        return parent.members.get(leg) if parent.members is not None else None
    if parent.items is None:
        return parent if leg.number == 0 else None  # a value that is no array counts as an array of one
    index = leg.index(len(parent.items))
    return parent.items[index] if 0 <= index < len(parent.items) else None


def _change(parent: _Value, leg: _Leg, operation: int, value: _Value | None) -> bool:
    """Change a member of a container; False when that cannot be."""
    here = _child(parent, leg)
    if operation == _REPLACE:
        if here is not None and value is not None:
            here.put(value)
        return here is not None
    if isinstance(leg, bytes):
        return _change_member(parent.members, leg, value, exists=here is not None)
    return _change_item(parent.items, leg, value, exists=here is not None)


def _change_member(members: dict[bytes, _Value] | None, key: bytes, value: _Value | None, *, exists: bool) -> bool:
    """Insert a value under a new key, or remove the key when there is no value."""
    if members is None or exists != (value is None):
        return False
    if value is None:
        del members[key]
    else:
        members[key] = value
    return True


def _change_item(items: list[_Value] | None, cell: _Cell, value: _Value | None, *, exists: bool) -> bool:
    """Insert a value before an element or at the end, or remove the element when there is no value."""
    if items is None or (value is None and not exists):
        return False
    index = cell.index(len(items))
    if value is None:
        del items[index]
    else:
        items.insert(max(0, index), value)
    return True


def _members(kind: int, raw: bytes) -> Iterator[tuple[bytes | None, _Value]]:
    """Yield the members of a container in stored order, with their keys."""
    large, is_object = kind in (_LARGE_OBJECT, _LARGE_ARRAY), kind <= _LARGE_OBJECT
    head, key_entry, entry = _HEAD[large], _KEY[large], _ENTRY[large]
    count, size = head.unpack_from(raw)
    key_at = head.size
    value_at = key_at + (key_entry.size * count if is_object else 0)
    unread = size - value_at - entry.size * count
    if size > len(raw) or unread < 0:
        raise ValueError("a binary JSON container has more members than bytes")
    for _ in range(count):
        key = None
        if is_object:
            offset, length = key_entry.unpack_from(raw, key_at)
            key = _cut(raw, offset, length)
            key_at += key_entry.size
            unread -= length
        member, offset = entry.unpack_from(raw, value_at)
        if member in _INLINE[large]:
            value = _Value(member, _cut(raw, value_at + 1, _SIZES[member]))
        else:
            value = _Value(member, _cut(raw, offset, _extent(member, raw, offset)))
            unread -= len(value.raw or b"")
        if unread < 0:
            raise ValueError("values of a binary JSON document overlap")
        yield key, value
        value_at += entry.size


def _extent(kind: int, raw: bytes, at: int) -> int:
    """Return the size of the value at an offset."""
    if kind in _SIZES:
        return _SIZES[kind]
    if kind <= _LARGE_ARRAY:
        size: int = _HEAD[kind in (_LARGE_OBJECT, _LARGE_ARRAY)].unpack_from(raw, at)[1]
        return size
    if kind not in (_STRING, _OPAQUE):
        raise ValueError(f"binary JSON type {kind} is unknown")
    start = at + (kind == _OPAQUE)
    size = 0
    for k in range(5):
        size |= (raw[start + k] & 0x7F) << (7 * k)
        if not raw[start + k] & 0x80:
            return start + k + 1 - at + size
    raise ValueError("a length in binary JSON has more than five bytes")


def _cut(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("binary JSON reaches past its end")
    return data[at : at + size]


def _encode(value: _Value) -> tuple[int, bytes]:
    """Return type byte and bytes of a value."""
    if value.raw is not None:
        return value.kind, value.raw
    if value.members is not None:
        keys = sorted(value.members, key=lambda key: (len(key), key))
        members = [_encode(value.members[key]) for key in keys]
    else:
        keys, members = None, [_encode(item) for item in value.items or ()]
    raw = _container(keys, members, large=False)
    if raw is not None:
        return (_SMALL_ARRAY if keys is None else _SMALL_OBJECT), raw
    raw = _container(keys, members, large=True)
    if raw is None:
        raise ValueError("a JSON document takes more than 4 GiB")
    return (_LARGE_ARRAY if keys is None else _LARGE_OBJECT), raw


def _container(keys: list[bytes] | None, members: list[tuple[int, bytes]], *, large: bool) -> bytes | None:
    """Return the bytes of a container; None when they have no room in this form."""
    head, key_entry, entry, inline = _HEAD[large], _KEY[large], _ENTRY[large], _INLINE[large]
    names = keys or []
    start = head.size + key_entry.size * len(names) + entry.size * len(members)
    size = start + sum(map(len, names)) + sum(len(raw) for kind, raw in members if kind not in inline)
    if size > (0xFFFFFFFF if large else _MOST_SMALL):
        return None
    parts = [head.pack(len(members), size)]
    at = start
    for name in names:
        parts.append(key_entry.pack(at, len(name)))
        at += len(name)
    for kind, raw in members:
        if kind in inline:
            parts.append(entry.pack(kind, int.from_bytes(raw, "little")))
        else:
            parts.append(entry.pack(kind, at))
            at += len(raw)
    parts += names
    parts += [raw for kind, raw in members if kind not in inline]
    return b"".join(parts)
