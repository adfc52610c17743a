"""The two forms of a row image: Spark's VARIANT for the path through DataFrames, JSON text for the direct lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import MAX_IMAGES, TableBatch
from databus.core.tables.schemas import TableSchema
from databus.rows import json_images
from databus.rows.columns import Ints
from databus.rows.json_images import ImageColumns, ValueForm
from databus.rows.keys import KeyEncoder
from databus.rows.row_program import RowProgram, SinkProgram
from databus.rows.variant import images as variant
from databus.rows.variant.images import VARIANT, null_variants
from databus.rows.violations import ImageMarks

JSON_CHANGES = 16_384
"""Row changes written together as JSON: some 20 MB of text, so that writer and reader overlap from early on and what
waits between them stays small."""


class Images(Protocol):
    """All images of one batch."""

    @property
    def offsets(self) -> Ints:
        """int64[images + 1], where each image lies; its size in bytes is the difference."""
        ...

    def take(self, rows: npt.NDArray[np.int32]) -> pa.Array:
        """Return a column of the images at `rows`, null where an index is -1."""
        ...


FORM_KEY = "form_key"
"""Column of rows whose values are in a form of their own: the key in that form (binary); `key` stays canonical."""

PLAIN = {"plain_before": "before", "plain_after": "after"}
"""Columns with the images in the usual form, beside those in a form of its own, where rows may be held back."""


@dataclass(frozen=True)
class ImageForm:
    """Image form: how row images are written.

    Attributes:
        kind: Arrow type of the columns `before` and `after`.
        encode: writes all images of a batch.
        nulls: makes a column of so many nulls.
        changes_at_once: row changes that are written together.
        marks: what row checks say of the images; None for flows without.
        values: form of the values, also in keys; None for the usual one.
        plain: writes the images with values in the usual form beside, for rows that are held back; None for none.
        keys: makes the encoder of the keys of a decoded batch, where they are not those of `values`; None for none.
            The schema beside it is that of the images, as transforms leave it.
        program: what transforms do with values and rows; None for flows whose transforms look at none. All images are
            those of the batch that it shows; keys are those of the decoded one, for no transform replaces a key.
        columns: what images in a form of their own hold, see `ImageColumns`.
        held_unwritten: whether images of rows that a `SinkProgram` holds back have no place in the form.
        only: `schema_id`s of the tables whose rows are written, `NO_SCHEMA` among them for statements; None for all.
    """

    kind: pa.DataType
    encode: Callable[[TableBatch], Images]
    nulls: Callable[[int], pa.Array]
    changes_at_once: int = MAX_IMAGES
    marks: ImageMarks | None = None
    values: ValueForm | None = None
    plain: Callable[[TableBatch], Images] | None = None
    keys: Callable[[TableBatch, TableSchema], KeyEncoder | None] | None = None
    program: RowProgram | SinkProgram | None = None
    columns: ImageColumns = field(default_factory=dict)
    only: frozenset[int] | None = None
    held_unwritten: bool = False

    def takes(self, schema_id: int) -> bool:
        """Return whether rows of a table are written."""
        return self.only is None or schema_id in self.only

    def writes(self, schema: TableSchema, column: int) -> bool:
        """Return whether a record shows a column of a table: in its images, or in its key."""
        name, wanted = schema.columns[column].name, self.columns.get(schema.schema_id)
        return wanted is None or name in schema.primary_key or any(source == name for source, _ in wanted)


@dataclass(frozen=True)
class ChosenImages:
    """Images of a batch of which only some were encoded.

    Attributes:
        inner: the images that were.
        at: int32[images + 1], where each image of the batch is among them, -1 where it is not; the last is -1.
    """

    inner: Images
    at: npt.NDArray[np.int32]

    @property
    def offsets(self) -> Ints:
        """int64[images + 1] as of all images, those that were not encoded empty."""
        lengths = np.append(np.diff(self.inner.offsets), 0)[self.at[:-1]]
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])

    def take(self, rows: npt.NDArray[np.int32]) -> pa.Array:
        """Return a column of the images at `rows`, null where an index is -1."""
        return self.inner.take(self.at[rows])


@dataclass(frozen=True)
class ShownBatch:
    """Batch as a flow's transforms leave it, with those of its images that rows have.

    Attributes:
        batch: the images that are written.
        stored: the same images as they were decoded.
        at: as of `ChosenImages`; None where all images of the decoded batch are in their places.
    """

    batch: TableBatch
    stored: TableBatch
    at: npt.NDArray[np.int32] | None = None

    def images(self, encode: Callable[[TableBatch], Images]) -> Images:
        """Return the images as `encode` writes them, at the places of the decoded ones."""
        written = encode(self.batch)
        return written if self.at is None else ChosenImages(written, self.at)

    def marks(self, marks: ImageMarks) -> Ints:
        """Return int64[images + 1], the marks of each decoded image, and 0 of none."""
        found = marks.of(self.batch, None if self.at is None else self.stored)
        return np.append(found, 0) if self.at is None else np.append(found, 0)[self.at]

    def flags(self, form: ImageForm) -> Mapping[str, Mapping[int, str]]:
        """Return column → decoded image → reason of the flags that a form's values have."""
        if form.values is None:
            return {}
        schema, rows = self.batch.schema, None if self.at is None else np.flatnonzero(self.at[:-1] >= 0)
        return {
            schema.columns[column].name: found if rows is None else {int(rows[row]): why for row, why in found.items()}
            for column, found in form.values.flags(self.batch).items()
            if form.writes(schema, column)
        }


