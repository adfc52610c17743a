"""Places of decoded rows by value: the same routes, keys and causes that `databus.rows.frames.chosen` spells in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import UPDATE
from databus.rows.frames.places import ROUTE_TOLD
from databus.rows.json_text import json_literals, quoted
from databus.rows.keys import KeyEncoder, key_literals
from databus.rows.row_program import FatedRows, RowPlaces
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

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AskedColumn:
    """Column that a choice asks for.

    Attributes:
        name: its present name.
        presence: carried by the images that have it.
        stored: whether the row may flag it: its value is no computed one.
    """

    name: str
    presence: ColumnProgram
    stored: bool


@dataclass(frozen=True)
class _Picked:
    """Images of the rows that are asked, and which of them says a value."""

    images: BatchImages
    before: ImageNumbers
    after: ImageNumbers
    image: str

    def values(self, column: ColumnProgram) -> pa.Array:
        # What is flagged is held back, or an image that no row reads.
        images = self.images.unflagged if column.computed is None else self.images
        return picked_values(images, column, self.before, self.after, self.image)

    def places(self, column: ColumnProgram) -> ImageNumbers:
        return picked_images(self.images, column, self.before, self.after, self.image)

    def constant(self, name: str) -> pa.Array:
        schema = self.images.batch.schema
        return pa.repeat(pa.scalar({"database": schema.database, "table": schema.table}[name]), len(self.before))

    def evaluated(self, compiled: CompiledSql, columns: Mapping[tuple[str, str], ColumnProgram | str]) -> pa.Array:
        found = {
            at: self.constant(each) if isinstance(each, str) else self.values(each) for at, each in columns.items()
        }
        return compiled.evaluate(found, len(self.before))


Choice = tuple[npt.NDArray[np.int32] | pa.BinaryArray, dict[int, str]]
"""Choices of rows: bits of routes or keys; and causes of rows held back, by their number among those asked."""


class PlaceValues(Protocol):
    """Values of images that choose a place."""

    def of(self, picked: _Picked) -> Choice:
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

    def of(self, picked: _Picked) -> Choice:
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

    def of(self, picked: _Picked) -> Choice:
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

    def of(self, picked: _Picked) -> Choice:
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


@dataclass(frozen=True)
class TablePlacing:
    """Choice of routes, or of the key, of a table's rows, compiled.

    Attributes:
        kind: of the transform, in causes.
        asked: the columns that it asks for, each once.
        values: what they say.
        routes: number of routes that may come, 0 of a key.
        follows: whether an update stays one row, in the place of the row as it is.
        kept: stored names of the columns that an insert has to have.
    """

    kind: str
    asked: tuple[AskedColumn, ...]
    values: PlaceValues
    routes: int
    follows: bool
    kept: frozenset[str]

    def placed(
        self, images: BatchImages, rows: FatedRows, passed: Mask, left_out: Mask
    ) -> tuple[RowPlaces, dict[int, str]]:
        """Return the places of rows, and why some are held back.

        Args:
            images: of the batch.
            rows: as the steps before left them, with their places.
            passed: bool[n], rows that nothing is asked of: held back or left out before.
            left_out: bool[n], those of them that are left out.
        """
        crosses = (rows.op == UPDATE) & (rows.before >= 0) & (rows.after >= 0)
        causes: dict[int, str] = {}
        open_ = ~passed
        both = [("row", open_)] if self.follows else [("row", open_), ("before", crosses)]
        for image, meant in both:
            for suffix, masks in self._masks(images, rows, image):
                here = np.logical_or.reduce([mask for _, mask in masks]) & meant & open_ if masks else None
                for row in () if here is None else np.flatnonzero(here).tolist():
                    causes[row] = f"{self.kind}_{suffix}({', '.join(name for name, mask in masks if mask[row])})"
                    open_[row] = False
        now, outside = self._said(images, rows, open_, "row")
        causes |= outside
        was = now
        if not self.follows:
            moving = crosses & open_
            moving[list(causes)] = False
            before, outside = self._said(images, rows, moving, "before")
            causes |= outside
            was = _where(moving, before, now)
        open_[list(causes)] = False
        places = self._places(rows.places or RowPlaces.of_source(len(rows.op)), open_, now, was)
        for row, cause in self._partial(images, rows, places, crosses & ~left_out).items():
            causes.setdefault(row, cause)
        return places, causes

    def _masks(self, images: BatchImages, rows: FatedRows, image: str) -> list[tuple[str, list[tuple[str, Mask]]]]:
        """Return what of the columns holds rows back: lacked ones, then flagged ones; each with its rows."""
        lacks: list[tuple[str, Mask]] = []
        flagged: list[tuple[str, Mask]] = []
        for each in self.asked:
            at = picked_images(images, each.presence, rows.before, rows.after, image)
            lacks.append((each.name, at < 0))
            if each.stored:
                flags = images.flagged((each.presence.source,))
                if flags.any():
                    flagged.append((each.name, flags[at]))
        return [("lacks", lacks), ("flagged", flagged)]

    def _said(
        self, images: BatchImages, rows: FatedRows, asked: Mask, image: str
    ) -> tuple[npt.NDArray[np.int32] | pa.BinaryArray, dict[int, str]]:
        """Return what rows say, of those that are asked: 0 or null of others; and why some are held back."""
        at, n = np.flatnonzero(asked), len(asked)
        if not len(at):
            return (np.zeros(n, np.int32) if self.routes else pa.nulls(n, pa.binary())), {}
        found, causes = self.values.of(_Picked(images, rows.before[at], rows.after[at], image))
        told = {int(at[row]): cause for row, cause in causes.items()}
        if isinstance(found, np.ndarray):
            whole = np.zeros(n, np.int32)
            whole[at] = found
            return whole, told
        return found.take(pa.array(np.cumsum(asked) - 1, mask=~asked)), told

    def _places(
        self,
        former: RowPlaces,
        open_: Mask,
        now: npt.NDArray[np.int32] | pa.BinaryArray,
        was: npt.NDArray[np.int32] | pa.BinaryArray,
    ) -> RowPlaces:
        if self.routes:  # a row that is held back counts for all sinks that might take it
            every = np.int32((1 << self.routes) - 1)
            return replace(former, routes_now=np.where(open_, now, every), routes_was=np.where(open_, was, every))
        return replace(former, key_now=_where(open_, now, former.key_now), key_was=_where(open_, was, former.key_was))

    def _partial(self, images: BatchImages, rows: FatedRows, places: RowPlaces, crosses: Mask) -> dict[int, str]:
        """Return why updates are held back that come to a place, and would be inserts there without all columns."""
        batch = images.batch
        names = [column.name for column in batch.schema.columns]
        lacking = [
            ", ".join(name for name, there in zip(names, carried, strict=True) if not there and name in self.kept)
            for carried in batch.presence_sets
        ]
        if not any(lacking):
            return {}
        comes = crosses & comes_to_a_place(places)
        found = {}
        for row in np.flatnonzero(comes).tolist():
            if missing := lacking[batch.presence[rows.after[row]]]:
                found[row] = f"{self.kind}_lacks({missing})"
        return found


def changed_keys(now: pa.BinaryArray, was: pa.BinaryArray) -> Mask:
    """Return bool[n], rows that have another key than they had; NULL is the same as NULL."""
    if now is was or (now.null_count == was.null_count == len(now)):
        return np.zeros(len(now), np.bool_)
    same = pc.fill_null(pc.equal(now, was), False)
    none = pc.and_(now.is_null(), was.is_null())
    found: Mask = ~np.asarray(pc.or_(same, none))
    return found


def comes_to_a_place(places: RowPlaces) -> Mask:
    """Return bool[n], rows with a place that they did not have."""
    found: Mask = (
        np.where(
            changed_keys(places.key_now, places.key_was),
            places.routes_now,
            places.routes_now & ~places.routes_was,
        )
        != 0
    )
    return found


def _where(
    rows: Mask, these: npt.NDArray[np.int32] | pa.BinaryArray, others: npt.NDArray[np.int32] | pa.BinaryArray
) -> npt.NDArray[np.int32] | pa.BinaryArray:
    """Return the values of some rows, and others of the rest."""
    if isinstance(these, np.ndarray):
        return np.where(rows, these, others)
    if rows.all():
        return these
    if not rows.any():
        return others
    return pc.if_else(pa.array(rows), these, others)
