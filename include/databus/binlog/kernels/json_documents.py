"""A column of MySQL's binary JSON as text, one document after the other, with a stack of open containers.

Wire format: MySQL 8.0 source, sql-common/json_binary.h. What is damaged is left to
`databus.binlog.values.json_binary`, which names the fault.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.json_numbers import write_double, write_signed, write_unsigned
from databus.binlog.kernels.json_opaque import write_opaque
from databus.binlog.kernels.json_strings import write_string
from databus.binlog.kernels.memory import INLINE, KERNEL, Bytes
from databus.binlog.kernels.pointers import (
    address_of,
    bit,
    load_8,
    load_16,
    load_32,
    load_64,
    read_little,
    store_8,
    store_32,
    store_64,
)

Offsets = npt.NDArray[np.int32]

# Why the writer stopped: all rows written; the text has no room for the next; the next is not for this kernel.
DONE, FULL, LEFT = range(3)

_LITERAL, _INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING = range(4, 13)
_OPAQUE = 15
_MAX_DEPTH = 100
MAX_TEXT_BYTES = 0x7FFFFFFF
"""Most bytes of text: Arrow's 32-bit offsets."""
# Slots of an open container on the stack, eight bytes each.
_BASE, _LIMIT, _KEY, _VALUE, _MEMBERS, _KIND, _FRAME = 0, 8, 16, 24, 32, 40, 48
STACK_BYTES = (_MAX_DEPTH + 1) * _FRAME
_COMMA, _COLON = 44, 58
_OPEN_BRACE, _CLOSE_BRACE, _OPEN_BRACKET, _CLOSE_BRACKET = 123, 125, 91, 93
_NULL, _TRUE, _ALSE = 0x6C6C756E, 0x65757274, 0x65736C61  # four characters, first lowest
_F = 102


@njit(**INLINE)
def text_room(size: int) -> int:
    r"""Return the most bytes that a document of `size` bytes is written to.

    No byte is used twice, and none gives more than six characters: a control character is \\u00XX; members need at
    least three bytes of entry for `false,`; a double and its entry eleven for 25; an opaque value of n bytes and its
    entry n + 5 for 4 n + 20; an empty key adds four for `"":`.
    """
    return 6 * size + 16


@njit(**INLINE)
def _inline(kind: int, large: int) -> bool:
    return _LITERAL <= kind <= (_UINT32 if large else _UINT16)


@njit(**KERNEL)
def _write_scalar(kind: int, at: int, limit: int, unread: int, inline: bool, to: int, box: int) -> int:
    """Write a value that is no container; returns the address after it or −1, and the bytes it took in `box`."""
    if kind == _STRING or kind == _OPAQUE:
        size = np.int64(0)
        start = head = 1 if kind == _OPAQUE else 0  # an opaque value begins with its column type
        while True:
            if head == start + 5 or at + head >= limit:
                return -1
            byte = load_8(at + head)
            size |= (byte & 0x7F) << (7 * (head - start))
            head += 1
            if byte < 0x80:
                break
        field_type = load_8(at)
        at += head
        store_64(box, head + size)
        if at + size > limit or head + size > unread:
            return -1
        if kind == _OPAQUE:
            return write_opaque(field_type, at, size, to)  # type: ignore[no-any-return]
        return write_string(at, size, to)  # type: ignore[no-any-return]
    if kind == _LITERAL:
        size = 1
    elif kind == _INT16 or kind == _UINT16:
        size = 2
    elif kind == _INT32 or kind == _UINT32:
        size = 4
    elif _INT64 <= kind <= _DOUBLE:
        size = 8
    else:
        return -1
    if at + size > limit or (not inline and size > unread):
        return -1
    store_64(box, 0 if inline else size)
    if kind == _LITERAL:
        code = load_8(at)
        if code == 0:
            store_32(to, _NULL)
            return to + 4
        if code == 1:
            store_32(to, _TRUE)
            return to + 4
        if code == 2:
            store_8(to, _F)
            store_32(to + 1, _ALSE)
            return to + 5
        return -1
    if kind == _INT16:
        return write_signed((load_16(at) ^ 0x8000) - 0x8000, to)  # type: ignore[no-any-return]
    if kind == _INT32:
        return write_signed((load_32(at) ^ 0x80000000) - 0x80000000, to)  # type: ignore[no-any-return]
    if kind == _INT64:
        return write_signed(load_64(at), to)  # type: ignore[no-any-return]
    if kind == _DOUBLE:
        return write_double(at, to)  # type: ignore[no-any-return]
    return write_unsigned(np.uint64(read_little(at, size)), to)  # type: ignore[no-any-return]


