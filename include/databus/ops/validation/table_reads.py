"""Reads of the source's tables as they stand, all of them or some keys, and what a sink should hold of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from databus.core.batching import Batching
from databus.core.errors.source import SnapshotNotYetVisibleError, SnapshotServerChangedError, SourceError
from databus.core.positions.offsets import Offset
from databus.core.protocols.optional_source import ComparableSource
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.core.tables.schemas import TableSchema
from databus.ops.validation.expected_rows import ExpectedRows, FlowPath

log = logging.getLogger(__name__)

_REDEFINED = ("(MySQL error 1412)", "(MySQL error 1054)", "(MySQL error 1205)")
"""Errors of a view that is older than a table's definition, of columns gone meanwhile, of a table locked by somebody:
the same chunk is read once more."""

_TRIES = 10


@dataclass
class TableReads:
    """Reads of one flow's tables for one sink, and what they cost the source.

    Attributes:
        source: the open source.
        path: the flow's way to the sink.
        batching: bounds of what is read at once.
        rows: rows read so far.
        seconds: seconds in which the source was read so far.
        schemas: `database.table` → the table as it was last read.
        end: end of the log behind the last read; None before the first.
    """

    source: ComparableSource
    path: FlowPath
    batching: Batching
    rows: int = 0
    seconds: float = 0.0
    schemas: dict[str, TableSchema] = field(default_factory=dict)
    end: Offset | None = None

    def read(self, covers: Offset, conditions: Mapping[str, str]) -> Iterator[ExpectedRows]:
        """Yield what the sink should hold of tables, read in views that show at least a place of the log.

        Args:
            covers: the place.
            conditions: `database.table` → condition in SQL that its rows must meet; "" for all.

        Raises:
            SourceError: a table cannot be read.
        """
        tables = tuple(TableProgress(name, where=where) for name, where in conditions.items())
        snapshot, tried = Snapshot(1, "request", datetime.now(UTC), tables), 0
        self.end = covers
        while snapshot.current is not None:
            began = time.monotonic()
            try:
                planned, snapshot, self.end = self.source.read_chunks(covers, snapshot, self.batching)
            except SourceError as error:
                passing = isinstance(error, (SnapshotNotYetVisibleError, SnapshotServerChangedError))
                tried += 1
                if tried == _TRIES or not (passing or any(number in error.message for number in _REDEFINED)):
                    raise
                log.info("a chunk is read once more: %s", error.message)
                time.sleep(0.5)
                continue
            finally:
                self.seconds += time.monotonic() - began
            tried = 0
            self.rows += sum(chunk.rows for chunk in planned.chunks)
            self.schemas.update({schema.full_name: schema for schema in planned.tables})
            try:
                yield from self.path.expected(planned)
            finally:
                self.source.drop_chunks(planned)

    def keys_of(self, covers: Offset, tables: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return `database.table` → columns of its primary key, of those of the tables that hold rows."""
        few = replace(self, batching=Batching(max_rows=1), schemas={})  # goes on counting
        for name in tables:
            for _ in few.read(covers, {name: ""}):
                break
        self.rows, self.seconds = few.rows, few.seconds
        return {name: schema.primary_key for name, schema in few.schemas.items()}
