"""Queries for the rows that checks hold back: which batches have some, and which rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import sqlalchemy as sa

from databus.core.batches.receipts import CHECK
from databus.core.batches.report import BatchPlan, CheckedBatch
from databus.core.positions.offsets import OffsetRange, offset_from_json
from databus.records import tables as t
from databus.records.ledger.pages import newest_generation
from databus.records.store import RecordStore

_CHUNK = 10_000
"""Batches per statement: SQLite takes 32,766 parameters."""


class CheckedBatches:
    """The queries on a records store; they raise RecordingError when the database refuses.

    Args:
        store: the records store; the caller closes it.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    def after(self, flow: str, number: int) -> list[CheckedBatch]:
        """Return the batches behind a number of which a check holds rows; see `Recorder.checked_batches`."""
        q = t.quarantine.c
        held = (q.flow == flow) & (q.stage == CHECK) & (q.batch > number)
        with self._store.transaction() as connection:
            rows = connection.execute(sa.select(q.batch, q.plan_hash).where(held).distinct())
            plans = sorted((batch, plan_hash or "") for batch, plan_hash in rows)
            told: dict[BatchPlan, OffsetRange] = {}
            paged = set[BatchPlan]()
            for numbers in _chunks({batch for batch, _ in plans}):
                told.update(_reported(connection, flow, numbers))
                paged.update(_paged(connection, flow, numbers))
        return [CheckedBatch(plan, told.get(plan), plan in paged) for plan in plans]

    def rows_of(self, flow: str, batches: Collection[BatchPlan]) -> frozenset[str]:
        """Return the event ids of rows that a check held in some batches."""
        q, found = t.quarantine.c, set[str]()
        with self._store.transaction() as connection:
            for numbers in _chunks({batch for batch, _ in batches}):
                mine = (q.flow == flow) & (q.stage == CHECK) & q.batch.in_(numbers)
                rows = connection.execute(sa.select(q.event_id, q.batch, q.plan_hash).where(mine))
                for event_id, batch, plan_hash in rows:
                    if (batch, plan_hash or "") in batches:
                        found.add(event_id)
        return frozenset(found)


def _reported(connection: sa.Connection, flow: str, numbers: Sequence[int]) -> Iterator[tuple[BatchPlan, OffsetRange]]:
    """Yield the ranges of reports by plan and, for rows whose plan was not kept, the newest by number alone."""
    b = t.batches.c
    told = sa.select(b.batch, b.plan_hash, b.range_start, b.range_end).where((b.flow == flow) & b.batch.in_(numbers))
    for batch, plan_hash, start, end in connection.execute(told.order_by(b.id)):
        moved = OffsetRange(offset_from_json(start), offset_from_json(end))
        yield (batch, plan_hash), moved
        yield (batch, ""), moved


def _paged(connection: sa.Connection, flow: str, numbers: Sequence[int]) -> Iterator[BatchPlan]:
    """Yield the plans whose commits have a page; pages of batches that hold rows back are never merged."""
    c = t.ledger.c
    mine = (c.flow == flow) & (c.generation == newest_generation(connection, flow)) & (c.action == "commit")
    wanted = sa.select(c.batch, c.entry["plan_hash"].as_string()).where(mine & c.batch.in_(numbers))
    for batch, plan_hash in connection.execute(wanted):
        yield batch, plan_hash or ""


def _chunks(numbers: Collection[int]) -> Iterator[Sequence[int]]:
    ordered = sorted(numbers)
    for first in range(0, len(ordered), _CHUNK):
        yield ordered[first : first + _CHUNK]
