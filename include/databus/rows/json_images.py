"""Row images as JSON text: one object per image, each value the literal of `json_text`, absent columns left out.

It says the same as `variant` followed by Spark's `to_json` (tests hold the two equal); decimals keep the digits of
their scale.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import UPDATE, LargeValue, TableBatch
from databus.core.tables.schemas import TableSchema
from databus.rows import json_kernels as kernels
from databus.rows.columns import Bytes, Ints, binary_array, text
from databus.rows.json_text import json_literals
from databus.rows.keys import key_literals, with_exceptions
from databus.rows.variant.columns import column_state
from databus.rows.variant.images import refuse_oversize
from databus.rows.variant.kernels import ABSENT, VALUE

ImageColumns = Mapping[int, Sequence[tuple[str, str]]]
"""schema_id → the columns of its images: (name at the source, name in the image); all of them where it is not named."""


class ValueForm(Protocol):
    """Form of values in images that are not written as this module does; picklable."""

    @property
    def changed_only(self) -> bool:
        """Before-images of updates that keep their key hold changed columns alone."""
        ...

    def literals(self, batch: TableBatch, column: int) -> pa.StringArray:
        """Return a column's values as JSON literals, one for each image, null for NULL."""
        ...

    def key_literals(self, batch: TableBatch, column: int) -> pa.StringArray:
        """Return those of a key column; values that differ have different literals."""
        ...

    def flags(self, batch: TableBatch) -> Mapping[int, Mapping[int, str]]:
        """Return column → image row → why the literal says less than the value."""
        ...


_ROWS_AT_ONCE = 2048
"""Rows written together: they stay in the processor's cache while one column after the other is filled in."""


@dataclass(frozen=True)
class JsonImages:
    """JSON objects of all images of a batch.

    Attributes:
        offsets: int64[m + 1] into `data`.
        data: UTF-8 texts back to back.
    """

    offsets: Ints
    data: Bytes

    def take(self, rows: npt.NDArray[np.int32]) -> pa.BinaryArray:
        """Return a binary column of the images at `rows`; null where an index is -1.

        The chosen values together must stay under 2 GiB; a caller cuts larger batches.
        """
        missing = rows < 0
        starts, ends = self.offsets[:-1][rows], self.offsets[1:][rows]
        where = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(np.where(missing, 0, ends - starts), out=where[1:])
        if len(rows) and not missing.any() and (np.diff(rows) == 1).all():
            return binary_array(where, self.data[starts[0] : ends[-1]])
        values = np.empty(int(where[-1]), np.uint8)
        kernels.gather(self.data, starts, where, values)
        return binary_array(where, values, ~missing if missing.any() else None)


def encode(batch: TableBatch, columns: ImageColumns, form: ValueForm | None = None) -> JsonImages:
    """Render all images of a batch.

    Args:
        batch: the decoded changes.
        columns: what the images hold.
        form: how values are written; None for those of this module.

    Raises:
        DecodeError: a column whose Arrow type has no JSON form, or an image larger than a VARIANT may be.
    """
    refuse_too_large(batch)
    chosen = _chosen(batch.schema, columns)
    labels = [f"{json.dumps(name, ensure_ascii=False)}:".encode() for _, name in chosen]
    label_offsets = np.cumsum([0, *map(len, labels)], dtype=np.int64)
    label_text = np.frombuffer(b"".join(labels) or b" ", np.uint8)
    write = _literals if form is None else form.literals
    arrays = [write(batch, column) for column, _ in chosen]
    states = [column_state(batch, column, array) for (column, _), array in zip(chosen, arrays, strict=True)]
    if form is not None and form.changed_only:
        leave_out_unchanged(batch, {column: number for number, (column, _) in enumerate(chosen)}, arrays, states)
    literals = [text(array) for array in arrays]
    sizes = np.empty((len(chosen), batch.images.num_rows), np.int64)
    for (offsets, _), state, row in zip(literals, states, sizes, strict=True):
        kernels.measure_literals(offsets, state, row)
    where = kernels.measure_objects(sizes, label_offsets)
    data = np.empty(int(where[-1]), np.uint8)
    for start in range(0, batch.images.num_rows, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, batch.images.num_rows)
        kernels.write_labels(sizes, label_text, label_offsets, where, start, stop, data)
        for (offsets, values), state, positions in zip(literals, states, sizes, strict=True):
            kernels.write_literals(offsets, values, state, kernels.NULL_TEXT, positions, start, stop, data)
    return JsonImages(where, data)


