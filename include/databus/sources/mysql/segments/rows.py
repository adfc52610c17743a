"""Rows of one segment in log order across tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.decode import DecodedEvents, decode_events
from databus.binlog.decoding.piecewise import decode_pieces
from databus.binlog.decoding.schema_ids import SchemaIds
from databus.binlog.decoding.table_batch import TableBatch, TableEvent, Transactions
from databus.binlog.log.expansion import plain_bytes
from databus.binlog.log.mapped import release
from databus.binlog.log.transactions.xa import PreparedRows
from databus.binlog.schema_history.definitions import PinnedDefinitions
from databus.binlog.segments.segment import TARGET_BYTES
from databus.rows.emit import emit, emit_events
from databus.rows.image_form import ImageForm
from databus.rows.slices import sliced
from databus.sources.mysql.row_filters import RowFilters
from databus.sources.mysql.segments.large_values import RowLargeValues
from databus.sources.mysql.segments.split import SegmentAddress, SegmentSplit, check_count

_WHOLE_BYTES = TARGET_BYTES + TARGET_BYTES // 4
"""A segment up to this size, decompressed, is decoded in one pass; a larger one, of a large transaction, in pieces."""
_ORDER = ("position", "ordinal", "part")


def segment_rows(
    data: npt.NDArray[np.uint8], segment: SegmentAddress, split: SegmentSplit, form: ImageForm
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one segment, their images in `form`.

    Raises:
        DecodeError: damaged or unsupported bytes, or other rows than were planned.
    """
    counted = _Counted(segment)
    claims = RowLargeValues(split.claims) if split.claims is not None else None
    emission = Emission(split.server, form, counted.add, split.filters, claims, split.prefix)
    if split.decoder == "library":
        from databus.sources.mysql.segments.library_decoder import LibraryEvents

        library = LibraryEvents(data, segment, split.capture, SchemaIds(split.tables), _definitions(segment, split))
        yield from library.rows(emission)
    else:
        yield from _numba_rows(data, segment, split, emission)
    check_count(segment, counted.changes)


@dataclass(frozen=True)
class Emission:
    """How decoded changes become rows.

    Attributes:
        server: part of the event ids of rows without GTID.
        form: how row images are written.
        count: told the row changes of each batch.
        filters: which rows are wanted; the others become rows of op "f".
        claims: takes values out of rows that are too large; None to leave them.
        prefix: what all event ids begin with.
    """

    server: str
    form: ImageForm
    count: Callable[[int], None]
    filters: RowFilters
    claims: RowLargeValues | None = None
    prefix: str = ""

    def rows(self, batch: TableBatch, log: Transactions) -> Iterator[pa.RecordBatch]:
        """Count and emit a batch of row changes."""
        self.count(len(batch))
        wanted = self.filters.narrow(batch)
        if self.claims is not None:
            wanted = self.claims.applied(wanted)
        for piece in sliced(wanted, self.form.changes_at_once):
            yield from emit(piece, log, self.server, self.form, self.prefix)

    def events(self, events: Sequence[TableEvent], log: Transactions) -> list[pa.RecordBatch]:
        """Emit statements."""
        return emit_events(events, log, self.server, self.form, self.prefix)


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
    definitions = _definitions(segment, split)
    most = None if split.claims is None else split.claims.over_bytes
    if len(data) > _WHOLE_BYTES or plain_bytes(data) > _WHOLE_BYTES:
        for piece in decode_pieces(
            data,
            file=segment.file,
            base_pos=segment.start_pos,
            tables=split.capture,
            schema_ids=ids,
            definitions=definitions,
            forget=lambda: release(data),
            commit=segment.commits,
            most_bytes=most,
        ):
            yield from _in_order(piece, emission)
        return
    # Segments are cut at XA COMMITs, so a commit's rows never lie in its own segment.
    prepared: PreparedRows = segment.commits or "elsewhere"
    decoded = decode_events(
        data,
        file=segment.file,
        base_pos=segment.start_pos,
        tables=split.capture,
        schema_ids=ids,
        definitions=definitions,
        prepared=prepared,
        most_bytes=most,
    )
    yield from _in_order(decoded, emission)


def _in_order(decoded: DecodedEvents, emission: Emission) -> Iterator[pa.RecordBatch]:
    if not decoded.mixed:
        yield from _emitted(decoded, decoded, emission)
    else:
        yield from in_log_order(list(_emitted(decoded, decoded, emission)))


def _definitions(segment: SegmentAddress, split: SegmentSplit) -> PinnedDefinitions | None:
    found = split.definitions if segment.definitions is None else segment.definitions
    return PinnedDefinitions(found) if found else None


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
