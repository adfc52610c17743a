"""Row images in a binary format: fields of each column, then what the image has not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.rows.columns import Bytes, Ints, binary_array
from databus.rows.flags import PARTIAL, UNJUDGED, flag_reason
from databus.rows.wire import kernels
from databus.rows.wire.columns import WireColumn
from databus.rows.wire.kernels import Framing

ABSENT = "absent"
"""Reason of a column that the image does not carry."""

_ROWS_AT_ONCE = 2048
"""Rows written together: they stay in the processor's cache while one column after the other is filled in."""


@dataclass(frozen=True)
class WireImages:
    """Row images of a batch.

    Attributes:
        offsets: int64[m + 1] into `data`.
        data: the images back to back, and behind them what stands where there is no image.
    """

    offsets: Ints
    data: Bytes

    def take(self, rows: npt.NDArray[np.int32]) -> pa.BinaryArray:
        """Return a binary column of the images at `rows`, what stands for none where an index is -1.

        The chosen images together must stay under 2 GiB; a caller cuts larger batches.
        """
        missing = rows < 0
        if len(rows) and not missing.any() and (np.diff(rows) == 1).all():
            first, last = int(rows[0]), int(rows[-1]) + 1
            where = (self.offsets[first : last + 1] - self.offsets[first]).astype(np.int32)
            return binary_array(where, self.data[self.offsets[first] : self.offsets[last]])
        none = self.offsets[-1]
        starts = np.where(missing, none, self.offsets[:-1][rows])
        sizes = np.where(missing, len(self.data) - none, np.diff(self.offsets)[rows])
        where = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(sizes, out=where[1:])
        values = np.empty(int(where[-1]), np.uint8)
        kernels.gather(self.data, starts, where, values)
        return binary_array(where, values)


def no_images(batch: TableBatch, none: bytes) -> WireImages:
    """Return images of a table that is not wanted: all empty."""
    return WireImages(np.zeros(batch.images.num_rows + 1, np.int64), np.array(bytearray(none), np.uint8))


def images_of(
    columns: Sequence[tuple[WireColumn, Framing]],
    tails: tuple[Sequence[bytes], npt.NDArray[np.int32]],
    head: bytes | None,
    none: bytes,
) -> WireImages:
    """Write all images of a batch.

    Args:
        columns: writers of the columns, in the order of the fields.
        tails: what ends an image, and int32[images] which of them each has (`flags_of`).
        head: what each begins with; None for its length.
        none: what stands where there is no image.
    """
    texts, number = tails
    data = np.frombuffer(b"".join(texts), np.uint8)
    tail_offsets = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    sizes = np.diff(tail_offsets).astype(np.int64)[number]
    for column, frame in columns:
        column.measure(frame, sizes)
    heads = np.full(len(sizes), len(head or b""), np.int64)
    if head is None:
        kernels.measure_lengths(sizes, heads)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(heads + sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]) + len(none), np.uint8)
    out[offsets[-1] :] = bytearray(none)
    cursor = offsets[:-1].copy()
    if head is None:
        kernels.put_lengths(sizes, cursor, out)
    for byte in head or b"":
        out[cursor] = byte
        cursor += 1
    for start in range(0, len(sizes), _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, len(sizes))
        for column, frame in columns:
            column.put(frame, cursor, start, stop, out)
        kernels.put_chosen(tail_offsets, data, number, cursor, start, stop, out)
    return WireImages(offsets, out)


def flags_of(
    batch: TableBatch, names: Sequence[tuple[int, str]], written: Callable[[Mapping[str, str]], bytes]
) -> tuple[list[bytes], npt.NDArray[np.int32]]:
    """Return the distinct flags of images, and int32[images] which of them each image has.

    Args:
        batch: row changes of one table.
        names: number of the column at the source and name of its field.
        written: writes field → why it is null or another form.
    """
    lacking = [{name: ABSENT for column, name in names if not carried[column]} for carried in batch.presence_sets]
    number = batch.presence.astype(np.int32, copy=True)
    texts = [written(each) for each in lacking or [{}]]
    special: dict[int, dict[str, str]] = {}
    for column, name in names:
        for row, reason in _reasons(batch, column).items():
            special.setdefault(row, dict(lacking[number[row]]))[name] = reason
    for row, told in special.items():
        number[row] = len(texts)
        texts.append(written({name: told[name] for _, name in names if name in told}))
    return texts, number


def _reasons(batch: TableBatch, column: int) -> dict[int, str]:
    """Return image row → why its value is none of the column's type, or does not stand there."""
    found = dict.fromkeys(batch.unjudged.get(column, ()), UNJUDGED)
    found |= dict.fromkeys(batch.partial.get(column, ()), PARTIAL)
    return found | {row: flag_reason(value) for row, value in batch.exceptions.get(column, {}).items()}
