"""Copies of rows in the direct lane: those that `rows.frames.places` and `runtime.copies` make in Spark's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.events import Op
from databus.rows.columns import text
from databus.rows.image_form import PLAIN
from databus.rows.murmur2 import key_hashes
from databus.rows.row_program import (
    CROSSES,
    CROSSES_FLOW,
    CROSSING,
    KEY_NOW,
    KEY_WAS,
    PLACE_FIELDS,
    ROUTES_NOW,
    ROUTES_WAS,
    RowPlaces,
)
from databus.runtime.direct.compiled_transforms.row_places import changed_keys

MOST_BYTES = 64 << 20
"""Most bytes of rows that are copied together; the copies of a larger row stand together."""

_LEFT, _KEPT, _CAME = range(3)
"""Kinds of copies of an update with both images: a delete in a place that it leaves, an update, an insert."""

Mask = npt.NDArray[np.bool_]
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowCopies:
    """Copies of the rows of a record batch, in their order.

    Attributes:
        row: int64[copies], number of the row.
        number: int64[copies], number of the copy among those of its row.
        route: int64[copies], number of its route in `routes`.
        op: string[copies], its operation.
        kind: int8[copies], kind of the copy of a row that is `crossing`.
        crossing: bool[copies], whether its row is an update with both images.
        several: bool[copies], whether its row has others.
        routes: names of routes.
    """

    row: _Numbers
    number: _Numbers
    route: _Numbers
    op: pa.StringArray
    kind: npt.NDArray[np.int8]
    crossing: Mask
    several: Mask
    routes: tuple[str, ...]

    def accepted(self, routes: Sequence[str], ops: frozenset[str]) -> Mask:
        """Return bool[copies], which of them a sink takes.

        Args:
            routes: its fnmatch patterns.
            ops: the operations that it accepts.
        """
        routed = np.array([any(fnmatchcase(name, pattern) for pattern in routes) for name in self.routes], np.bool_)
        by_op: Mask = np.asarray(pc.is_in(self.op, pa.array(sorted(ops), pa.string())))
        return by_op & routed[self.route] if len(self.row) else np.zeros(0, np.bool_)

    def rows_with(self, copies: Mask, rows: int) -> Mask:
        """Return bool[rows], rows of which one of these copies is."""
        found = np.zeros(rows, np.bool_)
        found[self.row[copies]] = True
        return found


@dataclass(frozen=True)
class CopiedRows:
    """Rows of a record batch that a sink takes, whose copies are still to be made.

    Attributes:
        rows: the batch.
        copies: of its rows.
        mine: bool[copies], those that the sink takes.
        stride: see `databus.rows.frames.places.copied`.
    """

    rows: pa.RecordBatch
    copies: RowCopies
    mine: Mask
    stride: int

    def made(self) -> Iterator[pa.RecordBatch]:
        """Yield the copies as rows, with their `route`."""
        chosen = np.flatnonzero(self.mine)
        ends = np.cumsum(_sizes(self.rows)[self.copies.row[chosen]])
        start = 0
        while start < len(chosen):
            base = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, base + MOST_BYTES, side="right")))
            yield self._made(chosen[start:stop])
            start = stop

    def _made(self, chosen: _Numbers) -> pa.RecordBatch:
        copies, row = self.copies, self.copies.row[chosen]
        kind, crossing = copies.kind[chosen], copies.crossing[chosen]
        left, came = crossing & (kind == _LEFT), crossing & (kind == _CAME)
        lost = {"before": came, "after": left}
        lost |= {"absent": left} | {name: lost[image] for name, image in PLAIN.items()}
        alike = len(row) == self.rows.num_rows and bool((row == np.arange(len(row))).all())

        def taken(name: str) -> pa.Array:
            gone = lost.get(name)
            without = gone is not None and bool(gone.any())
            return self.rows[name] if alike and not without else self.rows[name].take(pa.array(row, mask=gone))

        columns = {name: taken(name) for name in self.rows.schema.names}
        columns["op"] = copies.op.take(pa.array(chosen))
        part = np.asarray(columns["part"]).astype(np.int64) * self.stride + copies.number[chosen]
        columns["part"] = pa.array(part).cast(columns["part"].type)
        columns["event_id"] = _numbered(columns["event_id"], copies.number[chosen], copies.several[chosen])
        columns["flags"] = _flags(columns["flags"], left, came)
        if KEY_NOW in columns:
            key = pc.if_else(pc.equal(columns["op"], Op.DELETE.value), columns[KEY_WAS], columns[KEY_NOW])
            columns["key"], columns["key_hash"] = _keys(key, columns["key"], columns["key_hash"])
        columns["route"] = pa.array(copies.routes, pa.string()).take(pa.array(copies.route[chosen]))
        return pa.RecordBatch.from_pydict({name: each for name, each in columns.items() if name not in _PLACES})


_PLACES = frozenset(field.name for field in PLACE_FIELDS)


def copies_of(
    rows: pa.RecordBatch,
    ops: pa.StringArray,
    group: npt.NDArray[np.int32],
    routes: Sequence[Sequence[str]],
    *,
    of_flow: bool,
) -> RowCopies:
    """Return the copies of rows.

    Args:
        rows: the rows, with the columns of their places where values choose some.
        ops: their operations.
        group: int32[rows], which of `routes` each row may have; the bits of its routes stand for these in order.
        routes: routes of each group.
        of_flow: whether they are asked behind the flow's transforms, and not behind those of a sink.
    """
    n = rows.num_rows
    places, crossing = _places(rows, of_flow=of_flow)
    statement = np.asarray(rows["schema_id"]) < 0
    counts = np.array([len(names) for names in routes], np.int64)
    every = ((np.int64(1) << counts) - 1)[group] if n else np.zeros(0, np.int64)
    now = np.where(statement, every, places.routes_now)
    was = np.where(statement, every, places.routes_was)
    changed = changed_keys(places.key_now, places.key_was)
    deleted = np.asarray(pc.equal(ops, Op.DELETE.value))
    none = np.zeros(n, np.int64)
    of_kind = (
        np.where(crossing, np.where(changed, was, was & ~now), none),
        np.where(crossing, np.where(changed, none, now & was), np.where(deleted, was, now)),
        np.where(crossing, np.where(changed, now, now & ~was), none),
    )
    names = tuple(dict.fromkeys(name for each in routes for name in each))
    place = {name: number for number, name in enumerate(names)}
    of_group = np.zeros((len(routes), int(counts.max(initial=1))), np.int64)
    for at, each in enumerate(routes):
        of_group[at, : len(each)] = [place[name] for name in each]
    row, kind, bit = _listed(of_kind, int(counts.max(initial=1)))
    begins = np.flatnonzero(np.append(True, row[1:] != row[:-1])) if len(row) else np.zeros(0, np.int64)
    many = np.diff(np.append(begins, len(row)))
    number = np.arange(len(row)) - np.repeat(begins, many)
    own = crossing[row]
    letters = pa.array([Op.DELETE.value, Op.UPDATE.value, Op.CREATE.value])
    op = pc.if_else(pa.array(own), letters.take(pa.array(kind)), ops.take(pa.array(row)))
    return RowCopies(row, number, of_group[group[row], bit], op, kind, own, np.repeat(many > 1, many), names)


def _places(rows: pa.RecordBatch, *, of_flow: bool) -> tuple[RowPlaces, Mask]:
    """Return the places that rows have, and which are updates with both images."""
    if CROSSING not in rows.schema.names:
        return RowPlaces.of_source(rows.num_rows), np.zeros(rows.num_rows, np.bool_)
    bit = np.int8(CROSSES_FLOW if of_flow else CROSSES)
    now, was = (np.asarray(pc.fill_null(rows[name], 1)).astype(np.int32) for name in (ROUTES_NOW, ROUTES_WAS))
    crossing = (np.asarray(pc.fill_null(rows[CROSSING], 0)).astype(np.int8) & bit) != 0
    return RowPlaces(now, was, rows[KEY_NOW], rows[KEY_WAS]), crossing


def _listed(of_kind: Sequence[_Numbers], bits: int) -> tuple[_Numbers, npt.NDArray[np.int8], _Numbers]:
    """Return row, kind and bit of each copy, in order."""
    rows, kinds, numbers = [], [], []
    for kind, masks in enumerate(of_kind):
        for bit in range(bits):
            found = np.flatnonzero(masks >> bit & 1)
            rows.append(found)
            kinds.append(np.full(len(found), kind, np.int8))
            numbers.append(np.full(len(found), bit, np.int64))
    row, kind_, number = np.concatenate(rows), np.concatenate(kinds), np.concatenate(numbers)
    order = np.lexsort((number, kind_, row))
    return row[order], kind_[order], number[order]


def _numbered(event_ids: pa.StringArray, number: _Numbers, several: Mask) -> pa.StringArray:
    """Return the event ids of copies: with the number behind it where a row has several."""
    if not several.any():
        return event_ids
    own = pc.binary_join_element_wise(event_ids, pa.array(number).cast(pa.string()), ".")
    return pc.if_else(pa.array(several), own, event_ids)


def _flags(flags: pa.ListArray, left: Mask, came: Mask) -> pa.ListArray:
    """Return flags without those of an image that a copy does not have."""
    fewer = (left | came) & np.asarray(flags.is_valid())
    if not fewer.any():
        return flags
    told = flags.to_pylist()
    for row in np.flatnonzero(fewer).tolist():
        image = "before." if left[row] else "after."
        told[row] = [flag for flag in told[row] if flag.startswith(image)] or None
    return pa.array(told, flags.type)


def _keys(chosen: pa.BinaryArray, source: pa.BinaryArray, hashes: pa.Int32Array) -> tuple[pa.Array, pa.Array]:
    """Return keys and their hashes: the chosen ones, else the source's."""
    keyed = np.asarray(chosen.is_valid())
    if not keyed.any():
        return source, hashes
    made = np.asarray(hashes).copy()
    made[keyed] = key_hashes(*text(chosen.filter(pa.array(keyed))))
    return pc.coalesce(chosen, source), pa.array(made, hashes.type)


def _sizes(rows: pa.RecordBatch) -> _Numbers:
    """Return the bytes of each row's images."""
    found = np.full(rows.num_rows, 1, np.int64)
    for name in ("before", "after", *PLAIN):
        if name in rows.schema.names:
            found += np.asarray(pc.fill_null(pc.binary_length(rows[name]), 0)).astype(np.int64)
    return found