def needed_images(
    batch: TableBatch, before: npt.NDArray[np.int32], after: npt.NDArray[np.int32]
) -> tuple[TableBatch, npt.NDArray[np.int32]]:
    """Return a batch with those of its images that rows point to, and where they are now (`ChosenImages.at`).

    A change whose row has lost an image to a filter has lost it in the batch, too.
    """
    count = batch.images.num_rows
    needed = np.zeros(count + 1, np.bool_)
    needed[before] = needed[after] = True
    needed = needed[:-1]
    if needed.all():
        return batch, np.append(np.arange(count, dtype=np.int32), np.int32(-1))
    at = np.append(np.where(needed, np.cumsum(needed) - 1, -1), -1).astype(np.int32)
    chosen = replace(
        batch,
        images=batch.images.filter(pa.array(needed)),
        before_row=at[batch.before_row],
        after_row=at[batch.after_row],
        presence=batch.presence[needed],
        exceptions={
            column: {int(at[row]): value for row, value in found.items() if needed[row]}
            for column, found in batch.exceptions.items()
        },
        partial=_moved(batch.partial, at),
        unjudged=_moved(batch.unjudged, at),
    )
    return chosen, at


def _moved(rows: Mapping[int, frozenset[int]], at: npt.NDArray[np.int32]) -> dict[int, frozenset[int]]:
    return {column: frozenset(int(at[row]) for row in found if at[row] >= 0) for column, found in rows.items()}


VARIANT_FORM = ImageForm(VARIANT, variant.encode, null_variants)


def json_form(
    columns: ImageColumns,
    marks: ImageMarks | None = None,
    program: RowProgram | SinkProgram | None = None,
    *,
    values: ValueForm | None = None,
) -> ImageForm:
    """Return the form whose images are JSON objects (binary, UTF-8) of the given columns, of all where none are.

    Args:
        columns: see `ImageColumns`.
        marks: what row checks say of the images.
        program: what transforms do with values and rows.
        values: form of the values; None for the usual one. Rows then have the column `form_key`, and where there are
            marks or a program, which may hold rows back, the columns `plain_before` and `plain_after`.
    """
    plain = partial(json_images.encode, columns=columns)
    return ImageForm(
        pa.binary(),
        plain if values is None else partial(json_images.encode, columns=columns, form=values),
        lambda count: pa.nulls(count, pa.binary()),
        JSON_CHANGES,
        marks,
        values,
        plain if values is not None and (marks is not None or program is not None) else None,
        program=program,
        columns=columns,
    )
