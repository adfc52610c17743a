"""Column programs: what the compiled transforms make of one decoded column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.rows.columns import validity
from databus.runtime.direct.stored_values import SparkNeededError, text_values, typed_values

if TYPE_CHECKING:
    from databus.runtime.direct.compiled_sql import CompiledSql

VALUE = "v"
"""Name of the stored value's text in a rewrite."""


@dataclass(frozen=True)
class Rewriting:
    """Rewriting of a column's text.

    Attributes:
        compiled: the new text; over `VALUE`, or over nothing.
        of: what `VALUE` is: "text", the "bytes" of a text or of a binary column, or "nothing".
    """

    compiled: CompiledSql
    of: Literal["text", "bytes", "nothing"]

    def of_images(self, batch: TableBatch, place: int) -> pa.StringArray:
        """Return the new text in each image; null stays null.

        Raises:
            SparkNeededError: of a value whose text Spark alone knows.
        """
        if self.of == "nothing":
            given = validity(batch.images.column(place)).copy()
            given[list(batch.exceptions.get(place, {}))] = True
            new = self.compiled.evaluate({}, int(given.sum()))
        else:
            stored = text_values(batch, place, as_bytes=self.of == "bytes")
            given = validity(stored)
            known = stored if given.all() else stored.filter(pa.array(given))
            new = self.compiled.evaluate({(VALUE, "row"): known}, len(known))
        if new.null_count:
            # An image leaves such a value out.
            raise SparkNeededError(f"column {batch.schema.columns[place].name} becomes NULL in a row that has a value")
        if given.all():
            return new
        return new.take(pa.array(np.cumsum(given) - 1, mask=~given))


@dataclass(frozen=True)
class ColumnProgram:
    """Decoded column as the transforms so far leave it.

    Attributes:
        source: its name at the source.
        rewriting: of its value; None where it is as it was.
    """

    source: str
    rewriting: Rewriting | None = None

    def seen(self, batch: TableBatch) -> pa.Array:
        """Return its value in each image, of its Spark type, as conditions see it.

        Raises:
            SparkNeededError: of a value that Spark alone reads.
        """
        place = self.place(batch)
        return typed_values(batch, place) if self.rewriting is None else self.rewriting.of_images(batch, place)

    def place(self, batch: TableBatch) -> int:
        """Return the number of the column in a batch."""
        return [column.name for column in batch.schema.columns].index(self.source)
