"""Columns of a SELECT: the expression that asks for one, how its values are sent, and their way to the log's values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.arena import Arena, kernel_columns
from databus.binlog.decoding.arrow_columns import column_array
from databus.binlog.kernels import kinds as k
from databus.binlog.kernels.images import C_META
from databus.binlog.kernels.result_values import BY_DATE, BY_LENGTH, BY_TIME
from databus.binlog.values.charsets import charset_named
from databus.binlog.values.column_types import Column, ColumnType
from databus.binlog.values.json_sent import sent_json_texts
from databus.binlog.values.text_columns import Undecodable
from databus.core.errors.source import DecodeError

_T = ColumnType
_TEXT = charset_named("utf8mb4")
_UNPACKED = {_T.VARCHAR_COMPRESSED: _T.VARCHAR, _T.BLOB_COMPRESSED: _T.BLOB}

_WAYS = {1: 1, 2: 2, 13: 2, 3: 4, 9: 4, 8: 8, 4: 4, 5: 8, 7: BY_DATE, 10: BY_DATE, 12: BY_DATE, 11: BY_TIME}
"""The server's type number → how values are sent; others by their length."""

_EXPECTED = {
    k.RAW1: (1,),
    k.RAW2: (2,),
    k.YEAR: (2,),
    k.INT3: (4,),
    k.UINT3: (4,),
    k.RAW4: (4,),
    k.RAW8: (8,),
    k.DATE: (BY_DATE,),
    k.DATETIME: (BY_DATE,),
    k.TIMESTAMP: (BY_DATE,),
    k.TIME: (BY_TIME,),
    k.ENUM: (1, 2, 4, 8),  # MariaDB sends a CAST in the least type that holds it
    k.SET: (1, 2, 4, 8),
}
"""Kind of a column → ways in which its values may be sent; others by their length."""


@dataclass(frozen=True)
class ColumnRead:
    """Reading of one column.

    Attributes:
        column: the column as the log describes it.
        expression: what the SELECT asks for.
        sent: the column as its values arrive: what the log packs or numbers, the server sends as text.
    """

    column: Column
    expression: str
    sent: Column

    def array(self, number: int, arena: Arena, rows: int) -> tuple[pa.Array, Undecodable]:
        """Return the column's values, of the type that decoding the log gives, and the bytes of what is no text."""
        array, undecodable = column_array(self.sent, number, arena, rows)
        if self.column.type is _T.JSON:
            array = sent_json_texts(array)
        elif self.column.kind == k.DECIMAL_TEXT:  # ZEROFILL shows zeros that the number does not have
            array = pc.replace_substring_regex(array, pattern=r"^(-?)0+([0-9])", replacement=r"\1\2")
        return array, undecodable


def column_read(column: Column) -> ColumnRead:
    """Return how a column is read."""
    name = "`" + column.name.replace("`", "``") + "`"
    if column.type in (_T.ENUM, _T.SET):  # an invalid member has no text of its own, and a text may be two members
        return ColumnRead(column, f"CAST({name} AS UNSIGNED)", column)
    if column.type is _T.JSON or column.logical or column.kind == k.DECIMAL_TEXT:
        return ColumnRead(column, name, Column(column.name, _T.BLOB, 4, charset=_TEXT))
    unpacked = _UNPACKED.get(column.type, column.type)
    return ColumnRead(column, name, replace(column, type=unpacked))


def sent_matrix(reads: Sequence[ColumnRead]) -> npt.NDArray[np.int64]:
    """Return the C_… lines by which the kernel writes the values: no bytes of length lie before them."""
    matrix = kernel_columns([read.sent for read in reads])
    matrix[[read.sent.kind in (k.STRING, k.PADDED) for read in reads], C_META] = 0
    return matrix


def sent_ways(reads: Sequence[ColumnRead], types: Sequence[int], what: str) -> npt.NDArray[np.int64]:
    """Return per column how its values are sent.

    Args:
        reads: the columns.
        types: the server's type number of each.
        what: what is read, for messages.

    Raises:
        DecodeError: a column comes as another type than it is defined.
    """
    ways = np.array([_WAYS.get(number, BY_LENGTH) for number in types], np.int64)
    if len(ways) != len(reads):
        raise DecodeError(f"{what}: {len(ways)} columns came where {len(reads)} were asked for")
    for read, way, number in zip(reads, ways.tolist(), types, strict=True):
        if way not in _EXPECTED.get(read.sent.kind, (BY_LENGTH,)):
            raise DecodeError(
                f"{what}: column {read.column.name} ({read.column.source_type}) is sent as type {number}",
                hint="The table has another definition by now; the next attempt reads it anew.",
            )
    return ways
