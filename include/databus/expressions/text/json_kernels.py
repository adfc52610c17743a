"""Kernels that find a value in JSON texts by a path, as Jackson reads them: the whole of the outermost value counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.rows.columns import Bytes, Ints

NOTHING, PLAIN, LITERAL, FLOAT, VALUE, DOCUMENT, UNSURE = range(7)
"""Kinds of what a path finds: nothing, a text as it stands, a literal, a number with a fraction or exponent, a value
that has to be read (an object, an array, a text with escapes), one in a document whose keys have to be read, what
Spark alone reads.
"""

NAME = -1
"""Step of a path that is a name; others are indexes."""

_DEEPEST = 200
"""Levels that are read here; Jackson refuses more than 1,000."""
_LONGEST_NUMBER = 100
_LONGEST_KEY = 40_000
"""Bytes of a number and of a key that are read here: Jackson refuses more than 1,000 and 50,000 characters."""

_OBJECT, _ARRAY, _ON_PATH = 1, 2, 4
_BAD = -1


@njit(cache=True, nogil=True)
def find(offsets: npt.NDArray[np.int32], data: Bytes, steps: Ints, name_offsets: Ints, names: Bytes) -> Any:
    """Find a path's value in each text.

    Args:
        offsets: int32[n + 1] of the texts.
        data: their bytes, UTF-8.
        steps: of the path: `NAME` or an index.
        name_offsets: int64[steps + 1], where each step's name is in the next.
        names: bytes of the names.

    Returns:
        kind int8[n], start and stop int64[n] of what was found in `data`; a text without its quotes.
    """
    n = offsets.size - 1
    kinds, starts, stops = np.zeros(n, np.int8), np.zeros(n, np.int64), np.zeros(n, np.int64)
    stack, counts = np.zeros(_DEEPEST + 1, np.int8), np.zeros(_DEEPEST + 1, np.int64)
    for i in range(n):
        found = _find_in(
            data, np.int64(offsets[i]), np.int64(offsets[i + 1]), steps, name_offsets, names, stack, counts
        )
        kinds[i], starts[i], stops[i] = found
    return kinds, starts, stops


@njit(cache=True, nogil=True)
def _find_in(
    data: Bytes, p: Any, end: Any, steps: Ints, name_offsets: Ints, names: Bytes, stack: Any, counts: Ints
) -> Any:
    """Return kind, start and stop of the value in one text.

    `depth` is the number of open objects and arrays. Those that lie on the path are the outermost ones, so that the
    innermost of them has the step `depth - 1` inside; they are marked in `stack`.
    """
    nothing, unsure = (NOTHING, np.int64(0), np.int64(0)), (UNSURE, np.int64(0), np.int64(0))
    p = _skip(data, p, end)
    if p >= end or (data[p] != 123 and data[p] != 91):
        # A scalar holds no other value; what is no JSON, but perhaps to Jackson, is not looked at here.
        return unsure if p < end and data[p] in (39, 239) else nothing
    kind, start, stop = NOTHING, np.int64(0), np.int64(0)
    depth, result_depth = 0, -1
    on_path, key_escaped = True, False
    while True:
        # A value begins at p.
        if p >= end:
            return nothing
        wanted = on_path and kind == NOTHING and depth == steps.size
        if data[p] in (123, 91):
            if depth == _DEEPEST:
                return unsure
            opened = _OBJECT if data[p] == 123 else _ARRAY
            if wanted:
                kind, start, result_depth = VALUE, p, depth
            elif on_path and kind == NOTHING and (steps[depth] == NAME) == (opened == _OBJECT):
                opened |= _ON_PATH
            stack[depth], counts[depth] = opened, 0
            depth += 1
            p = _skip(data, p + 1, end)
            closing = p < end and data[p] == _bracket(opened)
        else:
            after, found, escapes = _scalar(data, p, end)
            if found == _BAD:
                return unsure if escapes else nothing
            # A member that is null is none; an element is.
            if wanted and not (data[p] == 110 and steps[depth - 1] == NAME):
                kind, start, stop = found, p, after
                if found == PLAIN and escapes:
                    kind = VALUE
                elif found == PLAIN:
                    start, stop = p + 1, after - 1
            p = _skip(data, after, end)
            if p >= end:
                return nothing
            closing = data[p] == _bracket(stack[depth - 1])
            if not closing:
                if data[p] != 44:
                    return nothing
                p = _skip(data, p + 1, end)
                counts[depth - 1] += 1
        while closing:
            depth -= 1
            p += 1
            if depth == result_depth:
                stop, result_depth = p, -1
            if depth == 0:
                return (DOCUMENT, start, stop) if key_escaped else (kind, start, stop)
            p = _skip(data, p, end)
            if p >= end:
                return nothing
            closing = data[p] == _bracket(stack[depth - 1])
            if not closing:
                if data[p] != 44:
                    return nothing
                p = _skip(data, p + 1, end)
                counts[depth - 1] += 1
        # The next member or element begins at p.
        on_path = stack[depth - 1] & _ON_PATH != 0
        if stack[depth - 1] & 3 == _OBJECT:
            if p >= end or data[p] != 34:
                return unsure if p < end and data[p] == 39 else nothing
            after, found, escapes = _scalar(data, p, end)
            if found == _BAD:
                return nothing
            if after - p > _LONGEST_KEY:
                return unsure
            if on_path:
                key_escaped |= escapes and kind == NOTHING
                on_path = _equal(data, p + 1, after - 1, names, name_offsets[depth - 1], name_offsets[depth])
            p = _skip(data, after, end)
            if p >= end or data[p] != 58:
                return nothing
            p = _skip(data, p + 1, end)
        elif on_path:
            on_path = counts[depth - 1] == steps[depth - 1]


@njit(cache=True, nogil=True)
def _bracket(opened: int) -> int:
    return 125 if opened & 3 == _OBJECT else 93


@njit(cache=True, nogil=True)
def _equal(data: Bytes, start: int, stop: int, names: Bytes, first: int, last: int) -> bool:
    if stop - start != last - first:
        return False
    for k in range(stop - start):  # noqa: SIM110 - Numba has no generators
        if data[start + k] != names[first + k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _skip(data: Bytes, p: int, end: int) -> int:
    while p < end and data[p] in (32, 9, 10, 13):
        p += 1
    return p


@njit(cache=True, nogil=True)
def _scalar(data: Bytes, p: int, end: int) -> tuple[int, int, bool]:
    """Return the place behind a scalar, its kind and whether a text has escapes.

    `_BAD` is the kind of what is none, with True where Jackson may read it all the same.
    """
    c = data[p]
    if c == 34:
        return _text(data, p, end)
    if c in (116, 110):
        word = (116, 114, 117, 101) if c == 116 else (110, 117, 108, 108)
        if p + 4 > end:
            return p, _BAD, False
        for k in range(4):
            if data[p + k] != word[k]:
                return p, _BAD, False
        return p + 4, LITERAL, False
    if c == 102:
        if p + 5 > end or data[p + 1] != 97 or data[p + 2] != 108 or data[p + 3] != 115 or data[p + 4] != 101:
            return p, _BAD, False
        return p + 5, LITERAL, False
    if c == 45 or 48 <= c <= 57:
        return _number(data, p, end)
    return p, _BAD, c == 39


@njit(cache=True, nogil=True)
def _text(data: Bytes, p: int, end: int) -> tuple[int, int, bool]:
    escapes = False
    p += 1
    while p < end:
        c = data[p]
        if c == 34:
            return p + 1, PLAIN, escapes
        if c == 92:
            escapes = True
            p += 1
            if p >= end:
                return p, _BAD, False
            c = data[p]
            if c == 117:
                if p + 4 >= end:
                    return p, _BAD, False
                for k in range(1, 5):
                    h = data[p + k]
                    if not (48 <= h <= 57 or 65 <= h <= 70 or 97 <= h <= 102):
                        return p, _BAD, False
                p += 4
            elif c not in (34, 92, 47, 98, 102, 110, 114, 116):
                return p, _BAD, False
        p += 1
    return p, _BAD, False


@njit(cache=True, nogil=True)
def _number(data: Bytes, p: int, end: int) -> tuple[int, int, bool]:
    start = p
    if data[p] == 45:
        p += 1
    first = p
    p = _digits(data, p, end)
    if p == first or (data[first] == 48 and p > first + 1):
        return p, _BAD, False
    kind = LITERAL
    if p == first + 1 and data[first] == 48 and first > start:
        kind = VALUE  # -0 is 0
    if p < end and data[p] == 46:
        kind, first = FLOAT, p + 1
        p = _digits(data, first, end)
        if p == first:
            return p, _BAD, False
    if p < end and data[p] in (69, 101):
        kind, first = FLOAT, p + 1
        if first < end and data[first] in (43, 45):
            first += 1
        p = _digits(data, first, end)
        if p == first:
            return p, _BAD, False
        if p - first > 2:
            return p, _BAD, True
    if p - start > _LONGEST_NUMBER:
        return p, _BAD, True
    return p, kind, False


@njit(cache=True, nogil=True)
def _digits(data: Bytes, p: int, end: int) -> int:
    while p < end and 48 <= data[p] <= 57:
        p += 1
    return p
