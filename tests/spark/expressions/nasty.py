"""Rows of values that tell engines apart: NULL, extremes, NaN, -0.0, accents, astral characters, blanks, old dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_NAN, _INF = float("nan"), float("inf")

VALUES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "t": (pa.int8(), [None, 0, 1, -1, 127, -128, 7, -3]),
    "h": (pa.int16(), [None, 0, 1, -1, 32767, -32768, 128, -300, 77]),
    "i": (pa.int32(), [None, 0, 1, -1, 2**31 - 1, -(2**31), 2, 3, 10, -7, 100000, 65536]),
    "l": (pa.int64(), [None, 0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 5, -42, 10**18, 2**31]),
    "f": (pa.float32(), [None, 0.0, -0.0, 1.5, _NAN, _INF, -_INF, 3.4028235e38, 1.4e-45, -2.25, 0.1, 16777217.0]),
    "d": (
        pa.float64(),
        [None, 0.0, -0.0, 1.5, _NAN, _INF, -_INF, 1.7976931348623157e308, 5e-324, -2.5, 0.1, 1e22, 3.0],
    ),
    "n": (
        pa.decimal128(10, 2),
        [None, "0.00", "1.25", "-1.25", "99999999.99", "-99999999.99", "0.01", "3.00", "12345.67"],
    ),
    "u": (pa.decimal128(20, 0), [None, "0", "1", "18446744073709551615", "9223372036854775808", "3", "100"]),
    "w": (
        pa.decimal128(38, 10),
        [None, "0", "1", "-1.5", "9999999999999999999999999999.9999999999", "0.0000000001", "-12345.6789", "7.25"],
    ),
    "s": (
        pa.string(),
        [
            *(None, "", "a", "A", "abc", "ABC ", " abc", "é", "e\u0301", "Straße", "İ", "ß", "\U0001f600x", "a\nb"),
            *(
                "a%b",
                "a_b",
                "10",
                "-7",
                "1.5",
                " 3 ",
                "true",
                "2020-02-29",
                "x\u00a0",
                "\uffff",
                "日本",
                "ab\\c",
                "a'b",
            ),
        ],
    ),
    "r": (pa.string(), [None, "a", "abc", "", "b", "Abc", "10", "é", "z", "\U0001f600", "日本", "a%"]),
    "x": (pa.binary(), [None, b"", b"a", b"\x00\xff", b"abc", b"\x80", b"\xc3\xa9"]),
    "o": (pa.bool_(), [None, True, False]),
    "p": (pa.bool_(), [True, None, False, False]),
    "a": (pa.date32(), [None, 0, -1, 18321, 2932896, -719162, 11016, 19782, -141428]),
    "c": (
        pa.timestamp("us", "UTC"),
        [None, 0, -1, 1582934400000000, 1582934399999999, 253402300799999999, -62135596800000000, 1700000000123456],
    ),
    "e": (
        pa.timestamp("us"),
        [None, 0, 1, 1582934400000000, 951782400000000, 253402300799999999, -62135596800000000, 1700000000000000],
    ),
}
"""Column → its type and values; dates are days and timestamps microseconds since 1970."""


def nasty(rows: int = 200, seed: int = 1) -> pa.Table:
    """Return rows in which each value of each column stands at least once, mixed at random."""
    return mixed(VALUES, rows, seed)


def mixed(columns: Mapping[str, tuple[pa.DataType, Sequence[Any]]], rows: int, seed: int) -> pa.Table:
    """Return rows of columns' values, each at least once, mixed at random."""
    random = np.random.default_rng(seed)
    made = {}
    for name, (kind, values) in columns.items():
        chosen = [*range(len(values)), *random.integers(0, len(values), rows)][:rows]
        random.shuffle(chosen)
        made[name] = _array(kind, values).take(pa.array(chosen))
    return pa.table(made)


def _array(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array(values, pa.string()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, pa.int32()).cast(kind) if pa.types.is_date(kind) else pa.array(values, kind)
