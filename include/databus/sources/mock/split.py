"""Split of a mock source: some of its transactions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from databus.core.errors.source import SourceUnavailableError
from databus.sources.mock.faults import SplitFault
from databus.sources.mock.log import MockLog, log_of_options
from databus.sources.split_rows import SplitRows

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.image_form import ImageForm

SERVER = "mock"
_BATCH_ROWS = 20_000
_BATCH_BYTES = 32 << 20


@dataclass(frozen=True)
class MockSplit(SplitRows):
    """Transactions first … last, both inclusive, of a mock source.

    Attributes:
        options: the spec as JSON.
        first: number of the first transaction.
        last: number of the last transaction.
        planned: first and last transaction of the plan, which numbers the schemas; None for those of the split.
        faults: what it meets.
    """

    options: dict[str, Any]
    first: int
    last: int
    planned: tuple[int, int] | None = None
    faults: tuple[SplitFault, ...] = ()

    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        log = log_of_options(self.options)
        spec = log.spec
        planned = log.planned(*(self.planned or (self.first, self.last)))
        ids = {(each.table, each.version): each.schema.schema_id for each in planned}
        most = max(1, min(_BATCH_ROWS, _BATCH_BYTES // spec.row_bytes) // spec.rows_per_transaction)
        for begin, end in log.stretches(self.first, self.last):
            for start in range(begin, end + 1, most):
                stop = min(end, start + most - 1)
                for fault in self.faults:
                    if start <= fault.number <= stop:
                        _meet(fault)
                yield from _read(log, start, stop, ids, form)


def _meet(fault: SplitFault) -> None:
    if fault.lasts_s is None:
        raise SourceUnavailableError(
            f"mock: a read fails at {fault.said}, by the source's script",
            hint="Run again, or leave faults= out: the flow goes on where it stands.",
        )
    time.sleep(fault.lasts_s)


def _read(
    log: MockLog, start: int, stop: int, ids: dict[tuple[int, int], int], form: ImageForm
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of transactions, none or all of them statements, in order."""
    import pyarrow as pa

    from databus.binlog.decoding.table_batch import TableEvent
    from databus.rows.emit import emit, emit_events

    transactions = log.transactions(start, stop)
    stated = log.statement_at(start)
    if stated is not None:
        database, _, name = stated.table.partition(".")
        yield from emit_events([TableEvent("m", database, name, stated.statement, 0, 0)], transactions, SERVER, form)
        return
    numbers = np.arange(log.rows_until(start - 1), log.rows_until(stop), dtype=np.int64)
    per = log.spec.rows_per_transaction
    of, ordinal = np.divmod(numbers, per)
    of = (of - of[0]).astype(np.int32)
    tables, nth = log.draw.at(numbers)
    pieces: list[pa.RecordBatch] = []
    for place, table in enumerate(log.tables):
        mine: Any = slice(None) if len(log.tables) == 1 else np.flatnonzero(tables == place)
        version = log.version_at(place, start)
        if len(of[mine]) and form.takes(ids[place, version]):
            batch = table.batch(version, ids[place, version], nth[mine], of[mine], ordinal[mine])
            pieces.extend(emit(batch, transactions, SERVER, form))
    if len(pieces) == 1:
        yield pieces[0]
    elif pieces:
        merged = pa.Table.from_batches(pieces)
        order = np.lexsort([merged[c].to_numpy() for c in ("part", "ordinal", "place")])
        yield from merged.take(pa.array(order)).combine_chunks().to_batches()