def leave_out_unchanged(
    batch: TableBatch,
    place: Mapping[int, int],
    arrays: list[pa.StringArray],
    states: Sequence[npt.NDArray[np.int8]],
) -> None:
    """Leave columns that an update did not change out of its before-image; those of a changed key stay whole.

    What the after-image does not carry did not change (`binlog_row_image` MINIMAL or NOBLOB); its key is that of the
    before-image.

    Args:
        batch: the decoded changes.
        place: column → its number in the next two.
        arrays: literals of each column, written to.
        states: of each column, written to.
    """
    pairs = np.flatnonzero((batch.op == UPDATE) & (batch.before_row >= 0) & (batch.after_row >= 0))
    before, after = batch.before_row[pairs], batch.after_row[pairs]
    names = {column.name: number for number, column in enumerate(batch.schema.columns)}
    moved = np.zeros(len(pairs), np.bool_)
    for column in (names[name] for name in batch.schema.primary_key):
        # A value that Arrow cannot hold is null there: its literal tells it from others.
        exact = bool(batch.exceptions.get(column))
        values = key_literals(batch, column) if exact else batch.images.column(column)
        both = (values.take(pa.array(before)), values.take(pa.array(after)))
        moved |= ~np.asarray(pc.fill_null(pc.equal(*both), True))
        if column in place:
            number = place[column]
            arrays[number] = _carried_over(arrays[number], states[number], before, after)
    before, after = before[~moved], after[~moved]
    for number in place.values():
        array, state = arrays[number], states[number]
        state[before[state[after] == ABSENT]] = ABSENT
        equal = np.asarray(pc.fill_null(pc.equal(array.take(pa.array(before)), array.take(pa.array(after))), False))
        same = (state[before] == state[after]) & (equal | (state[before] != VALUE))
        state[before[same]] = ABSENT


def _carried_over(
    array: pa.StringArray, state: npt.NDArray[np.int8], before: npt.NDArray[np.int32], after: npt.NDArray[np.int32]
) -> pa.StringArray:
    """Return a column with the values of before-images in those after-images that lack it, which `state` then says."""
    lacking = (state[after] == ABSENT) & (state[before] != ABSENT)
    if not lacking.any():
        return array
    source = np.arange(len(array))
    source[after[lacking]] = before[lacking]
    state[after[lacking]] = state[before[lacking]]
    return array.take(pa.array(source))


def refuse_too_large(batch: TableBatch) -> None:
    """Refuse a batch with an image whose texts and binaries alone are more than a VARIANT may hold.

    Raises:
        DecodeError: code `row_too_large`.
    """
    sizes = np.zeros(batch.images.num_rows, np.int64)
    for array in batch.images.columns:
        if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
            offsets, _ = text(array)
            sizes += np.diff(offsets)
    refuse_oversize(batch, sizes)


def _chosen(schema: TableSchema, columns: ImageColumns) -> list[tuple[int, str]]:
    place = {column.name: number for number, column in enumerate(schema.columns)}
    wanted = columns.get(schema.schema_id)
    if wanted is None:
        return [(number, name) for name, number in place.items()]
    return [(place[source], name) for source, name in wanted]


def _literals(batch: TableBatch, column: int) -> pa.StringArray:
    values = batch.images.column(column)
    literals = json_literals(values, batch.schema.columns[column])
    if pa.types.is_floating(values.type):
        literals = with_points(literals, values)
    return with_exceptions(literals, {row: shown(value) for row, value in batch.exceptions.get(column, {}).items()})


def shown(value: str | bytes | LargeValue) -> str:
    """Return the text of a value that its Arrow type cannot hold, bytes in base64 as everywhere in JSON."""
    if isinstance(value, LargeValue):
        raise TypeError("a value that was left in the log has to be moved out before its row is written")
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def named(literals: pa.StringArray, values: pa.Array) -> pa.StringArray:
    """Return literals of floating-point numbers with the names of computed ones that JSON has no number for."""
    unnamed = pc.fill_null(pc.invert(pc.is_finite(values)), False)
    if not pc.any(unnamed).as_py():
        return literals
    found = values.filter(unnamed).to_pylist()
    names = ['"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"' for value in found]
    return pc.replace_with_mask(literals, unnamed, pa.array(names, pa.string()))


def with_points(literals: pa.StringArray, values: pa.Array) -> pa.StringArray:
    """Give whole floating-point numbers their ".0", which sets them apart from integers; keys go without."""
    literals = named(literals, values)
    whole = pc.fill_null(pc.and_(pc.equal(pc.floor(values), values), pc.is_finite(values)), False)
    if not pc.any(whole).as_py():
        return literals
    texts = [text if "e" in text else f"{text}.0" for text in literals.filter(whole).to_pylist()]
    return pc.replace_with_mask(literals, whole, pa.array(texts, pa.string()))
