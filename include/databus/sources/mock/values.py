"""Values of mock columns: 64 random bits of each row → an Arrow array as the decoder gives it for the type."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.schema_history.definition import DeclaredType
from databus.sources.mock.declared import JSON_FRAME
from databus.sources.mock.draws import mix

Bits = npt.NDArray[np.uint64]
Nulls = npt.NDArray[np.bool_]

_WORDS = pa.array(["new", "paid", "packed", "shipped", "café", "returned", "a much longer state than the others", ""])
_LONGEST_WORD = 35
_SHORT = 24
"""Most bytes of a value of bytes whose size nobody asks for."""
_POOL = 4_096
_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_MEMBERS_AT_MOST = 8
"""Members of a SET that its values are made of."""
_LAST_TIMESTAMP_S = 2_000_000_000


def values(kind: DeclaredType, bits: Bits, null: Nulls, size: int = 0) -> pa.Array:
    """Return a column.

    Args:
        kind: type of the column.
        bits: of each row.
        null: which rows have NULL.
        size: characters or bytes of each value of text, bytes or JSON; 0 for few.
    """
    return _MADE.get(kind.name, _text)(kind, bits, null, size)


def _integer(kind: DeclaredType, bits: Bits, null: Nulls, _: int) -> pa.Array:
    width = _INTEGERS[kind.name]
    stored = 32 if width == 24 else width
    found = (bits << np.uint64(stored - width)).astype(f"u{stored // 8}")
    if kind.unsigned:
        return pa.array(found >> np.array(stored - width, found.dtype), mask=null)
    signed = found.view(f"i{stored // 8}")
    return pa.array(signed >> np.array(stored - width, signed.dtype), mask=null)


def _double(_: DeclaredType, bits: Bits, null: Nulls, __: int) -> pa.Array:
    return pa.array(bits.astype(np.float64) / 2**64 * 1000, mask=null)


def _float(_: DeclaredType, bits: Bits, null: Nulls, __: int) -> pa.Array:
    return pa.array((bits.astype(np.float64) / 2**64 * 1000).astype(np.float32), mask=null)


def _date(_: DeclaredType, bits: Bits, null: Nulls, __: int) -> pa.Array:
    return pa.array((bits % np.uint64(20_000)).astype(np.int32), pa.int32(), mask=null).cast(pa.date32())


def _year(_: DeclaredType, bits: Bits, null: Nulls, __: int) -> pa.Array:
    return pa.array((bits % np.uint64(255)).astype(np.int16) + np.int16(1901), mask=null)


def _datetime(kind: DeclaredType, bits: Bits, null: Nulls, _: int) -> pa.Array:
    micros = (bits % np.uint64(_LAST_TIMESTAMP_S * 1_000_000)).astype(np.int64)
    return pa.array(_whole(micros, kind), pa.timestamp("us"), mask=null)


def _timestamp(kind: DeclaredType, bits: Bits, null: Nulls, _: int) -> pa.Array:
    micros = (bits % np.uint64((_LAST_TIMESTAMP_S - 1) * 1_000_000)).astype(np.int64) + 1_000_000
    return pa.array(_whole(micros, kind), pa.timestamp("us", "UTC"), mask=null)


def _time(kind: DeclaredType, bits: Bits, null: Nulls, _: int) -> pa.Array:
    most = 838 * 3_600_000_000
    micros = (bits % np.uint64(2 * most)).astype(np.int64) - most
    return pa.array(_whole(micros, kind), pa.duration("us"), mask=null)


def _whole(micros: npt.NDArray[np.int64], kind: DeclaredType) -> npt.NDArray[np.int64]:
    step = 10 ** (6 - (kind.numbers or (0,))[0])
    cut: npt.NDArray[np.int64] = micros // step * step
    return cut


def _decimal(kind: DeclaredType, bits: Bits, null: Nulls, _: int) -> pa.Array:
    precision, scale = kind.numbers
    digits = (bits % np.uint64(10 ** min(precision, 18))).astype(np.int64)
    unscaled = pa.array(digits, mask=null).cast(pa.decimal128(38, 0))
    return pa.Array.from_buffers(
        pa.decimal128(precision, scale), len(unscaled), unscaled.buffers(), unscaled.null_count
    )


def _bit(kind: DeclaredType, bits: Bits, null: Nulls, _: int) -> pa.Array:
    return pa.array(bits >> np.uint64(64 - kind.numbers[0]), mask=null)


def _enum(kind: DeclaredType, bits: Bits, null: Nulls, _: int) -> pa.Array:
    return _chosen(pa.array(kind.values, pa.string()), bits, null)


def _set(kind: DeclaredType, bits: Bits, null: Nulls, _: int) -> pa.Array:
    members = kind.values[:_MEMBERS_AT_MOST]
    every = [",".join(itertools.compress(members, which)) for which in itertools.product((0, 1), repeat=len(members))]
    return _chosen(pa.array(every, pa.string()), bits, null)


def _chosen(of: pa.StringArray, bits: Bits, null: Nulls) -> pa.StringArray:
    return of.take(pa.array((bits % np.uint64(len(of))).astype(np.int64), mask=null))


def _text(kind: DeclaredType, bits: Bits, null: Nulls, size: int) -> pa.Array:
    most = kind.numbers[0] if kind.numbers else _POOL
    if not size and most >= _LONGEST_WORD:
        return _chosen(_WORDS, bits, null)
    if size:
        return _pieces(bits, np.full(len(bits), size, np.int64), null, pa.string())
    return _pieces(bits, (bits >> np.uint64(32)).astype(np.int64) % (most + 1), null, pa.string())


def _bytes(kind: DeclaredType, bits: Bits, null: Nulls, size: int) -> pa.Array:
    most = kind.numbers[0] if kind.numbers else _SHORT
    if kind.name == "binary" or size:
        lengths = np.full(len(bits), size or most, np.int64)
    else:
        lengths = (bits >> np.uint64(32)).astype(np.int64) % (min(most, _SHORT) + 1)
    return _pieces(bits, lengths, null, pa.binary())


def _json(_: DeclaredType, bits: Bits, null: Nulls, size: int) -> pa.Array:
    number = pa.array((bits >> np.uint64(40)).astype(np.int64) + 10_000_000).cast(pa.string())
    whole = np.zeros(len(bits), np.bool_)
    told = (
        _pieces(bits, np.full(len(bits), size - JSON_FRAME, np.int64), whole, pa.string())
        if size
        else _chosen(_WORDS, bits, whole)
    )
    found = pc.binary_join_element_wise('{"n": ', number, ', "s": "', told, '"}', "")
    return pc.if_else(pa.array(null), pa.scalar(None, pa.string()), found)


def _pieces(bits: Bits, lengths: npt.NDArray[np.int64], null: Nulls, kind: pa.DataType) -> pa.Array:
    """Return pieces of a fixed text of letters, or of fixed bytes."""
    lengths = np.where(null, 0, lengths)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    pool = mix(np.arange(_POOL // 8, dtype=np.uint64), 1).view(np.uint8)
    if kind == pa.string():
        pool = pool % np.uint8(26) + np.uint8(ord("a"))
    at = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    data = pool[(at + np.repeat((bits % np.uint64(_POOL)).astype(np.int64), lengths)) % _POOL]
    return pa.Array.from_buffers(
        kind,
        len(lengths),
        [pa.array(~null).buffers()[1], pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)],
    )


_MADE: dict[str, Callable[[DeclaredType, Bits, Nulls, int], pa.Array]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _bytes),
    "double": _double, "float": _float, "date": _date, "year": _year, "datetime": _datetime, "timestamp": _timestamp,
    "time": _time, "decimal": _decimal, "bit": _bit, "enum": _enum, "set": _set, "json": _json,
}  # fmt: skip
