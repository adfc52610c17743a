"""Row partitions of a table: which images belong to one, and a batch narrowed to them before anything is encoded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import TableBatch
from databus.rows.columns import text
from databus.rows.keys import key_encoder
from databus.rows.murmur2 import key_hashes

Mask = npt.NDArray[np.bool_]
Bound = int | str


def range_mask(values: pa.Array, lower: Bound | None, upper: Bound | None) -> Mask:
    """Return where lower ≤ value < upper; None leaves a side open, NULL lies in no range.

    Text is compared by code points, whatever the column's collation.

    Raises:
        ValueError: a bound cannot be read as a value of the column's type.
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    inside = values.is_valid()
    if lower is not None:
        inside = pc.and_(inside, _at_least(values, lower))
    if upper is not None:
        inside = pc.and_not(inside, _at_least(values, upper))
    return _mask(inside)


def modulo_mask(values: pa.Array, modulus: int, remainders: Sequence[int]) -> Mask:
    """Return where value mod modulus is one of the remainders, each in 0 … modulus − 1; NULL has no remainder.

    Raises:
        ValueError: the column does not hold integers.
    """
    if not pa.types.is_integer(values.type):
        raise ValueError(f"has the type {values.type}, and only integers have a remainder")
    wide = np.uint64 if pa.types.is_unsigned_integer(values.type) else np.int64
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(wide)
    left = np.isin(np.mod(numbers, wide(modulus)).astype(np.int64), np.array(remainders, np.int64))
    return left & _mask(values.is_valid())


def hash_mask(batch: TableBatch, columns: Sequence[str], partitions: int, keep: Sequence[int]) -> Mask:
    """Return per image whether the hash of its columns (none: the primary key) falls into one of these partitions.

    The hash is that of Kafka's default partitioner over the canonical JSON of the columns, as in `key_hash`.

    Raises:
        ValueError: the table has no primary key and no columns are named, or it has none of a name.
    """
    missing = [name for name in columns if name not in {c.name for c in batch.schema.columns}]
    if missing:
        raise ValueError(f"has no column {missing[0]!r}")
    schema = dataclasses.replace(batch.schema, primary_key=tuple(columns) or batch.schema.primary_key)
    encoder = key_encoder(dataclasses.replace(batch, schema=schema))
    if encoder is None:
        raise ValueError("has no primary key: name the columns to hash")
    null = pa.scalar("null")
    encoder = dataclasses.replace(encoder, literals=tuple(pc.fill_null(x, null) for x in encoder.literals))
    if columns:  # whether a change says what they were is asked for itself, see `unknown`
        everywhere = np.ones(batch.images.num_rows, np.bool_)
        said = tuple(np.where(unknown(batch, name), everywhere, carried(batch, name)[1]) for name in columns)
        encoder = dataclasses.replace(encoder, carried=said)
    images = np.arange(batch.images.num_rows, dtype=np.int32)
    hashes = key_hashes(*text(encoder.keys(images, partners(batch))))
    return np.isin(hashes % np.int32(partitions), np.array(keep, np.int32))


def partners(batch: TableBatch) -> npt.NDArray[np.int32]:
    """Return per image the other image of its update; itself where there is none."""
    other = np.arange(batch.images.num_rows, dtype=np.int32)
    both = (batch.before_row >= 0) & (batch.after_row >= 0)
    before, after = batch.before_row[both], batch.after_row[both]
    other[before], other[after] = after, before
    return other


def carried(batch: TableBatch, column: str) -> tuple[pa.Array, Mask]:
    """Return a column's values and where an image carries it.

    Raises:
        ValueError: the table has no such column.
    """
    names = [c.name for c in batch.schema.columns]
    if column not in names:
        raise ValueError(f"has no column {column!r}; its columns are {', '.join(names)}")
    place = names.index(column)
    sets = np.array([present[place] for present in batch.presence_sets], np.bool_)
    return batch.images.column(place), sets[batch.presence]


def unknown(batch: TableBatch, column: str) -> Mask:
    """Return where the log does not say what a column was in an image.

    An after-image without it (row image MINIMAL, NOBLOB) left it as its before-image has it. What a before-image lacks
    stands nowhere: an after-image that carries the column may have changed it.

    Raises:
        ValueError: the table has no such column.
    """
    _, present = carried(batch, column)
    if present.all():
        return ~present
    after = np.zeros(len(present), np.bool_)
    after[batch.after_row[batch.after_row >= 0]] = True
    partial = np.zeros(len(present), np.bool_)
    partial[list(batch.partial.get(batch.images.schema.names.index(column), ()))] = True
    return ~present & ~(after & present[partners(batch)] & ~partial)


