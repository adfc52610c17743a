"""Rows of one segment in log order across tables."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decode import DecodedEvents, decode_events
from databus.binlog.schema_history.definitions import PinnedDefinitions
from databus.binlog.schema_ids import SchemaIds
from databus.binlog.segments import TARGET_BYTES
from databus.binlog.table_batch import TableBatch, TableEvent, Transactions
from databus.binlog.xa import PreparedRows
from databus.core.errors import DecodeError
from databus.rows.emit import emit, emit_events
from databus.rows.image_form import ImageForm
from databus.rows.slices import sliced
from databus.sources.segment_split import SegmentAddress, SegmentSplit, check_count

_WHOLE_BYTES = 4 * TARGET_BYTES
"""A segment up to this size, decompressed, is decoded in one pass and sorted; a larger one is merged table by table."""
_ORDER = ("position", "ordinal", "part")


def segment_rows(
    data: npt.NDArray[np.uint8], segment: SegmentAddress, split: SegmentSplit, form: ImageForm
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one segment, their images in `form`.

    Raises:
        DecodeError: damaged or unsupported bytes, or other rows than were planned.
    """
    counted = _Counted(segment)
    if split.decoder == "library":
        from databus.sources.library_decoder import LibraryEvents

        library = LibraryEvents(data, segment, split.capture, SchemaIds(split.tables), _definitions(split))
        yield from library.rows(Emission(split.server, form, counted.add))
    else:
        yield from _numba_rows(data, segment, split, Emission(split.server, form, counted.add))
    check_count(segment, counted.changes)


@dataclass(frozen=True)
class Emission:
    """How decoded changes become rows.

    Attributes:
        server: first part of every event id.
        form: how row images are written.
        count: told the row changes of each batch.
    """

    server: str
    form: ImageForm
    count: Callable[[int], None]

    def rows(self, batch: TableBatch, log: Transactions) -> Iterator[pa.RecordBatch]:
        """Count and emit a batch of row changes."""
        self.count(len(batch))
        for piece in sliced(batch, self.form.changes_at_once):
            yield from emit(piece, log, self.server, self.form)

    def events(self, events: Sequence[TableEvent], log: Transactions) -> list[pa.RecordBatch]:
        """Emit statements."""
        return emit_events(events, log, self.server, self.form)


class _Counted:
    """Counts row changes on their way."""

    def __init__(self, segment: SegmentAddress):
        self.segment = segment
        self.changes = 0

    def add(self, changes: int) -> None:
        """Take note of row changes."""
        self.changes += changes


def _numba_rows(
    data: npt.NDArray[np.uint8], segment: SegmentAddress, split: SegmentSplit, emission: Emission
) -> Iterator[pa.RecordBatch]:
    ids = SchemaIds(split.tables)
    decoded = _decode(data, segment, split.capture, ids, split)
    names = sorted({(t.database, t.table) for t in decoded.table_maps if split.capture(t.database, t.table)})
    if decoded.plain_bytes <= _WHOLE_BYTES or len(names) <= 1:
        if len(names) <= 1 and not _has_table_events(decoded):
            yield from _emitted(decoded, decoded, emission)
        else:
            yield from in_log_order(list(_emitted(decoded, decoded, emission)))
        return
    streams = [_emitted(decoded, _events_of(decoded), emission)]
    for database, table in names:
        alone = decoded.only(_Only(database, table))
        streams.append(_emitted(alone, (x for x in alone if isinstance(x, TableBatch)), emission))
    yield from _merged(streams)


class _Only:
    """Filter for one table."""

    def __init__(self, database: str, table: str):
        self._name = (database, table)

    def __call__(self, database: str, table: str) -> bool:
        return (database, table) == self._name


def _decode(
    data: npt.NDArray[np.uint8],
    segment: SegmentAddress,
    tables: Callable[[str, str], bool],
    ids: SchemaIds,
    split: SegmentSplit,
) -> DecodedEvents:
    # Segments are cut at XA COMMITs, so a commit's rows never lie in its own segment.
    prepared: PreparedRows = segment.commits or "elsewhere"
    return decode_events(
        data,
        file=segment.file,
        base_pos=segment.start_pos,
        tables=tables,
        schema_ids=ids,
        definitions=_definitions(split),
        prepared=prepared,
    )


def _definitions(split: SegmentSplit) -> PinnedDefinitions | None:
    return PinnedDefinitions(split.definitions) if split.definitions else None


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
    emission: Emission,
) -> Iterator[pa.RecordBatch]:
    events: list[TableEvent] = []
    for item in items:
        if isinstance(item, TableEvent):
            events.append(item)
            continue
        yield from emission.events(events, decoded.transactions)
        events = []
        yield from emission.rows(item, decoded.transactions)
    yield from emission.events(events, decoded.transactions)


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


def _merged(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge streams that are each in log order, holding one batch of each.

    All rows up to the smallest last row of the batches at hand can go; then the stream of that batch gives its next
    one.
    """
    heads = [
        (_last(batch), number, batch)
        for number, stream in enumerate(streams)
        if (batch := next(stream, None)) is not None
    ]
    heapq.heapify(heads)
    while heads:
        bound, number, batch = heads[0]
        ready: list[pa.RecordBatch] = [batch]
        rest = []
        for last, other, waiting in heads[1:]:
            here = _rows_up_to(waiting, bound)
            ready.append(waiting.slice(0, here))
            rest.append((last, other, waiting.slice(here)))
        yield from in_log_order([b for b in ready if b.num_rows])
        following = next(streams[number], None)
        if following is not None:
            if _key(following, 0) <= bound:
                raise DecodeError(
                    f"rows of one table came out of order at {following['file'][0]}:{following['position'][0]}"
                )
            rest.append((_last(following), number, following))
        heads = rest
        heapq.heapify(heads)


def _key(batch: pa.RecordBatch, row: int) -> tuple[int, int, int]:
    position, ordinal, part = (batch[name][row].as_py() for name in _ORDER)
    return position, ordinal, part


def _last(batch: pa.RecordBatch) -> tuple[int, int, int]:
    return _key(batch, batch.num_rows - 1)


def _rows_up_to(batch: pa.RecordBatch, bound: tuple[int, int, int]) -> int:
    low, high = 0, batch.num_rows
    while low < high:
        middle = (low + high) // 2
        if _key(batch, middle) <= bound:
            low = middle + 1
        else:
            high = middle
    return low
