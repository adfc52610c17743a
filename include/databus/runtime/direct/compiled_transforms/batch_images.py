"""Images of a decoded batch as the compiled transforms see them: values, presence and flags of columns, made once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch, Transactions
from databus.core.errors.batch import TransformError
from databus.expressions.errors import ExpressionError, SparkNeededError
from databus.rows.columns import validity
from databus.rows.flags import PARTIAL, UNJUDGED, flag_reason
from databus.rows.frames.computed import ADDED
from databus.rows.typed import arrow_type
from databus.runtime.direct.compiled_transforms.column_programs import VALUE, ColumnProgram, Rewriting
from databus.runtime.direct.compiled_transforms.stored_values import (
    refuse_far_times,
    text_values,
    texts_of,
    typed_values,
)

if TYPE_CHECKING:
    from databus.runtime.direct.compiled_transforms.computed_values import ComputedProgram

Mask = npt.NDArray[np.bool_]
ImageNumbers = npt.NDArray[np.int32]

FAILURES = (ExpressionError, TransformError)
"""Errors of a value that may be of images that no row needs."""


@dataclass
class BatchImages:
    """Columns of a batch's images, each computed once.

    Attributes:
        batch: the batch.
        transactions: those that it points into.
    """

    batch: TableBatch
    transactions: Transactions
    _values: dict[ColumnProgram, pa.Array] = field(default_factory=dict)
    _computed: dict[ComputedProgram, pa.Array] = field(default_factory=dict)
    _carried: dict[ColumnProgram, Mask] = field(default_factory=dict)

    def values(self, column: ColumnProgram, needed: Mask | None = None) -> pa.Array:
        """Return a column's value in each image, of its Spark type; null where it is NULL or absent.

        Args:
            column: the column.
            needed: bool[images], those whose value counts: an error of another is none, and its value is null then;
                None for all.

        Raises:
            DatabusError: a value fails, as it does in Spark.
            SparkNeededError: of a value that Spark alone reads.
        """
        if column not in self._values:
            try:
                self._values[column] = self._made(column, None)
            except FAILURES:
                if needed is None or needed.all():
                    raise
                return self._made(column, needed)
        return self._values[column]

    def type_of(self, column: ColumnProgram) -> pa.DataType:
        """Return the Arrow type of a column's values."""
        if column.rewriting is not None:
            return pa.string()
        computed = column.computed
        return arrow_type(self.batch.schema.columns[self.place(column.source)] if computed is None else computed.column)

    def place(self, source: str) -> int:
        """Return the number of a stored column."""
        return self._places[source]

    def carried(self, column: ColumnProgram) -> Mask:
        """Return bool[images + 1], which images carry a column; the last is False, for rows without an image."""
        if column not in self._carried:
            sets = self.carried_sets(column)
            images = sets[self.batch.presence] if len(sets) else np.zeros(self.batch.images.num_rows, np.bool_)
            self._carried[column] = np.append(images, False)
        return self._carried[column]

    def carried_sets(self, column: ColumnProgram) -> Mask:
        """Return bool[presence sets], which of them carry a column."""
        if column.computed is None:
            place = self.place(column.source)
            return np.array([carried[place] for carried in self.batch.presence_sets], np.bool_)
        found = np.ones(len(self.batch.presence_sets), np.bool_)
        for each in column.computed.columns:
            found &= self.carried_sets(each)
        return found

    def flagged(self, sources: Sequence[str], but: Sequence[str] = ()) -> Mask:
        """Return bool[images + 1], which images hold a flagged value (`databus.rows.flags`) in one of some columns.

        Args:
            sources: stored columns.
            but: reasons that do not count.
        """
        batch, found = self.batch, np.zeros(self.batch.images.num_rows + 1, np.bool_)
        for place in map(self.place, sources):
            values = batch.exceptions.get(place, {})
            found[[row for row, value in values.items() if flag_reason(value) not in but]] = True
            for reason, rows in ((PARTIAL, batch.partial), (UNJUDGED, batch.unjudged)):
                if reason not in but:
                    found[list(rows.get(place, ()))] = True
        return found

    def given(self, column: ColumnProgram, needed: Mask | None = None) -> Mask:
        """Return bool[images], which images have a value of a column, of its type or not.

        Args:
            column: the column; a value that is replaced is one.
            needed: as of `values`.
        """
        if column.computed is not None:
            return validity(self.values(replace(column, rewriting=None), needed))
        place = self.place(column.source)
        given = validity(self.batch.images.column(place)).copy()
        given[list(self.batch.exceptions.get(place, {}))] = True
        return given

    def shape(self, name: str) -> pa.Array:
        """Return what each image's row has as a column of the row shape: "database", "table" or "ts_ms"."""
        schema, count = self.batch.schema, self.batch.images.num_rows
        if name != "ts_ms":
            return pa.repeat(pa.scalar({"database": schema.database, "table": schema.table}[name]), count)
        times = np.zeros(count + 1, np.int64)
        for images in (self.batch.before_row, self.batch.after_row):
            times[images] = self.transactions.ts_ms[self.batch.transaction]
        return pa.array(times[:-1])

    @cached_property
    def _places(self) -> dict[str, int]:
        return {column.name: place for place, column in enumerate(self.batch.schema.columns)}

    @cached_property
    def unflagged(self) -> BatchImages:
        """The images with no value where it is flagged."""
        return BatchImages(replace(self.batch, exceptions={}), self.transactions) if self.batch.exceptions else self

    def _made(self, column: ColumnProgram, needed: Mask | None) -> pa.Array:
        if column.rewriting is not None:
            return self._rewritten(column, column.rewriting, needed)
        if column.computed is None:
            return typed_values(self.batch, self.place(column.source))
        computed = column.computed
        if computed in self._computed:
            return self._computed[computed]
        found = self._evaluated(computed, needed)
        if needed is None:
            self._computed[computed] = found
        return found

    def _evaluated(self, computed: ComputedProgram, needed: Mask | None) -> pa.Array:
        """Return a computed value in each image, null where it is not computed."""
        count, kind = self.batch.images.num_rows, arrow_type(computed.column)
        meant = np.ones(count, np.bool_) if needed is None else needed.copy()
        for each in computed.columns:
            meant &= self.carried(each)[:-1]
        meant &= ~self.flagged([each.source for each in computed.columns if each.computed is None])[:-1]
        chosen = int(meant.sum())
        if not chosen:
            return pa.nulls(count, kind)
        inputs: dict[str, pa.Array] = {}
        for name, given in computed.inputs:
            if isinstance(given, str):
                array = self.shape(given)
            else:  # flagged ones have no value here, which nothing is computed from
                array = (self if given.computed is not None else self.unflagged).values(given, needed)
            inputs[name] = array if chosen == count else array.filter(pa.array(meant))
        return _spread(computed.evaluation.values(inputs, chosen), meant)

    def _rewritten(self, column: ColumnProgram, rewriting: Rewriting, needed: Mask | None) -> pa.StringArray:
        """Return the new text in each image; null stays null."""
        base, compiled = replace(column, rewriting=None), rewriting.compiled
        if rewriting.of == "nothing":
            given = self.given(base, needed)
            new = compiled.evaluate({}, int(given.sum()))
        else:
            stored = self._texts(base, needed, as_bytes=rewriting.of == "bytes")
            given = validity(stored)
            known = stored if given.all() else stored.filter(pa.array(given))
            new = compiled.evaluate({(VALUE, "row"): known}, len(known))
        if new.null_count:
            # An image leaves such a value out.
            raise SparkNeededError(f"column {column.source.lstrip(ADDED)} becomes NULL in a row that has a value")
        return _spread(new, given)

    def _texts(self, column: ColumnProgram, needed: Mask | None, *, as_bytes: bool) -> pa.Array:
        if column.computed is None:
            return text_values(self.batch, self.place(column.source), as_bytes=as_bytes)
        values = self.values(column, needed)
        refuse_far_times(values, column.source.lstrip(ADDED))
        return texts_of(values, column.computed.column, as_bytes=as_bytes)


