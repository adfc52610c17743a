"""Rewrite PARTIAL_UPDATE_ROWS events as plain updates: after-images with the whole JSON documents.

Wire format: MySQL 8.0 source documentation, "Rows_event", PARTIAL_UPDATE_ROWS_EVENT: each after-image begins with value
options; with PARTIAL_JSON a bit per JSON column of the table follows, set where the column holds differences instead of
a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.arena import kernel_columns
from databus.binlog.kernels import walk as w
from databus.binlog.kernels.images import count_rows
from databus.binlog.kernels.row_values import ABSENT, NULL, locate_values
from databus.binlog.log.events import HEADER_BYTES, EventType
from databus.binlog.log.tablemap import TableMap
from databus.binlog.values.column_types import ColumnType
from databus.binlog.values.json_diff import apply_diffs

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_PARTIAL_JSON = 1


@dataclass(frozen=True, eq=False)
class PlainRows:
    """Rows events of one table without differences.

    Attributes:
        buffer: the events; those that were rewritten stand at its end.
        events: R_… lines that point into it; one event may have become several.
        bases: ordinal of each event's first change, −1 to count on.
        original: int64[n], offset of each line's event before.
        partial: number of a change, counted over all events → columns whose document after the change is not known,
            because the before-image does not carry it; they are absent from the after-image.
    """

    buffer: Bytes
    events: Ints
    bases: Ints
    original: Ints
    partial: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def origin(self, offset: int) -> int:
        """Return where the event that holds an offset began before."""
        holds = (self.events[:, w.R_AT] <= offset) & (offset < self.events[:, w.R_END])
        return int(self.original[int(np.argmax(holds))]) if holds.any() else offset


class PartialRowError(Exception):
    """A rows event that cannot be rewritten.

    Attributes:
        at: offset of the event.
        column: column at fault, −1 when none is.
        fault: one of `kernels.images`, 0 with `problem`.
        problem: what is wrong.
    """

    def __init__(self, at: int, column: int = -1, fault: int = 0, problem: str = "") -> None:
        super().__init__(problem)
        self.at, self.column, self.fault, self.problem = at, column, fault, problem


def plain_rows(buffer: Bytes, events: Ints, bases: Ints, table: TableMap) -> PlainRows:
    """Return the rows events of one table with those that log differences rewritten.

    Args:
        buffer: plain events.
        events: R_… lines of the table.
        bases: ordinal of each event's first change, −1 to count on.
        table: the table.

    Raises:
        PartialRowError: an event is damaged, or its differences do not fit the documents.
    """
    if not (events[:, w.R_TYPE] == EventType.PARTIAL_UPDATE_ROWS).any():
        return PlainRows(buffer, events, bases, events[:, w.R_AT])
    rewriter = _Rewriter(buffer, table)
    for event, base in zip(events, bases.tolist(), strict=True):
        if event[w.R_TYPE] == EventType.PARTIAL_UPDATE_ROWS:
            rewriter.rewrite(event, base)
        else:
            rewriter.keep(event, base)
    return rewriter.result()


@dataclass
class _ImageRun:
    """Consecutive rows whose after-images carry the same columns."""

    bitmap: bytes
    rows: int = 0
    parts: list[bytes] = field(default_factory=list)


class _Rewriter:
    def __init__(self, buffer: Bytes, table: TableMap) -> None:
        self._buffer, self._table = buffer, table
        self._data = buffer.data
        self._matrix = kernel_columns(table.columns)
        self._json = [c for c, column in enumerate(table.columns) if column.type is ColumnType.JSON]
        self._before = np.empty((len(table.columns), 2), np.int64)
        self._after = np.empty((len(table.columns), 2), np.int64)
        self._at = self._end = 0
        self._tail: list[bytes] = []
        self._size = len(buffer)
        self._lines: list[Ints] = []
        self._bases: list[int] = []
        self._original: list[int] = []
        self._changes: list[int] = []
        self._partial: dict[tuple[int, int], tuple[int, ...]] = {}

    def keep(self, event: Ints, base: int) -> None:
        """Take an event as it is."""
        self._add(event.copy(), base, int(event[w.R_AT]), -1)

    def rewrite(self, event: Ints, base: int) -> None:
        """Take an event whose after-images may hold differences."""
        self._at, self._end = int(event[w.R_AT]), int(event[w.R_END])
        bitmap, bitmap2, at = self._frame()
        head = bytearray(self._data[self._at : bitmap2])
        head[4] = EventType.UPDATE_ROWS
        run: _ImageRun | None = None
        while at < self._end:
            start = at
            at = self._locate(at, bitmap, self._before)
            before = bytes(self._data[start:at])
            carried, after, missing, at = self._after_image(at, bitmap2)
            if run is None or run.bitmap != carried:
                base = self._close(run, head, event, base)
                run = _ImageRun(carried)
            if missing:
                self._partial[len(self._lines), run.rows] = missing
            run.rows += 1
            run.parts += (before, after)
        self._close(run, head, event, base)

    def result(self) -> PlainRows:
        """Return all events taken."""
        buffer = np.concatenate((self._buffer, np.frombuffer(b"".join(self._tail), np.uint8)))
        buffer.flags.writeable = False
        lines = np.array(self._lines, np.int64).reshape(-1, w.R_WIDTH)
        partial = {}
        if self._partial:
            first = np.cumsum([0, *(self._count(n) for n in range(len(lines)))]).tolist()
            partial = {first[line] + row: columns for (line, row), columns in self._partial.items()}
        return PlainRows(buffer, lines, np.array(self._bases, np.int64), np.array(self._original, np.int64), partial)

    def _count(self, line: int) -> int:
        if self._changes[line] >= 0:
            return self._changes[line]
        count = int(count_rows(self._buffer, self._lines[line], self._matrix))
        if count < 0:
            raise PartialRowError(self._original[line], fault=count)
        return count

    def _add(self, line: Ints, base: int, original: int, changes: int) -> None:
        self._lines.append(line)
        self._bases.append(base)
        self._original.append(original)
        self._changes.append(changes)

    def _close(self, run: _ImageRun | None, head: bytearray, event: Ints, base: int) -> int:
        """Write a run of rows as an event of its own; returns the ordinal to go on with."""
        if run is None:
            return base
        size = len(head) + len(run.bitmap) + sum(map(len, run.parts))
        # Like every event that was expanded: no checksum, no position.
        self._tail += (bytes(head[:9]), (size & 0xFFFFFFFF).to_bytes(4, "little"), bytes(4), bytes(head[17:]))
        self._tail += (run.bitmap, *run.parts)
        line = event.copy()
        line[w.R_AT], line[w.R_END], line[w.R_TYPE] = self._size, self._size + size, EventType.UPDATE_ROWS
        self._size += size
        self._add(line, base, int(event[w.R_AT]), run.rows)
        return base + run.rows if base >= 0 else base

    def _frame(self) -> tuple[int, int, int]:
        """Return the offsets of both column bitmaps and of the first row; `count_rows` has checked the rest."""
        count = int(count_rows(self._buffer, np.array([self._at, self._end, 39, 0, 0]), self._matrix))
        if count < 0:
            raise PartialRowError(self._at, fault=count)
        at = self._at + HEADER_BYTES + 8
        at += int.from_bytes(self._data[at : at + 2], "little")
        at += 3 if self._data[at] == 252 else 1
        size = (len(self._table.columns) + 7) // 8
        return at, at + size, at + 2 * size

    def _locate(self, at: int, bitmap: int, places: Ints) -> int:
        after = int(locate_values(self._buffer, at, self._end, bitmap, self._matrix, places))
        if after < 0:
            raise PartialRowError(self._at, fault=after)
        return after

    def _after_image(self, at: int, bitmap: int) -> tuple[bytes, bytes, tuple[int, ...], int]:
        """Read an after-image: the columns it carries, its bytes, columns it leaves unknown, and the offset after."""
        options = self._data[at]
        at += 1
        flags = 0
        if options == _PARTIAL_JSON:
            size = (len(self._json) + 7) // 8
            flags = int.from_bytes(self._data[at : at + size], "little")
            at += size
        start = at
        at = self._locate(at, bitmap, self._after)
        columns = len(self._table.columns)
        carried = bytes(self._data[bitmap : bitmap + (columns + 7) // 8])
        if flags >> len(self._json):
            raise PartialRowError(self._at, problem="marks more JSON columns than the table has")
        partial = [c for n, c in enumerate(self._json) if flags >> n & 1 and self._after[c, 0] >= 0]
        if not partial:
            return carried, bytes(self._data[start:at]), (), at
        documents: dict[int, bytes] = {}
        present = int.from_bytes(carried, "little")
        missing = []
        for c in partial:
            document, known = self._document(c)
            if document is not None:
                documents[c] = document
                continue
            present &= ~(1 << c)
            if not known:
                missing.append(c)
        return present.to_bytes(len(carried), "little"), self._image(present, documents), tuple(missing), at

    def _document(self, c: int) -> tuple[bytes | None, bool]:
        """Return a column's document after the update, None where the log does not hold it, and whether that is known.

        Without differences it is the one before, so that leaving it out says all.
        """
        width = self._table.columns[c].meta
        begin, end = self._after[c].tolist()
        diffs = bytes(self._data[begin + width : end])
        old, old_end = self._before[c].tolist()
        if old == ABSENT:
            return None, not diffs
        if old == NULL:
            raise PartialRowError(self._at, c, problem="logs differences to a document that is NULL")
        try:
            return apply_diffs(bytes(self._data[old + width : old_end]), diffs), True
        except ValueError as error:
            raise PartialRowError(self._at, c, problem=f"logs differences that do not fit: {error}") from error

    def _image(self, present: int, documents: Mapping[int, bytes]) -> bytes:
        nulls = seen = 0
        parts = []
        for c in range(len(self._table.columns)):
            if not present >> c & 1:
                continue
            begin, end = self._after[c].tolist()
            if c in documents:
                parts.append(len(documents[c]).to_bytes(self._table.columns[c].meta, "little") + documents[c])
            elif begin == NULL:
                nulls |= 1 << seen
            else:
                parts.append(bytes(self._data[begin:end]))
            seen += 1
        return nulls.to_bytes((seen + 7) // 8, "little") + b"".join(parts)
