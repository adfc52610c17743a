"""Marks of row images: which of a flow's row checks an after-image violates, found where the rows are decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.tables.schemas import ColumnSchema
from databus.rows.columns import Ints, validity
from databus.rows.flags import flag_reason
from databus.rows.variant.columns import column_state
from databus.rows.variant.kernels import ABSENT

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """Column values of all images of a batch.

    Attributes:
        array: the values, native Arrow type; null also where the image does not carry the column.
        column: its name and type.
        present: bool[images], whether the image carries the column.
        untyped: bool[images], whether it holds a value that its type cannot express: a zero date, undecodable text.
        reasons: image → why it is untyped, as flags name it.
        unjudged: images of changes that a row filter could not judge for want of it.
    """

    array: pa.Array
    column: ColumnSchema
    present: Mask
    untyped: Mask
    reasons: Mapping[int, str]
    unjudged: frozenset[int] = frozenset()

    @property
    def given(self) -> Mask:
        """Mask of the rows that have a value, typed or not."""
        return self.present & (validity(self.array) | self.untyped)

    @classmethod
    def of(cls, batch: TableBatch, number: int) -> ColumnValues:
        """Return the column of a batch."""
        array = batch.images.column(number)
        present = column_state(batch, number, array) != ABSENT
        untyped = np.zeros(len(array), np.bool_)
        exceptions = batch.exceptions.get(number, {})
        untyped[list(exceptions)] = True
        reasons = {row: flag_reason(value) for row, value in exceptions.items()}
        unjudged = batch.unjudged.get(number, frozenset())
        return cls(array, batch.schema.columns[number], present, untyped & present, reasons, unjudged)


class ImageCheck(Protocol):
    """Returns which values of a column violate; the same as the check's Column in the other lane."""

    @property
    def ops(self) -> tuple[str, ...]:
        """Operations of the rows that are looked at."""
        ...

    def violated_by(self, values: ColumnValues) -> Mask:
        """Return bool[images], true where a value violates."""
        ...


@dataclass(frozen=True)
class ImageMarks:
    """The checks of a flow on the tables of one plan.

    Attributes:
        checks: schema_id → (bit, column's name at the source, check).
        at_source: schema_id → bits of the checks that look at the stored value, where a transform replaces it.
    """

    checks: Mapping[int, tuple[tuple[int, str, ImageCheck], ...]]
    at_source: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def of_deletes(self, schema_id: int) -> int:
        """Return the bits of the checks that look at before-images of deletes."""
        return sum(1 << bit for bit, _, check in self.checks.get(schema_id, ()) if "d" in check.ops)

    def of(self, batch: TableBatch, stored: TableBatch | None = None) -> Ints:
        """Return int64[images], the marks of each image if it is looked at.

        Args:
            batch: the images as transforms leave them.
            stored: the same as they were decoded; None where no transform replaced a value.
        """
        marks = np.zeros(batch.images.num_rows, np.int64)
        places = {column.name: number for number, column in enumerate(batch.schema.columns)}
        at_source = self.at_source.get(batch.schema.schema_id, ())
        for bit, name, check in self.checks.get(batch.schema.schema_id, ()):
            looked_at = stored if stored is not None and bit in at_source else batch
            violated = check.violated_by(ColumnValues.of(looked_at, places[name]))
            marks |= violated.astype(np.int64) << bit
        return marks
