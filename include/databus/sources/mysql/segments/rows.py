"""Rows of one segment in log order across tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.decode import DecodedEvents, decode_events
from databus.binlog.decoding.piecewise import decode_pieces
from databus.binlog.decoding.table_batch import SchemaIds, TableBatch
from databus.binlog.log.expansion import plain_bytes
from databus.binlog.log.mapped import release
from databus.binlog.log.transactions.xa import PreparedRows
from databus.binlog.schema_history.definitions import PinnedDefinitions
from databus.binlog.segments.segment import TARGET_BYTES
from databus.rows.image_form import ImageForm
from databus.sources.mysql.segments.address import SegmentAddress, check_count
from databus.sources.mysql.segments.emission import Emission, emitted, in_log_order
from databus.sources.mysql.segments.large_values import RowLargeValues
from databus.sources.mysql.segments.split import SegmentSplit

_WHOLE_BYTES = TARGET_BYTES + TARGET_BYTES // 4
"""A segment up to this size, decompressed, is decoded in one pass; a larger one, of a large transaction, in pieces."""


def segment_rows(
    data: npt.NDArray[np.uint8], segment: SegmentAddress, split: SegmentSplit, form: ImageForm
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one segment, their images in `form`.

    Raises:
        DecodeError: damaged or unsupported bytes, or other rows than were planned.
    """
    counted = _CountedChanges(segment)
    large_values = RowLargeValues(split.large_values) if split.large_values is not None else None
    emission = Emission(split.server, form, counted.add, split.filters, large_values, split.prefix)
    if split.decoder == "library":
        from databus.sources.mysql.segments.library_decoder import LibraryEvents

        library = LibraryEvents(data, segment, split.capture, SchemaIds(split.tables), _definitions(segment, split))
        yield from library.rows(emission)
    else:
        yield from _numba_rows(data, segment, split, emission)
    check_count(segment, counted.changes)


class _CountedChanges:
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
    most = None if split.large_values is None else split.large_values.over_bytes
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
        yield from emitted(decoded, decoded, emission)
    else:
        yield from in_log_order(list(emitted(decoded, decoded, emission)))


def _definitions(segment: SegmentAddress, split: SegmentSplit) -> PinnedDefinitions | None:
    found = split.definitions if segment.definitions is None else segment.definitions
    return PinnedDefinitions(found) if found else None


def sliced(batch: TableBatch, changes: int) -> Iterator[TableBatch]:
    """Yield the batch in pieces of at most so many changes, in its order; images that no change names are left out."""
    if len(batch) <= changes:
        yield batch
        return
    for start in range(0, len(batch), changes):
        here = slice(start, start + changes)
        before, after = batch.before_row[here], batch.after_row[here]
        named = np.concatenate([before[before >= 0], after[after >= 0]])
        low, high = (int(named.min()), int(named.max()) + 1) if len(named) else (0, 0)
        yield replace(
            batch,
            images=batch.images.slice(low, high - low),
            op=batch.op[here],
            before_row=_moved(before, low),
            after_row=_moved(after, low),
            transaction=batch.transaction[here],
            ordinal=batch.ordinal[here],
            presence=batch.presence[low:high],
            exceptions={
                column: {row - low: value for row, value in found.items() if low <= row < high}
                for column, found in batch.exceptions.items()
            },
            partial=_moved_rows(batch.partial, low, high),
            unjudged=_moved_rows(batch.unjudged, low, high),
        )


def _moved_rows(rows: Mapping[int, frozenset[int]], low: int, high: int) -> dict[int, frozenset[int]]:
    return {column: frozenset(row - low for row in found if low <= row < high) for column, found in rows.items()}


def _moved(rows: npt.NDArray[np.int32], by: int) -> npt.NDArray[np.int32]:
    return np.where(rows >= 0, rows - np.int32(by), rows).astype(np.int32)
