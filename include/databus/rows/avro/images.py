"""Row images as Avro: the union of null and the table's Value record, whose last field says what the image has not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.rows.avro import kernels
from databus.rows.avro.columns import IN_UNION, column_writer
from databus.rows.avro.types import AvroField
from databus.rows.columns import Bytes, Ints, binary_array
from databus.rows.flags import PARTIAL, UNJUDGED, flag_reason

ABSENT = "absent"
"""Reason of a column that the image does not carry."""

_ROWS_AT_ONCE = 2048
"""Rows written together: they stay in the processor's cache while one column after the other is filled in."""


@dataclass(frozen=True)
class AvroImages:
    """Row images of a batch, each with the branch of its union in front.

    Attributes:
        offsets: int64[m + 1] into `data`.
        data: the images back to back, and one byte more: the null that stands where there is no image.
    """

    offsets: Ints
    data: Bytes

    def take(self, rows: npt.NDArray[np.int32]) -> pa.BinaryArray:
        """Return a binary column of the images at `rows`, the union's null where an index is -1.

        The chosen images together must stay under 2 GiB; a caller cuts larger batches.
        """
        missing = rows < 0
        if len(rows) and not missing.any() and (np.diff(rows) == 1).all():
            first, last = int(rows[0]), int(rows[-1]) + 1
            where = (self.offsets[first : last + 1] - self.offsets[first]).astype(np.int32)
            return binary_array(where, self.data[self.offsets[first] : self.offsets[last]])
        starts = np.where(missing, len(self.data) - 1, self.offsets[:-1][rows])
        sizes = np.where(missing, 1, np.diff(self.offsets)[rows])
        where = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(sizes, out=where[1:])
        values = np.empty(int(where[-1]), np.uint8)
        kernels.gather(self.data, starts, where, values)
        return binary_array(where, values)


def no_images(count: int) -> pa.BinaryArray:
    """Return so many nulls of the union."""
    return pa.repeat(pa.scalar(kernels.NULL_BRANCH, pa.binary()), count)


def encode(batch: TableBatch, chosen: Sequence[tuple[int, AvroField]]) -> AvroImages:
    """Write all images of a batch.

    Args:
        batch: row changes of one table.
        chosen: number of the column at the source, and its field, of each column of the record.

    Raises:
        DecodeError: a column holds what its field's type cannot.
    """
    rows = batch.images.num_rows
    writers = [column_writer(batch, column, field) for column, field in chosen]
    texts, number = _flags(batch, chosen)
    tails = np.frombuffer(b"".join(texts), np.uint8)
    tail_offsets = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    sizes = 1 + np.diff(tail_offsets).astype(np.int64)[number]
    for writer in writers:
        writer.measure(IN_UNION, sizes)
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]) + 1, np.uint8)
    out[-1] = kernels.NULL_BRANCH[0]
    cursor = offsets[:-1].copy()
    out[cursor] = kernels.VALUE_BRANCH[0]
    cursor += 1
    for start in range(0, rows, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, rows)
        for writer in writers:
            writer.put(IN_UNION, cursor, start, stop, out)
        kernels.put_chosen(tail_offsets, tails, number, cursor, start, stop, out)
    return AvroImages(offsets, out)


def _flags(batch: TableBatch, chosen: Sequence[tuple[int, AvroField]]) -> tuple[list[bytes], npt.NDArray[np.int32]]:
    """Return the distinct texts of the last field, and int32[images] which of them each image has."""
    lacking = [
        {field.name: ABSENT for column, field in chosen if not carried[column]} for carried in batch.presence_sets
    ] or [{}]
    number = batch.presence.astype(np.int32, copy=True)
    texts = [_map(each) for each in lacking]
    special: dict[int, dict[str, str]] = {}
    for column, field in chosen:
        for row, reason in _reasons(batch, column).items():
            special.setdefault(row, dict(lacking[number[row]]))[field.name] = reason
    for row, told in special.items():
        number[row] = len(texts)
        texts.append(_map({field.name: told[field.name] for _, field in chosen if field.name in told}))
    return texts, number


def _reasons(batch: TableBatch, column: int) -> dict[int, str]:
    """Return image row → why its value is none of the column's type, or does not stand there."""
    found = dict.fromkeys(batch.unjudged.get(column, ()), UNJUDGED)
    found |= dict.fromkeys(batch.partial.get(column, ()), PARTIAL)
    return found | {row: flag_reason(value) for row, value in batch.exceptions.get(column, {}).items()}


def _map(told: Mapping[str, str]) -> bytes:
    """Return the union of null and a map of texts; an empty map is null."""
    if not told:
        return kernels.NULL_BRANCH
    parts = [kernels.VALUE_BRANCH, varint(len(told))]
    for name, reason in told.items():
        parts += [text_bytes(name), text_bytes(reason)]
    return b"".join([*parts, b"\0"])


def varint(value: int) -> bytes:
    """Return a zigzag varint of 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    found = bytearray()
    while rest >= 128:
        found.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*found, rest])


def text_bytes(text: str) -> bytes:
    """Return a text with its length in front."""
    data = text.encode()
    return varint(len(data)) + data