def completed(batch: TableBatch, mask: Mask, present: Mask) -> Mask:
    """Judge an image without the column as its partner; where that says nothing of it either, see `unknown`."""
    return mask if present.all() else np.where(present, mask, mask[partners(batch)])


@dataclasses.dataclass(frozen=True)
class Judgement:
    """Filter result: what row filters say of the images of a batch.

    Attributes:
        out: bool[images], some filter leaves the image out for certain.
        unknown: column's name → bool[images], where a filter could not judge for want of it.
    """

    out: Mask
    unknown: dict[str, Mask]

    def narrow(self, batch: TableBatch) -> TableBatch:
        """Return the batch with the images to keep.

        A change stays whole and is marked as unjudged where nothing shows whether its new row, or its only one, is in,
        and where its new row is out and nothing shows whether the old one was in. A new row that is in goes on as an
        update with an old one of which nothing is known: that is right whatever it was.
        """
        keep = ~self.out
        if not self.unknown:
            return narrowed(batch, keep)
        open_ = np.logical_or.reduce(list(self.unknown.values())) & keep
        before, after = batch.before_row, batch.after_row
        last = np.where(after >= 0, after, before)
        leaves = (after >= 0) & (before >= 0) & self.out[last] & open_[before]
        held = open_[last] | leaves
        rows = np.zeros(len(keep), np.bool_)
        for side in (before, after):
            rows[side[held & (side >= 0)]] = True
        names, unjudged = batch.images.schema.names, dict[int, frozenset[int]]()
        for column, lacking in self.unknown.items():
            either = rows & (lacking | lacking[partners(batch)])
            if either.any():
                unjudged[names.index(column)] = frozenset(np.flatnonzero(either).tolist())
        return narrowed(dataclasses.replace(batch, unjudged=unjudged), keep | rows)


def narrowed(batch: TableBatch, keep: Mask) -> TableBatch:
    """Return the batch with the images to keep; a change refers to a dropped image by -1.

    Every change stays: one without any image left is a filtered one.
    """
    if keep.all():
        return batch
    index = np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)
    index = np.append(index, np.int32(-1))  # no image stays no image
    exceptions = {
        column: {int(index[row]): value for row, value in rows.items() if keep[row]}
        for column, rows in batch.exceptions.items()
    }

    def moved(rows: Mapping[int, frozenset[int]]) -> dict[int, frozenset[int]]:
        return {column: frozenset(int(index[row]) for row in found if keep[row]) for column, found in rows.items()}

    return dataclasses.replace(
        batch,
        images=batch.images.filter(pa.array(keep)),
        before_row=index[batch.before_row],
        after_row=index[batch.after_row],
        presence=batch.presence[keep],
        exceptions={column: rows for column, rows in exceptions.items() if rows},
        partial=moved(batch.partial),
        unjudged=moved(batch.unjudged),
    )


def _at_least(values: pa.Array, bound: Bound) -> pa.BooleanArray:
    kind = values.type
    if pa.types.is_integer(kind):
        try:
            number = int(bound)
        except ValueError:
            raise ValueError(f"has the type {kind}, and {bound!r} is no value of it") from None
        limits = np.iinfo(kind.to_pandas_dtype())
        if number <= limits.min or number > limits.max:
            return pa.array(np.full(len(values), number <= limits.min))
        return pc.greater_equal(values, pa.scalar(number, kind))
    if pa.types.is_large_binary(kind) or pa.types.is_binary(kind):
        return pc.greater_equal(values, pa.scalar(str(bound).encode(), kind))
    try:
        if pa.types.is_decimal(kind):  # the bound may have more places than the column
            return pc.greater_equal(
                values.cast(pa.decimal256(76, 30)), pa.scalar(str(bound)).cast(pa.decimal256(76, 30))
            )
        return pc.greater_equal(values, pa.scalar(str(bound)).cast(kind))
    except pa.ArrowException as error:
        raise ValueError(f"has the type {kind}, and {bound!r} is no value of it: {error}") from None


def _mask(array: pa.BooleanArray) -> Mask:
    return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