@njit(**KERNEL)
def write_document(at: int, end: int, to: int, stack: int) -> int:
    """Write one document; returns the address after its text, −1 when it is not for this kernel.

    Args:
        at: address of the document, of at least one byte.
        end: address of its end.
        to: where to write; there is `text_room` for it.
        stack: address of STACK_BYTES of work space.
    """
    kind = load_8(at)
    at += 1
    unread = end - at  # a document whose values overlap would need more: its text could be exponentially long
    box = stack  # the outermost line holds no container
    depth = 0
    base = members = key_at = value_at = shape = np.int64(0)
    limit = end
    inline = False
    while True:
        opened = kind < _LITERAL
        if opened:
            large = kind & 1
            width = 2 + 2 * large
            if depth == _MAX_DEPTH or at + 2 * width > limit:
                return -1
            count = load_32(at) if large else load_16(at)
            size = load_32(at + 4) if large else load_16(at + 2)
            keys = count * (width + 2) if kind < 2 else 0
            used = 2 * width + keys + count * (width + 1)
            if at + size > limit or used > size or used > unread:
                return -1
            unread -= used
            frame = stack + depth * _FRAME
            if depth > 0:
                store_64(frame + _BASE, base)
                store_64(frame + _LIMIT, limit)
                store_64(frame + _KEY, key_at)
                store_64(frame + _VALUE, value_at)
                store_64(frame + _MEMBERS, members)
                store_64(frame + _KIND, shape)
            depth += 1
            base, limit, members, shape = at, at + size, count, kind
            key_at = at + 2 * width
            value_at = key_at + keys
            store_8(to, _OPEN_BRACE if kind < 2 else _OPEN_BRACKET)
            to += 1
        else:
            to = _write_scalar(kind, at, limit, unread, inline, to, box)
            if to < 0:
                return -1
            unread -= load_64(box)
        while depth > 0 and members == 0:
            store_8(to, _CLOSE_BRACE if shape < 2 else _CLOSE_BRACKET)
            to += 1
            opened = False
            depth -= 1
            if depth > 0:
                frame = stack + depth * _FRAME
                base = load_64(frame + _BASE)
                limit = load_64(frame + _LIMIT)
                key_at = load_64(frame + _KEY)
                value_at = load_64(frame + _VALUE)
                members = load_64(frame + _MEMBERS)
                shape = load_64(frame + _KIND)
        if depth == 0:
            return to
        if not opened:
            store_8(to, _COMMA)
            to += 1
        members -= 1
        large = shape & 1
        width = 2 + 2 * large
        if shape < 2:
            start = base + (load_32(key_at) if large else load_16(key_at))
            length = load_16(key_at + width)
            key_at += width + 2
            if start + length > limit or length > unread:
                return -1
            unread -= length
            to = write_string(start, length, to)
            if to < 0:
                return -1
            store_8(to, _COLON)
            to += 1
        kind = load_8(value_at)
        inline = _inline(kind, large)
        if inline:
            at = value_at + 1
        else:
            offset = load_32(value_at + 1) if large else load_16(value_at + 1)
            if offset < 2 * width:
                return -1
            at = base + offset
        value_at += width + 1


@njit(**KERNEL)
def write_documents(
    data: Bytes, offsets: Offsets, validity: Bytes, row: int, text: Bytes, text_offsets: Offsets, stack: Bytes
) -> tuple[int, int]:
    """Write documents as text until all are written, the text is full, or one is not for this kernel.

    Args:
        data: the documents, end to end.
        offsets: int32[rows + 1], where each begins in `data`.
        validity: Arrow's bitmap; empty when no row is NULL.
        row: first row to write.
        text: target.
        text_offsets: int32[rows + 1], where each text begins; set up to `row`, and here to the row returned.
        stack: STACK_BYTES of work space.

    Returns:
        (DONE, FULL or LEFT; the row not yet written). An empty document is `null`; a NULL row has no text.
    """
    frames = address_of(stack)
    source = address_of(data)
    target = address_of(text)
    bits = address_of(validity)
    nullable = validity.shape[0] > 0
    rows = offsets.shape[0] - 1
    written = np.int64(text_offsets[row])
    room = min(text.shape[0], MAX_TEXT_BYTES)
    while row < rows:
        if not nullable or bit(bits, row):
            at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
            if written + text_room(end - at) > room:
                return FULL, row
            if at == end:
                store_32(target + written, _NULL)
                written += 4
            else:
                after = write_document(source + at, source + end, target + written, frames)
                if after < 0:
                    return LEFT, row
                written = after - target
        row += 1
        text_offsets[row] = written
    return DONE, row
