"""Temporal columns as ISO-8601 text, the lossless form in which they travel.

DATE "2024-01-31"; DATETIME(f) "2024-01-31T10:00:00.123456" with exactly f digits; TIMESTAMP(f) the same with "Z";
TIME(f) "-838:59:59.999999". f is the column's declared fractional seconds precision.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from databus.core.tables.schemas import ColumnSchema
from databus.rows.columns import Bytes, Ints, fixed, string_array, validity

_FRACTION = re.compile(r"^(?:datetime|timestamp|time)\s*\((\d)\)")
_US_PER_DAY = 86_400_000_000


def is_temporal(kind: pa.DataType) -> bool:
    """Return whether values of this Arrow type travel as ISO text."""
    return bool(pa.types.is_date32(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind))


def fraction_digits(column: ColumnSchema) -> int:
    """Return the declared fractional seconds precision, 0 to 6: "datetime(3)" → 3, "time" → 0."""
    found = _FRACTION.match(column.type)
    return int(found.group(1)) if found else 0


def iso_text(array: pa.Array, column: ColumnSchema) -> pa.StringArray:
    """Return a DATE, DATETIME, TIMESTAMP or TIME column as ISO-8601 text; nulls stay null."""
    valid = validity(array)
    digits = fraction_digits(column)
    if pa.types.is_date32(array.type):
        offsets, data = _dates(fixed(array, np.int32), valid)
    elif pa.types.is_timestamp(array.type):
        offsets, data = _datetimes(_microseconds(array), valid, digits, array.type.tz is not None)
    else:
        offsets, data = _times(_microseconds(array), valid, digits)
    return string_array(offsets, data, valid)


def _microseconds(array: pa.Array) -> Ints:
    if array.type.unit != "us":
        raise TypeError(f"temporal columns are in microseconds, got {array.type}")
    return fixed(array, np.int64)


@njit(cache=True, nogil=True)
def _put2(out: Bytes, p: int, value: int) -> None:
    out[p] = 48 + value // 10
    out[p + 1] = 48 + value % 10


@njit(cache=True, nogil=True)
def _put_date(out: Bytes, p: int, days: int) -> None:
    # Days since 1970-01-01 → proleptic Gregorian date (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    z = days + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 if mp < 10 else mp - 9
    year = yoe + era * 400 + (1 if month <= 2 else 0)
    _put2(out, p, year // 100)
    _put2(out, p + 2, year % 100)
    out[p + 4] = 45
    _put2(out, p + 5, month)
    out[p + 7] = 45
    _put2(out, p + 8, doy - (153 * mp + 2) // 5 + 1)


@njit(cache=True, nogil=True)
def _put_clock(out: Bytes, p: int, rest_us: int, digits: int) -> int:
    """Write MM:SS[.f] of the microseconds past the hour; return the position after it."""
    seconds = rest_us // 1_000_000
    _put2(out, p, seconds // 60)
    out[p + 2] = 58
    _put2(out, p + 3, seconds % 60)
    p += 5
    if digits:
        out[p] = 46
        micros = rest_us % 1_000_000
        scale = 100_000
        for k in range(digits):
            out[p + 1 + k] = 48 + micros // scale % 10
            scale //= 10
        p += digits + 1
    return p


@njit(cache=True, nogil=True)
def _dates(days: npt.NDArray[np.int32], valid: npt.NDArray[np.bool_]) -> Any:
    n = days.size
    offsets = np.empty(n + 1, np.int32)
    data = np.empty(10 * n, np.uint8)
    p = 0
    for i in range(n):
        offsets[i] = p
        if valid[i]:
            _put_date(data, p, days[i])
            p += 10
    offsets[n] = p
    return offsets, data[:p]


@njit(cache=True, nogil=True)
def _datetimes(micros: Ints, valid: npt.NDArray[np.bool_], digits: int, utc: bool) -> Any:
    n = micros.size
    offsets = np.empty(n + 1, np.int32)
    data = np.empty(27 * n, np.uint8)
    p = 0
    for i in range(n):
        offsets[i] = p
        if valid[i]:
            days = micros[i] // _US_PER_DAY
            rest = micros[i] - days * _US_PER_DAY
            _put_date(data, p, days)
            data[p + 10] = 84
            _put2(data, p + 11, rest // 3_600_000_000)
            data[p + 13] = 58
            p = _put_clock(data, p + 14, rest % 3_600_000_000, digits)
            if utc:
                data[p] = 90
                p += 1
    offsets[n] = p
    return offsets, data[:p]


@njit(cache=True, nogil=True)
def _times(micros: Ints, valid: npt.NDArray[np.bool_], digits: int) -> Any:
    n = micros.size
    offsets = np.empty(n + 1, np.int32)
    data = np.empty(18 * n, np.uint8)
    p = 0
    for i in range(n):
        offsets[i] = p
        if valid[i]:
            value = micros[i]
            if value < 0:
                data[p] = 45
                p += 1
                value = -value
            hours = value // 3_600_000_000
            if hours >= 100:
                data[p] = 48 + hours // 100
                p += 1
            _put2(data, p, hours % 100)
            data[p + 2] = 58
            p = _put_clock(data, p + 3, value % 3_600_000_000, digits)
    offsets[n] = p
    return offsets, data[:p]
