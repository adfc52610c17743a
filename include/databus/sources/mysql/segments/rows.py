"""Rows of one segment in log order across tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.decode import DecodedEvents, TableFilter, decode_events
from databus.binlog.decoding.piecewise import decode_pieces
from databus.binlog.decoding.table_batch import SchemaIds
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
    most = None if split.large_values is None else split.large_values.over_bytes
    definitions = _definitions(segment, split)
    for decoded in decoded_segment(data, segment, split.capture, SchemaIds(split.tables), definitions, most):
        yield from _in_order(decoded, emission)


def decoded_segment(
    data: npt.NDArray[np.uint8],
    segment: SegmentAddress,
    tables: TableFilter,
    ids: SchemaIds,
    definitions: PinnedDefinitions | None,
    most_bytes: int | None,
) -> Iterator[DecodedEvents]:
    """Yield the contents of a segment: at once, or piece by piece where it is large.

    Args:
        data: its bytes.
        segment: where they are of.
        tables: which tables' rows are wanted.
        ids: numbers for schemas.
        definitions: what its TABLE_MAP events leave open.
        most_bytes: a larger value comes out as a `LargeValue`; None to read all.

    Raises:
        DecodeError: damaged or unsupported bytes; damage of rows shows while iterating.
    """
    if len(data) > _WHOLE_BYTES or plain_bytes(data) > _WHOLE_BYTES:
        yield from decode_pieces(
            data,
            file=segment.file,
            base_pos=segment.start_pos,
            tables=tables,
            schema_ids=ids,
            definitions=definitions,
            forget=lambda: release(data),
            commit=segment.commits,
            most_bytes=most_bytes,
        )
        return
    # Segments are cut at XA COMMITs, so a commit's rows never lie in its own segment.
    prepared: PreparedRows = segment.commits or "elsewhere"
    yield decode_events(
        data,
        file=segment.file,
        base_pos=segment.start_pos,
        tables=tables,
        schema_ids=ids,
        definitions=definitions,
        prepared=prepared,
        most_bytes=most_bytes,
    )


def _in_order(decoded: DecodedEvents, emission: Emission) -> Iterator[pa.RecordBatch]:
    if not decoded.mixed:
        yield from emitted(decoded, decoded, emission)
    else:
        yield from in_log_order(list(emitted(decoded, decoded, emission)))


def _definitions(segment: SegmentAddress, split: SegmentSplit) -> PinnedDefinitions | None:
    found = split.definitions if segment.definitions is None else segment.definitions
    return PinnedDefinitions(found) if found else None
