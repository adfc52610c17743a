"""Merge of two streams of encoded rows, each in log order, into the one stream that a slot's writer takes."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from databus.core.errors.source import DecodeError

if TYPE_CHECKING:
    import pyarrow as pa

Place = tuple[int, str, int, int, int]
"""Length of the log file's name, its name, position, ordinal, part: what log order compares."""

PLACE_COLUMNS = ("log", "place", "ordinal", "part")
"""Columns by which rows are merged."""

_COPIED_BYTES = 256 << 20
"""Pieces up to this size are put into one batch, larger ones handed on row run by row run: an Arrow column of bytes
holds 2 GiB."""


@dataclass(frozen=True, eq=False)
class _Stretch:
    """Rows of one log file, with their places as int64[3, rows]: position, ordinal, part."""

    rows: pa.RecordBatch
    log: str
    at: npt.NDArray[np.int64]

    def place(self, row: int) -> Place:
        position, ordinal, part = self.at[:, row].tolist()
        return (len(self.log), self.log, position, ordinal, part)

    @property
    def first(self) -> Place:
        return self.place(0)

    @property
    def last(self) -> Place:
        return self.place(-1)

    def until(self, place: Place) -> int:
        """Return how many rows stand at a place or before it."""
        if (len(self.log), self.log) != place[:2]:
            return self.rows.num_rows if (len(self.log), self.log) < place[:2] else 0
        position, ordinal, part = self.at
        there = (position < place[2]) | (
            (position == place[2]) & ((ordinal < place[3]) | ((ordinal == place[3]) & (part <= place[4])))
        )
        return int(np.count_nonzero(there))

    def cut(self, count: int) -> tuple[_Stretch, _Stretch | None]:
        """Return the first rows, and the others where there are more."""
        if count == self.rows.num_rows:
            return self, None
        head = _Stretch(self.rows.slice(0, count), self.log, self.at[:, :count])
        return head, _Stretch(self.rows.slice(count), self.log, self.at[:, count:])


def merged(one: Iterable[pa.RecordBatch], other: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
    """Yield the rows of both streams in log order.

    Args:
        one: encoded rows with `PLACE_COLUMNS`, in log order.
        other: the same, of other rows; columns may stand in another order.

    Raises:
        DecodeError: rows of a stream do not rise, or both have a row of the same place.
    """
    left, right = _stretches(one), _stretches(other)
    head, facing = next(left, None), next(right, None)
    before: Place = (0, "", -1, -1, -1)
    while head is not None and facing is not None:
        end = min(head.last, facing.last)
        ours, theirs = head.until(end), facing.until(end)
        pieces: list[_Stretch] = []
        if ours:
            piece, rest = head.cut(ours)
            head = rest if rest is not None else next(left, None)
            pieces.append(piece)
        if theirs:
            piece, rest = facing.cut(theirs)
            facing = rest if rest is not None else next(right, None)
            pieces.append(piece)
        _require_rising(before, min(piece.first for piece in pieces))
        before = end
        yield from _in_order(*pieces)
    for rest, more in ((head, left), (facing, right)):
        while rest is not None:
            _require_rising(before, rest.first)
            before = rest.last
            yield rest.rows
            rest = next(more, None)  # noqa: PLW2901 - the stream's next rows


def _stretches(batches: Iterable[pa.RecordBatch]) -> Iterator[_Stretch]:
    for batch in batches:
        if not batch.num_rows:
            continue
        logs = np.asarray(batch["log"].dictionary_encode().indices)
        bounds = [0, *(np.flatnonzero(np.diff(logs)) + 1).tolist(), batch.num_rows]
        for start, stop in itertools.pairwise(bounds):
            rows = batch.slice(start, stop - start)
            at = np.stack([np.asarray(rows[name]).astype(np.int64) for name in PLACE_COLUMNS[1:]])
            found = _Stretch(rows, rows["log"][0].as_py(), at)
            _require_all_rising(found)
            yield found


def _in_order(*pieces: _Stretch) -> Iterator[pa.RecordBatch]:
    """Yield pieces of one or both streams, none of which reaches beyond the other's last row, in log order."""
    if len(pieces) == 1:
        yield pieces[0].rows
        return
    one, other = sorted(pieces, key=lambda piece: piece.first)
    if one.last < other.first:
        yield one.rows
        yield other.rows
        return
    position, ordinal, part = np.concatenate([one.at, other.at], axis=1)
    order = np.lexsort((part, ordinal, position))
    there = np.stack([position[order], ordinal[order], part[order]])
    if (there[:, 1:] == there[:, :-1]).all(axis=0).any():
        raise DecodeError(
            f"two lanes brought a row of the same place, between {_told(one.first)} and {_told(one.last)}"
        )
    yield from _arranged(one.rows, other.rows, order)


def _arranged(one: pa.RecordBatch, other: pa.RecordBatch, order: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of two batches in an order: as one batch, or run by run where they cannot be one."""
    import pyarrow as pa

    alike = _alike(one, other) if one.nbytes + other.nbytes <= _COPIED_BYTES else None
    if alike is not None:
        yield pa.concat_batches(alike).take(pa.array(order))
        return
    first = one.num_rows
    cuts = np.flatnonzero(np.diff(order >= first)) + 1
    for run in np.split(order, cuts):
        batch, start = (one, int(run[0])) if run[0] < first else (other, int(run[0]) - first)
        yield batch.slice(start, len(run))


def _alike(one: pa.RecordBatch, other: pa.RecordBatch) -> list[pa.RecordBatch] | None:
    """Return two batches under the schema of the larger one; None where a column of the other is not of its type."""
    import pyarrow as pa

    wanted = (one if one.num_rows >= other.num_rows else other).schema
    found = []
    for batch in (one, other):
        if set(batch.schema.names) != set(wanted.names):
            return None
        try:
            columns = [
                batch[field.name] if batch[field.name].type == field.type else batch[field.name].cast(field.type)
                for field in wanted
            ]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        found.append(pa.RecordBatch.from_arrays(columns, names=wanted.names))
    return found


def _require_all_rising(stretch: _Stretch) -> None:
    position, ordinal, part = np.diff(stretch.at)
    rising = (position > 0) | ((position == 0) & ((ordinal > 0) | ((ordinal == 0) & (part > 0))))
    if not rising.all():
        row = int(np.argmin(rising))
        raise DecodeError(f"rows came out of order: {_told(stretch.place(row + 1))} behind {_told(stretch.place(row))}")


def _require_rising(before: Place, first: Place) -> None:
    if first <= before:
        raise DecodeError(f"rows came out of order: {_told(first)} behind {_told(before)}")


def _told(place: Place) -> str:
    _, log, position, ordinal, part = place
    return f"{log}:{position} (row {ordinal}, part {part})"