def picked_images(
    images: BatchImages, column: ColumnProgram, before: ImageNumbers, after: ImageNumbers, image: str
) -> ImageNumbers:
    """Return the image that each row reads a column from, -1 where none carries it.

    Args:
        images: of the batch.
        column: the column.
        before: image of each row, -1 without.
        after: the same of the after-image.
        image: "before", "after", or "row" for the after-image where it carries the column, else the before-image.
    """
    carried = images.carried(column)
    from_before = np.where(carried[before], before, np.int32(-1))
    from_after = np.where(carried[after], after, np.int32(-1))
    found = {"before": from_before, "after": from_after}.get(image)
    return np.where(from_after >= 0, from_after, from_before) if found is None else found


def picked_values(
    images: BatchImages, column: ColumnProgram, before: ImageNumbers, after: ImageNumbers, image: str
) -> pa.Array:
    """Return the value of each row, null where no image carries the column; see `picked_images`.

    Raises:
        DatabusError: a value that is picked fails, as it does in Spark.
    """
    index = picked_images(images, column, before, after, image)
    needed = np.zeros(images.batch.images.num_rows + 1, np.bool_)
    needed[index] = True
    return images.values(column, needed[:-1]).take(pa.array(index.clip(0), mask=index < 0))


def _spread(values: pa.Array, rows: Mask) -> pa.Array:
    """Return one array of the values of some rows, null for the others."""
    if rows.all():
        return values
    return values.take(pa.array(np.cumsum(rows) - 1, mask=~rows))
