"""Arena: one block of memory for all Arrow buffers of a batch, laid out column by column."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels import kinds as k
from databus.binlog.kernels.images import (
    C_BYTES,
    C_CAPACITY,
    C_DATA,
    C_JSON,
    C_KIND,
    C_META,
    C_META2,
    C_MOST,
    C_OFFSETS,
    C_SIZE,
    C_USED,
    C_VALIDITY,
    C_WIDTH,
    logged_size,
)
from databus.binlog.values.column_types import COMPRESSED, Column, ColumnType

Block = npt.NDArray[np.uint8]

_KEPT = 4
_LEAST_BYTES = 1 << 20
_MOST_BYTES = 128 << 20
_UNUSED_REFERENCES = 3
"""Those of the list, of the variable that looks at it, and of `getrefcount` itself."""


class _KeptBlock(threading.local):
    def __init__(self) -> None:
        self.blocks: list[Block] = []


_kept = _KeptBlock()


def take_block(size: int) -> Block:
    """Return memory of at least so many bytes with whatever it held before."""
    if not _LEAST_BYTES <= size <= _MOST_BYTES:
        return np.empty(size, dtype=np.uint8)
    blocks = _kept.blocks
    for number in range(len(blocks)):
        block = blocks[number]
        if size <= len(block) <= 2 * size and sys.getrefcount(block) == _UNUSED_REFERENCES:
            blocks.append(blocks.pop(number))
            return block
    if len(blocks) == _KEPT:
        blocks.pop(0)
    block = np.empty(size, dtype=np.uint8)
    blocks.append(block)
    return block


_ALIGN = 64
_NO_BOUND = 1 << 62
MAX_TEXT_BYTES = (1 << 31) - 1
"""Most bytes of one column's values in a batch: Arrow's 32-bit offsets."""


def kernel_columns(columns: Sequence[Column], most_bytes: int | None = None) -> npt.NDArray[np.int64]:
    """Return the matrix by which the kernels know a table's columns, without places in an arena.

    Args:
        columns: the table's columns.
        most_bytes: a larger value is left where it is and noted; None to take all. Values that become others when they
            are decoded (JSON, compressed columns) are always taken.
    """
    matrix = np.zeros((len(columns), C_WIDTH), dtype=np.int64)
    for line, column in zip(matrix, columns, strict=True):
        line[C_KIND], line[C_META], line[C_META2] = column.kind, column.meta, column.meta2
        line[C_SIZE] = logged_size(column.kind, column.meta, column.meta2)
        line[C_BYTES], line[C_JSON] = k.WIDTH[column.kind], column.type is ColumnType.JSON
        as_it_is = not (line[C_JSON] or column.logical or column.type in COMPRESSED)
        line[C_MOST] = most_bytes if most_bytes is not None and as_it_is else _NO_BOUND
    return matrix


@dataclass(frozen=True, eq=False)
class Arena:
    """The memory of one batch.

    Attributes:
        memory: validity bits, values and offsets of all columns; pages never written cost nothing.
        columns: the table's matrix with the places of each column.
        max_images: row images that fit.
    """

    memory: npt.NDArray[np.uint8]
    columns: npt.NDArray[np.int64]
    max_images: int


def _aligned(size: int) -> int:
    return (size + _ALIGN - 1) & -_ALIGN


def allocate(matrix: npt.NDArray[np.int64], max_images: int, text_bytes: npt.NDArray[np.int64]) -> Arena:
    """Lay out an arena.

    Args:
        matrix: the table's columns.
        max_images: row images to make room for.
        text_bytes: bytes to make room for in each column of variable length.
    """
    columns = matrix.copy()
    each = columns[:, C_BYTES]
    bitmap = _aligned((max_images + 7) // 8)
    columns[:, C_VALIDITY] = np.arange(len(columns)) * bitmap
    size = validity = bitmap * len(columns)
    for column, width, text in zip(columns, each.tolist(), text_bytes.tolist(), strict=True):
        if width == 0:
            column[C_OFFSETS], size = size, size + _aligned(4 * (max_images + 1))
            column[C_CAPACITY] = text
        column[C_DATA], size = size, size + _aligned(width * max_images if width else text)
        column[C_USED] = 0
    memory = take_block(size + _ALIGN)
    memory[:validity] = 0xFF
    for at in columns[each == 0, C_OFFSETS].tolist():
        memory[at : at + 4] = 0
    return Arena(memory, columns, max_images)
