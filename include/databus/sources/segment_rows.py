"""Rows of one segment in log order across tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decode import DecodedEvents, decode_events
from databus.binlog.piecewise import decode_pieces
from databus.binlog.schema_ids import SchemaIds
from databus.binlog.segment_store import forget
from databus.binlog.segments import TARGET_BYTES
from databus.binlog.table_batch import TableBatch, TableEvent
from databus.rows.emit import emit, emit_events
from databus.sources.segment_split import SegmentAddress, SegmentSplit, check_count

if TYPE_CHECKING:
    from collections.abc import Callable

_WHOLE_BYTES = TARGET_BYTES + TARGET_BYTES // 4
"""A segment up to this size is decoded in one pass; a larger one, which holds a large transaction, piece by piece."""
_ORDER = ("position", "ordinal", "part")


def segment_rows(data: npt.NDArray[np.uint8], segment: SegmentAddress, split: SegmentSplit) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one segment.

    Raises:
        DecodeError: damaged or unsupported bytes, or other rows than were planned.
    """
    counted = _Counted(segment)
    if split.decoder == "library":
        from databus.sources.library_decoder import LibraryEvents

        library = LibraryEvents(data, segment.file, segment.start_pos, split.capture, SchemaIds(split.tables))
        yield from library.rows(split, counted.add)
    else:
        yield from _numba_rows(data, segment, split, counted)
    check_count(segment, counted.changes)


class _Counted:
    """Counts row changes on their way."""

    def __init__(self, segment: SegmentAddress):
        self.segment = segment
        self.changes = 0

    def add(self, changes: int) -> None:
        """Take note of row changes."""
        self.changes += changes


def _numba_rows(
    data: npt.NDArray[np.uint8], segment: SegmentAddress, split: SegmentSplit, counted: _Counted
) -> Iterator[pa.RecordBatch]:
    ids = SchemaIds(split.tables)
    if len(data) > _WHOLE_BYTES:
        for piece in decode_pieces(
            data,
            file=segment.file,
            base_pos=segment.start_pos,
            tables=split.capture,
            schema_ids=ids,
            forget=lambda: forget(data),
        ):
            yield from _in_order(piece, split, counted)
        return
    decoded = decode_events(data, file=segment.file, base_pos=segment.start_pos, tables=split.capture, schema_ids=ids)
    yield from _in_order(decoded, split, counted)


def _in_order(decoded: DecodedEvents, split: SegmentSplit, counted: _Counted) -> Iterator[pa.RecordBatch]:
    names = sorted({(t.database, t.table) for t in decoded.table_maps if split.capture(t.database, t.table)})
    if len(names) <= 1 and not _has_table_events(decoded):
        yield from _emitted(decoded, decoded, split, counted.add)
    else:
        yield from in_log_order(list(_emitted(decoded, decoded, split, counted.add)))


def _events_of(decoded: DecodedEvents) -> Iterator[TableEvent]:
    for item in decoded:
        if not isinstance(item, TableEvent):
            return  # table events come first
        yield item


def _has_table_events(decoded: DecodedEvents) -> bool:
    return next(_events_of(decoded), None) is not None


def _emitted(
    decoded: DecodedEvents,
    items: Iterator[TableEvent] | DecodedEvents | Iterator[TableBatch],
    split: SegmentSplit,
    count: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    events: list[TableEvent] = []
    for item in items:
        if isinstance(item, TableEvent):
            events.append(item)
            continue
        yield from emit_events(events, decoded.transactions, split.server)
        events = []
        count(len(item))
        yield from emit(split.filters.narrow(item), decoded.transactions, split.server)
    yield from emit_events(events, decoded.transactions, split.server)


def in_log_order(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the rows of batches of one log file, ordered by position, ordinal and part."""
    if len(batches) <= 1:
        return list(batches)
    table = pa.Table.from_batches(batches)
    part, ordinal, position = (table[name].to_numpy() for name in reversed(_ORDER))
    order = np.lexsort((part, ordinal, position))
    if (order[1:] > order[:-1]).all():
        return list(batches)
    ordered: list[pa.RecordBatch] = []
    step = max(1, len(table) // len(batches))
    for start in range(0, len(table), step):
        ordered.extend(table.take(pa.array(order[start : start + step])).combine_chunks().to_batches())
    return ordered
