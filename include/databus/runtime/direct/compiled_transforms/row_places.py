"""Places of decoded rows by value: the same routes, keys and causes that `databus.rows.frames.chosen` spells in SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import UPDATE
from databus.rows.row_program import FatedRows, RowPlaces
from databus.runtime.direct.compiled_transforms.batch_images import (
    BatchImages,
    Mask,
    picked_images,
)
from databus.runtime.direct.compiled_transforms.column_programs import ColumnProgram
from databus.runtime.direct.compiled_transforms.place_values import PickedImages, PlaceValues


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
        found, causes = self.values.of(PickedImages(images, rows.before[at], rows.after[at], image))
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
