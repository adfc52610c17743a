"""Values that choose a row's place: routes by an expression or by conditions, and keys of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.rows.frames.places import ROUTE_TOLD
from databus.rows.json_text import json_literals, quoted
from databus.rows.keys import KeyEncoder, key_literals
from databus.runtime.direct.compiled_transforms.batch_images import (
    BatchImages,
    ImageNumbers,
    Mask,
    picked_images,
    picked_values,
)
from databus.runtime.direct.compiled_transforms.column_programs import ColumnProgram
from databus.runtime.direct.compiled_transforms.stored_values import refuse_far_times

if TYPE_CHECKING:
    from databus.core.tables.schemas import ColumnSchema
    from databus.runtime.direct.compiled_transforms.compiled_sql import CompiledSql

SHOWN = 100
"""Characters of a value that a cause shows."""


@dataclass(frozen=True)
class PickedImages:
    """Images of the rows that are asked.

    Attributes:
        images: of the batch.
        before: image of each row, -1 without.
        after: the same of the after-image.
        image: the one that says a value: "before", "after" or "row".
    """

    images: BatchImages
    before: ImageNumbers
    after: ImageNumbers
    image: str

    def values(self, column: ColumnProgram) -> pa.Array:
        """Return a column's value of each row."""
        # What is flagged is held back, or an image that no row reads.
        images = self.images.unflagged if column.computed is None else self.images
        return picked_values(images, column, self.before, self.after, self.image)

    def places(self, column: ColumnProgram) -> ImageNumbers:
        """Return the image that says a column's value of each row."""
        return picked_images(self.images, column, self.before, self.after, self.image)

    def constant(self, name: str) -> pa.Array:
        """Return the name of the database or of the table, once for each row."""
        schema = self.images.batch.schema
        return pa.repeat(pa.scalar({"database": schema.database, "table": schema.table}[name]), len(self.before))

    def evaluated(self, compiled: CompiledSql, columns: Mapping[tuple[str, str], ColumnProgram | str]) -> pa.Array:
        """Return the value of an expression for each row."""
        found = {
            at: self.constant(each) if isinstance(each, str) else self.values(each) for at, each in columns.items()
        }
        return compiled.evaluate(found, len(self.before))


Choice = tuple[npt.NDArray[np.int32] | pa.BinaryArray, dict[int, str]]
"""Choices of rows: bits of routes or keys; and causes of rows held back, by their number among those asked."""


class PlaceValues(Protocol):
    """Values of images that choose a place."""

    def of(self, picked: PickedImages) -> Choice:
        """Return what each row says.

        Raises:
            DatabusError: an expression fails for a row, as in Spark's lane.
        """
        ...


@dataclass(frozen=True)
class RouteText:
    """Route that an expression names.

    Attributes:
        compiled: its text.
        columns: what its inputs are.
        routes: those that may come.
        hidden: whether the value is not told, for a transform behind hides it.
    """

    compiled: CompiledSql
    columns: Mapping[tuple[str, str], ColumnProgram | str]
    routes: tuple[str, ...]
    hidden: bool

    def of(self, picked: PickedImages) -> Choice:
        """Return the route's bit of each row; see `PlaceValues`."""
        texts = picked.evaluated(self.compiled, self.columns)
        number = pc.index_in(texts.cast(pa.string()), value_set=pa.array(self.routes, pa.string()))
        outside = np.flatnonzero(~number.is_valid().to_numpy(zero_copy_only=False))
        bits = np.left_shift(np.int32(1), np.asarray(pc.fill_null(number, 0)).astype(np.int32))
        return bits, {row: self._cause(texts[row].as_py()) for row in outside.tolist()}

    def _cause(self, text: str | None) -> str:
        told = "***" if self.hidden else "NULL" if text is None else text[:SHOWN]
        return f"{ROUTE_TOLD}{told})"


@dataclass(frozen=True)
class RouteConditions:
    """Routes whose conditions are true.

    Attributes:
        conditions: of each route, in order: the condition, and what its inputs are.
    """

    conditions: tuple[tuple[CompiledSql, Mapping[tuple[str, str], ColumnProgram | str]], ...]

    def of(self, picked: PickedImages) -> Choice:
        """Return the bits of the routes of each row; see `PlaceValues`."""
        bits = np.zeros(len(picked.before), np.int32)
        for number, (compiled, columns) in enumerate(self.conditions):
            found = picked.evaluated(compiled, columns)
            if not pa.types.is_null(found.type):
                true = np.asarray(pc.fill_null(found, False)).astype(np.int32)
                bits |= true << np.int32(number)
        return bits, {}


@dataclass(frozen=True)
class ChosenKeyColumn:
    """Column of a chosen key.

    Attributes:
        asked: its name as it was asked for, in causes.
        column: its name in the key, and its type.
        program: its values.
    """

    asked: str
    column: ColumnSchema
    program: ColumnProgram

    def literals(self, images: BatchImages, needed: Mask) -> pa.StringArray:
        """Return its JSON literal of each image, as of a primary key.

        Args:
            images: of the batch.
            needed: bool[images], those whose value counts.
        """
        if self.program.computed is None and self.program.rewriting is None:
            return key_literals(images.batch, images.place(self.program.source))
        values = (images if self.program.computed is not None else images.unflagged).values(self.program, needed)
        if self.program.rewriting is not None:
            return quoted(values)
        refuse_far_times(values, self.column.name)
        return json_literals(values, self.column)


@dataclass(frozen=True)
class KeyColumns:
    """Key of columns' values.

    Attributes:
        columns: in the order of the key.
    """

    columns: tuple[ChosenKeyColumn, ...]

    def of(self, picked: PickedImages) -> Choice:
        """Return the key of each row, null where it is held back; see `PlaceValues`."""
        images, rows = picked.images, len(picked.before)
        nulls = np.zeros((len(self.columns), rows), np.bool_)
        needed = np.zeros((len(self.columns), images.batch.images.num_rows + 1), np.bool_)
        for number, each in enumerate(self.columns):
            at = picked.places(each.program)
            needed[number, at] = True
            given = images.given(replace(each.program, rewriting=None), needed[number, :-1])
            nulls[number] = ~np.append(given, False)[at]
        whole = ~nulls.any(axis=0)
        causes = {row: self._cause(nulls[:, row]) for row in np.flatnonzero(~whole).tolist()}
        if not whole.any():
            return pa.nulls(rows, pa.binary()), causes
        encoder = KeyEncoder(
            images.batch.schema.full_name,
            tuple(each.column.name for each in self.columns),
            tuple(each.literals(images, of[:-1]) for each, of in zip(self.columns, needed, strict=True)),
            tuple(images.carried(each.program)[:-1] for each in self.columns),
        )
        none = np.full(rows, -1, np.int32)
        first, other = (picked.after, picked.before) if picked.image == "row" else (picked.before, none)
        keys = encoder.keys(first[whole], other[whole])
        return keys.take(pa.array(np.cumsum(whole) - 1, mask=~whole)), causes

    def _cause(self, nulls: Mask) -> str:
        names = (each.asked for each, null in zip(self.columns, nulls, strict=True) if null)
        return f"key_by_null({', '.join(names)})"
