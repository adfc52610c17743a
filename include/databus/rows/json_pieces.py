"""Columns joined piece by piece into one binary column: how an envelope is put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.rows import json_kernels as kernels
from databus.rows.columns import Bytes, binary_array, text, validity

_ROWS_AT_ONCE = 1024
_NO_INDEX = np.zeros(0, np.int32)
_ALL_VALID = np.zeros(0, np.bool_)


@dataclass(frozen=True)
class Values:
    """A piece that differs from row to row.

    Attributes:
        array: string or binary array; a null is written as `null`.
        index: int32[rows], which value each row takes; None where value i belongs to row i.
    """

    array: pa.Array
    index: npt.NDArray[np.int32] | None = None


Piece = bytes | Values
"""The same bytes in every row, or a column."""


def join(pieces: Iterable[Piece], rows: int) -> pa.BinaryArray:
    """Return the concatenation of the pieces, row by row; together under 2 GiB."""
    steps = [_Step.of(piece) for piece in _merged(pieces)]
    lengths = np.zeros(rows, np.int64)
    for step in steps:
        step.measure(lengths)
    where = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths, out=where[1:])
    if where[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{rows} rows take {where[-1]} bytes together")
    out = np.empty(int(where[-1]), np.uint8)
    cursor = where[:-1].copy()
    for start in range(0, rows, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, rows)
        for step in steps:
            step.write(cursor, start, stop, out)
    return binary_array(where.astype(np.int32), out)


def measured(pieces: Iterable[Piece], rows: int) -> npt.NDArray[np.int64]:
    """Return int64[rows], the bytes that `join` would write of each row."""
    lengths = np.zeros(rows, np.int64)
    for piece in _merged(pieces):
        _Step.of(piece).measure(lengths)
    return lengths


def _merged(pieces: Iterable[Piece]) -> Sequence[Piece]:
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += piece
        else:
            merged.append(piece)
    return [piece for piece in merged if piece != b""]


@dataclass(frozen=True)
class _Step:
    """JSON piece as the arrays that kernels read; `offsets` is None for a constant."""

    data: Bytes
    offsets: npt.NDArray[np.int32] | None = None
    index: npt.NDArray[np.int32] = field(default_factory=lambda: _NO_INDEX)
    valid: npt.NDArray[np.bool_] = field(default_factory=lambda: _ALL_VALID)

    @classmethod
    def of(cls, piece: Piece) -> _Step:
        if isinstance(piece, bytes):
            return cls(np.frombuffer(piece, np.uint8))
        offsets, data = text(piece.array)
        valid = validity(piece.array) if piece.array.null_count else _ALL_VALID
        return cls(data, offsets, _NO_INDEX if piece.index is None else piece.index, valid)

    def measure(self, lengths: npt.NDArray[np.int64]) -> None:
        if self.offsets is None:
            lengths += self.data.size
        else:
            kernels.add_lengths(self.offsets, self.index, self.valid, lengths)

    def write(self, cursor: npt.NDArray[np.int64], start: int, stop: int, out: Bytes) -> None:
        if self.offsets is None:
            kernels.put_constant(self.data, cursor, start, stop, out)
        else:
            kernels.put_values(
                self.offsets, self.data, self.index, self.valid, kernels.NULL_TEXT, cursor, start, stop, out
            )
