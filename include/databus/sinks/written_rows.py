"""Rows inside envelopes as they were written: where their text stands, without parsing it.

What is found is the row's JSON as it came, so equal bytes are equal rows; unequal ones are told by `row_state`. A
value in any other form than databus writes is left to a parser.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from databus.rows.columns import Bytes, binary_array, text, validity

OTHER, ROW, DELETED = 0, 1, 2
"""States of a value: one to be parsed, one with a row, one of a deleted row."""

_BEFORE = np.frombuffer(b'{"before":', np.uint8)
_AFTER = np.frombuffer(b',"after":', np.uint8)
_SOURCE = np.frombuffer(b',"source":{', np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)
_OP = np.frombuffer(b',"__op":"', np.uint8)
_MARK = np.frombuffer(b'","__deleted":', np.uint8)
_TRUE = np.frombuffer(b"true,", np.uint8)
_FALSE = np.frombuffer(b"false,", np.uint8)
_COLON = 58
_QUOTE, _ESCAPE, _OPENED, _CLOSED, _LIST, _LIST_END = 34, 92, 123, 125, 91, 93


def written_rows(values: pa.BinaryArray, envelope: str) -> tuple[pa.BinaryArray, npt.NDArray[np.int8]]:
    """Return the JSON text of the row in each value, null where there is none, and int8[n] of states.

    Args:
        values: records' values; null is a deleted row.
        envelope: "debezium" or "row".
    """
    offsets, data = text(values)
    found = _of_envelopes(offsets, data) if envelope == "debezium" else _of_plain_rows(offsets, data)
    starts, ends, states = found
    states[~validity(values)] = DELETED
    rows = states == ROW
    where = np.zeros(len(rows) + 1, np.int32)
    closed = envelope == "row"  # a brace in place of what databus adds to the row
    np.cumsum(np.where(rows, ends - starts + closed, 0), out=where[1:])
    return binary_array(where, _taken(data, starts, where, closed), rows), states


def cut_out(text: bytes, name: str, depth: int) -> tuple[bytes, list[bytes]]:
    """Return a JSON text in which the objects of a member are replaced by their numbers, and these objects as written.

    Args:
        text: the text, without white space between its parts.
        name: the member's name.
        depth: how many brackets are open where the member stands.
    """
    label = np.frombuffer(f'"{name}":'.encode(), np.uint8)
    found = _members(np.frombuffer(text, np.uint8), label, depth)
    objects, parts, place = [], [], 0
    for number, (start, end) in enumerate(found.tolist()):
        objects.append(text[start:end])
        parts += [text[place:start], b"%d" % number]
        place = end
    return b"".join([*parts, text[place:]]), objects


@njit(cache=True, nogil=True)
def _members(data: Bytes, label: Bytes, depth: int) -> npt.NDArray[np.int64]:
    """Return int64[n, 2], beginning and end of the objects of a member at a depth."""
    found, n = np.empty((16, 2), np.int64), 0
    p, open_now, end = 0, 0, data.size
    while p < end:
        c = data[p]
        if c == _QUOTE:
            if open_now == depth and data[p - 1] != _COLON and _stands(data, p, end, label):
                start = p + label.size
                if start < end and data[start] == _OPENED:
                    p = _closed(data, start, end, 0)
                    if p < 0:
                        break
                    if n == found.shape[0]:
                        more = np.empty((2 * n, 2), np.int64)
                        more[:n] = found
                        found = more
                    found[n, 0], found[n, 1] = start, p
                    n += 1
                    continue
            p = _behind_text(data, p, end)
            continue
        if c in (_OPENED, _LIST):
            open_now += 1
        elif c in (_CLOSED, _LIST_END):
            open_now -= 1
        p += 1
    return found[:n]


@njit(cache=True, nogil=True)
def _stands(data: Bytes, p: Any, end: Any, literal: Bytes) -> bool:
    if p + literal.size > end:
        return False
    for k in range(literal.size):  # noqa: SIM110
        if data[p + k] != literal[k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _behind_text(data: Bytes, p: Any, end: Any) -> Any:
    """Return the place behind the text whose first quote is at p; `end` or behind it where the text does not end."""
    p += 1
    while p < end:
        c = data[p]
        if c == _QUOTE:
            return p + 1
        if c == _ESCAPE:
            p += 1
        p += 1
    return p


@njit(cache=True, nogil=True)
def _past(data: Bytes, p: Any, end: Any) -> Any:
    """Return the place behind the object or null that begins at p; -1 where neither does, or it does not end."""
    if _stands(data, p, end, _NULL):
        return p + 4
    return _closed(data, p, end, 0) if p < end and data[p] == _OPENED else -1


@njit(cache=True, nogil=True)
def _closed(data: Bytes, p: Any, end: Any, depth: int) -> Any:
    """Return the place behind the bracket that ends what is open at p, `depth` deep; -1 where none does."""
    while p < end:
        c = data[p]
        if c == _QUOTE:
            p = _behind_text(data, p, end)
            continue
        if c in (_OPENED, _LIST):
            depth += 1
        elif c in (_CLOSED, _LIST_END):
            depth -= 1
            if depth == 0:
                return p + 1
        p += 1
    return -1


@njit(cache=True, nogil=True)
def _of_envelopes(
    offsets: npt.NDArray[np.int32], data: Bytes
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    n = offsets.size - 1
    starts, ends, states = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int8)
    for i in range(n):
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if not _stands(data, begin, end, _BEFORE):
            continue
        p = _past(data, begin + _BEFORE.size, end)
        if p < 0 or not _stands(data, p, end, _AFTER):
            continue
        p += _AFTER.size
        q = _past(data, p, end)
        if q < 0 or not _stands(data, q, end, _SOURCE) or _closed(data, q, end, 1) != end:
            continue
        starts[i], ends[i] = p, q
        states[i] = ROW if data[p] == _OPENED else DELETED
    return starts, ends, states


@njit(cache=True, nogil=True)
def _of_plain_rows(
    offsets: npt.NDArray[np.int32], data: Bytes
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    n = offsets.size - 1
    starts, ends, states = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int8)
    for i in range(n):
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        p = _added(data, begin, end) if begin < end and data[begin] == _OPENED else -1
        if p < 0 or _closed(data, p, end, 1) != end:
            continue
        q = p + _OP.size
        while q < end and data[q] != _QUOTE:
            q += 1
        if not _stands(data, q, end, _MARK):
            continue
        q += _MARK.size
        starts[i], ends[i] = begin, p
        if _stands(data, q, end, _TRUE):
            states[i] = DELETED
        elif _stands(data, q, end, _FALSE):
            states[i] = ROW
    return starts, ends, states


@njit(cache=True, nogil=True)
def _added(data: Bytes, p: Any, end: Any) -> Any:
    """Return where the members that databus adds to an object begin; -1 where they do not."""
    depth = 0
    while p < end:
        c = data[p]
        if c == _QUOTE:
            p = _behind_text(data, p, end)
            continue
        if c in (_OPENED, _LIST):
            depth += 1
        elif c in (_CLOSED, _LIST_END):
            depth -= 1
        elif depth == 1 and _stands(data, p, end, _OP):
            return p
        p += 1
    return -1


@njit(cache=True, nogil=True)
def _taken(data: Bytes, starts: npt.NDArray[np.int64], where: npt.NDArray[np.int32], closed: bool) -> Bytes:
    out = np.empty(where[-1], np.uint8)
    for i in range(starts.size):
        p, size = np.int64(where[i]), np.int64(where[i + 1]) - where[i]
        if size == 0:
            continue
        if closed:
            size -= 1
            out[p + size] = _CLOSED
        for k in range(size):
            out[p + k] = data[starts[i] + k]
    return out
