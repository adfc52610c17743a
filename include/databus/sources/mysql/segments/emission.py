"""Emission of decoded changes as rows, in log order across tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.decode import DecodedEvents
from databus.binlog.decoding.table_batch import TableBatch, TableEvent, Transactions
from databus.rows.emit import emit, emit_events
from databus.rows.image_form import ImageForm
from databus.sources.mysql.row_filters import RowFilters
from databus.sources.mysql.segments.large_values import RowLargeValues

_ORDER = ("place", "ordinal", "part")


@dataclass(frozen=True)
class Emission:
    """Emission of decoded changes as rows.

    Attributes:
        server: part of the event ids of rows without GTID.
        form: how row images are written.
        count: called with the row changes of each batch.
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
        """Count and emit a batch of row changes; of a table that the form leaves out they are only counted."""
        self.count(len(batch))
        if not self.form.takes(batch.schema.schema_id):
            return
        wanted = self.filters.narrow(batch)
        if self.claims is not None:
            wanted = self.claims.applied(wanted)
        for piece in sliced(wanted, self.form.changes_at_once):
            yield from emit(piece, log, self.server, self.form, self.prefix)

    def events(self, events: Sequence[TableEvent], log: Transactions) -> list[pa.RecordBatch]:
        """Emit statements."""
        return emit_events(events, log, self.server, self.form, self.prefix)


def emitted(
    decoded: DecodedEvents,
    items: Iterator[TableEvent] | DecodedEvents | Iterator[TableBatch],
    emission: Emission,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of decoded batches and statements, in the order of the items."""
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
