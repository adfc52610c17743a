"""Read segments as rows: decode, encode, and put the tables back into log order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from databus.binlog.log.capture import TableCapture
from databus.binlog.schema_history.definitions import PinnedDefinition
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.row_filters import ALL_ROWS, RowFilters
from databus.sources.mysql.segments.address import LargeValueRules, SegmentAddress
from databus.sources.split_rows import SplitRows

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.image_form import ImageForm


@dataclass(frozen=True)
class SegmentSplit(SplitRows):
    """Some segments in log order; picklable, without credentials.

    Attributes:
        segments: what to read.
        capture: tables whose rows are wanted.
        tables: schemas of the plan.
        server: part of the event ids of rows without GTID.
        decoder: "numba" or "library".
        definitions: what TABLE_MAP events leave open, as planned.
        filters: which of their rows are wanted; the others are read as rows of op "f".
        large_values: when values of a row leave it for the segment store; None for never.
        prefix: what all event ids begin with (`core.trace.log_prefix`).
    """

    segments: tuple[SegmentAddress, ...]
    capture: TableCapture
    tables: tuple[TableSchema, ...]
    server: str
    decoder: Literal["numba", "library"] = "numba"
    definitions: tuple[PinnedDefinition, ...] = ()
    filters: RowFilters = ALL_ROWS
    large_values: LargeValueRules | None = None
    prefix: str = ""

    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        from databus.binlog.segments.store import load_segment
        from databus.sources.mysql.segments.rows import segment_rows

        for segment in self.segments:
            yield from segment_rows(load_segment(segment.uri), segment, self, form)
