"""Packed forms of small collections: listpack, ziplist, zipmap and intset, as lists of their items.

Sources: Redis 7.0 `listpack.c`, `ziplist.c`, `zipmap.c`, `intset.c` (the layouts in their comments). All that a form
says twice (lengths backwards, counts, sizes, tails) is compared: what contradicts itself is refused.
"""

from __future__ import annotations

from itertools import pairwise

_UNKNOWN_COUNT = 0xFFFF
_END = 0xFF
_LISTPACK_INTEGERS = {0xF1: 2, 0xF2: 3, 0xF3: 4, 0xF4: 8}
_ZIPLIST_INTEGERS = {0xC0: 2, 0xD0: 4, 0xE0: 8, 0xF0: 3, 0xFE: 1}


class BlobError(ValueError):
    """A packed form that contradicts itself; whoever reads the file adds the place."""


Item = bytes | int


def texts(items: list[Item]) -> list[bytes]:
    """Return items as clients see them: integers as decimal text."""
    return [item if isinstance(item, bytes) else b"%d" % item for item in items]


def listpack(data: bytes) -> list[Item]:
    """Return the items of a listpack, integers as such.

    Raises:
        BlobError: it contradicts itself.
    """
    last = _framed_end(data, 6, "a listpack")
    found: list[Item] = []
    at = 6
    while at < last:
        end, item = _listpack_item(data, at)
        back = _backwards(end - at)
        if end + len(back) > last or data[end : end + len(back)] != back:
            raise BlobError(f"the length behind item {len(found)} of a listpack is another than before it")
        found.append(item)
        at = end + len(back)
    _require_count(_little(data, 4, 2), found, "a listpack")
    return found


def _listpack_item(data: bytes, at: int) -> tuple[int, Item]:
    """Return (end, item) of the item at a place; the end may lie behind the data, which the caller sees."""
    first = data[at]
    if first < 0x80:
        return at + 1, first
    if first < 0xC0:
        return _text(data, at + 1, first & 0x3F)
    if first < 0xE0:
        value = (first & 0x1F) << 8 | data[at + 1]
        return at + 2, value - 0x2000 if value >= 0x1000 else value
    if first < 0xF0:
        return _text(data, at + 2, (first & 0x0F) << 8 | data[at + 1])
    if first == 0xF0:
        return _text(data, at + 5, _little(data, at + 1, 4))
    if (width := _LISTPACK_INTEGERS.get(first)) is None:
        raise BlobError(f"a listpack has an item of unknown form {first:#x}")
    return at + 1 + width, int.from_bytes(data[at + 1 : at + 1 + width], "little", signed=True)


def _backwards(length: int) -> bytes:
    """Return the length of an item as a listpack has it behind the item: seven bits a byte, to be read backwards."""
    if length <= 127:
        return length.to_bytes(1, "little")
    width = 2 if length < 16_383 else 3 if length < 2_097_151 else 4 if length < 268_435_455 else 5
    groups = [length >> 7 * index & 0x7F for index in reversed(range(width))]
    return bytes([groups[0], *(group | 0x80 for group in groups[1:])])


def ziplist(data: bytes) -> list[Item]:
    """Return the items of a ziplist, integers as such.

    Raises:
        BlobError: it contradicts itself.
    """
    last = _framed_end(data, 10, "a ziplist")
    found: list[Item] = []
    at, before, tail = 10, 0, 10
    while at < last:
        wide = data[at] >= 0xFE
        if data[at] == _END or before != (_little(data, at + 1, 4) if wide else data[at]):
            raise BlobError(f"the length before item {len(found)} of a ziplist is another than the item's")
        head = at + 5 if wide else at + 1
        if head >= last:
            raise BlobError("a ziplist ends inside an item")
        end, item = _ziplist_item(data, head)
        if end > last:
            raise BlobError("a ziplist ends inside an item")
        found.append(item)
        tail, before, at = at, end - at, end
    _require_count(_little(data, 8, 2), found, "a ziplist")
    if _little(data, 4, 4) != tail:
        raise BlobError("the place of a ziplist's last item is another than it says")
    return found


def _ziplist_item(data: bytes, at: int) -> tuple[int, Item]:
    first = data[at]
    if first < 0x40:
        return _text(data, at + 1, first)
    if first < 0x80:
        return _text(data, at + 2, (first & 0x3F) << 8 | data[at + 1])
    if first == 0x80:
        return _text(data, at + 5, int.from_bytes(data[at + 1 : at + 5], "big"))
    if 0xF1 <= first <= 0xFD:
        return at + 1, (first & 0x0F) - 1
    if (width := _ZIPLIST_INTEGERS.get(first)) is None:
        raise BlobError(f"a ziplist has an item of unknown form {first:#x}")
    return at + 1 + width, int.from_bytes(data[at + 1 : at + 1 + width], "little", signed=True)


def zipmap(data: bytes) -> list[bytes]:
    """Return fields and values of a zipmap in turn (hashes of Redis before 2.6).

    Raises:
        BlobError: it contradicts itself.
    """
    last = len(data) - 1
    if last < 1 or data[last] != _END:
        raise BlobError("a zipmap has no end")
    found: list[bytes] = []
    at = 1
    while at < last:
        at, field = _zipmap_text(data, at, 0, last)
        at, value = _zipmap_text(data, at, 1, last)
        found += (field, value)
    if at != last or (data[0] < 254 and data[0] != len(found) // 2):
        raise BlobError(f"a zipmap of {len(found) // 2} fields says {data[0]}, or has no end where it should")
    return found


def _zipmap_text(data: bytes, at: int, free_bytes: int, last: int) -> tuple[int, bytes]:
    """Return (end, text) at a place; a value has a byte before it that says how many unused bytes follow it."""
    wide = data[at] == 254
    start = at + (5 if wide else 1)
    if data[at] == _END or start + free_bytes > last:
        raise BlobError("a zipmap ends inside a field")
    size = _little(data, at + 1, 4) if wide else data[at]
    unused = data[start] if free_bytes else 0
    start += free_bytes
    if start + size + unused > last:
        raise BlobError("a zipmap ends inside a field")
    return start + size + unused, data[start : start + size]


def intset(data: bytes) -> list[int]:
    """Return the numbers of an intset, ascending.

    Raises:
        BlobError: its size is another than it says, or its numbers do not ascend.
    """
    width, count = _little(data, 0, 4), _little(data, 4, 4)
    if width not in {2, 4, 8} or len(data) != 8 + width * count:
        raise BlobError(f"an intset of {len(data)} bytes says {count} numbers of {width} bytes")
    found = [int.from_bytes(data[at : at + width], "little", signed=True) for at in range(8, len(data), width)]
    if any(left >= right for left, right in pairwise(found)):
        raise BlobError("the numbers of an intset do not ascend")
    return found


def _framed_end(data: bytes, head: int, what: str) -> int:
    """Return the place of the end mark of a form that begins with its size and has a head of so many bytes."""
    last = len(data) - 1
    if last < head or _little(data, 0, 4) != len(data) or data[last] != _END:
        raise BlobError(f"{what} of {len(data)} bytes has another size or no end")
    return last


def _require_count(declared: int, found: list[Item], what: str) -> None:
    if declared not in {_UNKNOWN_COUNT, len(found)}:
        raise BlobError(f"{what} of {len(found)} items says {declared}")


def _text(data: bytes, start: int, size: int) -> tuple[int, bytes]:
    return start + size, data[start : start + size]


def _little(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little")
