"""Row images in Spark's VARIANT binary encoding: one object per image, one metadata dictionary per table schema.

Format: https://github.com/apache/parquet-format/blob/master/VariantEncoding.md. Integers and decimals take the
narrowest form, unsigned 64-bit values above 2^63 - 1 become decimal(20, 0), temporals ISO text; a column absent from
an image is left out of its object.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors.source import DecodeError
from databus.core.events import ROW_COLUMNS, ROW_DDL
from databus.rows.columns import Bytes, Ints, binary_array
from databus.rows.variant import kernels
from databus.rows.variant.columns import column_writer

SPARK_DDL = ROW_DDL
"""The shape as a Spark DDL string."""

VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
"""Spark's VARIANT in Arrow (`pyspark.sql.pandas.types.to_arrow_type`, Spark 4.1)."""


def null_variants(count: int) -> pa.StructArray:
    """Return a VARIANT column of NULLs; the children are not nullable, so they hold empty values, not nulls."""
    empty = pa.repeat(pa.scalar(b""), count)
    mask = pa.repeat(pa.scalar(True), count)
    return pa.StructArray.from_arrays([empty, empty], fields=[VARIANT.field(0), VARIANT.field(1)], mask=mask)


_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "smallint": pa.int16(),
    "binary": pa.binary(),
    "array<string>": pa.list_(pa.string()),
}


@functools.cache
def arrow_schema(images: pa.DataType = VARIANT) -> pa.Schema:
    """Return the Arrow schema of `ROW_COLUMNS`, the same for every table; `images` is the type of the row images."""
    return pa.schema([pa.field(name, images if kind == "variant" else _ARROW[kind]) for name, kind in ROW_COLUMNS])


MAX_VALUE_BYTES = 16 << 20
"""Largest VARIANT value that every Spark 4 reads."""

_ROWS_AT_ONCE = 2048
"""Rows written together: they stay in the processor's cache while one column after the other is filled in."""


@dataclass(frozen=True)
class EncodedImages:
    """VARIANT values of all images of a batch.

    Attributes:
        offsets: int64[m + 1] into `data`.
        data: encoded values back to back.
        metadata: the dictionary that all of them share.
    """

    offsets: Ints
    data: Bytes
    metadata: bytes

    def take(self, rows: npt.NDArray[np.int32]) -> pa.StructArray:
        """Return a VARIANT column of the images at `rows`; null where an index is -1.

        The chosen values together must stay under 2 GiB; a caller cuts larger batches.
        """
        missing = rows < 0
        starts, ends = self.offsets[:-1][rows], self.offsets[1:][rows]
        lengths = np.where(missing, 0, ends - starts)
        where = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(lengths, out=where[1:])
        if len(rows) and not missing.any() and (rows == np.arange(rows[0], rows[0] + len(rows))).all():
            values = self.data[starts[0] : ends[-1]]
        else:
            values = kernels.gather(self.data, starts, where)
        heads = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(np.where(missing, 0, len(self.metadata)), out=heads[1:])
        repeated = np.tile(np.frombuffer(self.metadata, np.uint8), len(rows) - int(missing.sum()))
        return pa.StructArray.from_arrays(
            [binary_array(where, values), binary_array(heads, repeated)],
            fields=[VARIANT.field(0), VARIANT.field(1)],
            mask=pa.array(missing) if missing.any() else None,
        )


def encode(batch: TableBatch) -> EncodedImages:
    """Encode all images of a batch.

    Raises:
        DecodeError: an image larger than a VARIANT may be, or a column whose Arrow type has no encoding.
    """
    names = [column.name for column in batch.schema.columns]
    order = dictionary_order(names)
    writers = [column_writer(batch, column) for column in order]
    sizes = np.empty((len(order), batch.images.num_rows), np.int64)
    for writer, row in zip(writers, sizes, strict=True):
        writer.measure(row)
    offsets = kernels.measure_rows(sizes)
    refuse_oversize(batch, np.diff(offsets))
    data = np.empty(int(offsets[-1]), np.uint8)
    for start in range(0, batch.images.num_rows, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, batch.images.num_rows)
        kernels.write_heads(sizes, offsets, start, stop, data)
        for writer, positions in zip(writers, sizes, strict=True):
            writer.write(positions, start, stop, data)
    return EncodedImages(offsets, data, metadata_bytes([names[c] for c in order]))


def dictionary_order(names: Sequence[str]) -> list[int]:
    """Return the column indexes in the order of the dictionary.

    Spark searches objects of 32 and more fields by Java's String.compareTo, which is the order of UTF-16 code units.
    """
    return sorted(range(len(names)), key=lambda c: names[c].encode("utf-16-be"))


def metadata_bytes(names: Sequence[str]) -> bytes:
    """Return the VARIANT metadata (version 1) of a dictionary of names."""
    texts = [name.encode() for name in names]
    ends = np.cumsum([0, *(len(text) for text in texts)]).tolist()
    width = max(1, (max(ends[-1], len(texts)).bit_length() + 7) // 8)
    numbers = [len(texts), *ends]
    return bytes([(width - 1) << 6 | 1]) + b"".join(n.to_bytes(width, "little") for n in numbers) + b"".join(texts)


def refuse_oversize(batch: TableBatch, sizes: Ints) -> None:
    """Refuse a batch with an image that Spark could not read as VARIANT; `sizes` are the images' bytes.

    Raises:
        DecodeError: code `row_too_large`.
    """
    if len(sizes) and int(sizes.max()) > MAX_VALUE_BYTES:
        raise DecodeError(
            f"a row of {batch.schema.full_name} takes {int(sizes.max())} bytes as VARIANT, more than {MAX_VALUE_BYTES}",
            hint="Leave the table out of `tables`, or keep the large column out of the row.",
            code="row_too_large",
        )
