"""Reading what batches did: batches of a run, the newest of a flow, rows held back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from databus.core.batches.receipts import RejectedRow
from databus.core.state.backfill import pieces_moved_by
from databus.records import tables as t
from databus.records.batch_record import BatchRecord, batch_record
from databus.records.store import RecordStore


def recorded_under(column: sa.ColumnElement[str], name: str) -> sa.ColumnElement[bool]:
    """Return the condition that a row belongs to a name.

    Args:
        column: names that rows are kept under.
        name: a flow, or a backfill DAG, to which the pieces of its flow belong as well.
    """
    beginning = pieces_moved_by(name)
    own: sa.ColumnElement[bool] = column == name
    if beginning is None:
        return own
    # LIKE would take the underscores of a name for any character, and on SQLite small letters for capitals.
    begins: sa.ColumnElement[Any] = sa.func.substr(column, 1, len(beginning))
    return own | (begins == beginning)


class Reports:
    """Queries on a records store.

    All methods raise RecordingError when the database refuses or cannot be reached.

    Args:
        store: the records store; the caller closes it.
    """

    def __init__(self, store: RecordStore) -> None:
        self.store = store

    def batches(self, flow: str, run_id: str) -> list[BatchRecord]:
        """Return the batches of a run in the order of their commits; none for an idle or unknown run.

        Args:
            flow: flow name; of a backfill's run the name of its DAG, whose batches are those of its pieces.
            run_id: the run.
        """
        return self._select(recorded_under(t.batches.c.flow, flow) & (t.runs.c.run_id == run_id))

    def run_urls(self, flow: str, run_id: str) -> set[str]:
        """Return the addresses under which the batches of a run are recorded; arguments as of `batches`."""
        joined = sa.select(t.runs.c.run_url).join(t.batches, t.batches.c.run == t.runs.c.id).distinct()
        wanted = joined.where(recorded_under(t.batches.c.flow, flow) & (t.runs.c.run_id == run_id))
        with self.store.transaction() as connection:
            return set(connection.execute(wanted).scalars())

    def newest(self, flow: str, last: int = 1) -> list[BatchRecord]:
        """Return the newest batches of a flow, newest first."""
        found = sa.select(t.batches.c.id).where(t.batches.c.flow == flow).order_by(t.batches.c.id.desc()).limit(last)
        return self._select(t.batches.c.id.in_(found))[::-1]

    def quarantined(self, flow: str, limit: int = 1000) -> list[RejectedRow]:
        """Return rows held back, those last held back first."""
        q = t.quarantine.c
        wanted = sa.select(q.event_id, q.table_name, q.key, q.cause, q.stage, q.position, q.payload)
        ordered = wanted.where(q.flow == flow).order_by(q.last_held_at.desc(), q.id.desc()).limit(limit)
        with self.store.transaction() as connection:
            return [RejectedRow(*row) for row in connection.execute(ordered)]

    def quality(self, flow: str, run_id: str) -> dict[str, Any] | None:
        """Return the Great Expectations result of a run as JSON, None when it has not been evaluated."""
        q = t.quality_results.c
        with self.store.transaction() as connection:
            found: dict[str, Any] | None = connection.execute(
                sa.select(q.result).where((q.flow == flow) & (q.run_id == run_id))
            ).scalar_one_or_none()
        return found

    def _select(self, condition: sa.ColumnElement[bool]) -> list[BatchRecord]:
        joined = sa.select(t.batches, t.runs.c.run_id, t.runs.c.run_url).join(t.runs, t.batches.c.run == t.runs.c.id)
        with self.store.transaction() as connection:
            rows = connection.execute(joined.where(condition).order_by(t.batches.c.id)).mappings().all()
            numbers = [row["id"] for row in rows]
            children = [
                _by_batch(connection, table, numbers) for table in (t.table_counts, t.receipts, t.check_results)
            ]
        return [batch_record(dict(row), *(found.get(row["id"], ()) for found in children)) for row in rows]


def quarantined(records_url: str, flow: str) -> list[RejectedRow]:
    """Return a flow's rows held back from the store at `records_url`; see `Reports.quarantined`."""
    with RecordStore(records_url) as store:
        return Reports(store).quarantined(flow)


_CHUNK = 500
"""Numbers per IN list."""


def _by_batch(connection: sa.Connection, table: sa.Table, numbers: Sequence[int]) -> dict[int, list[Mapping[str, Any]]]:
    found: dict[int, list[Mapping[str, Any]]] = {}
    for first in range(0, len(numbers), _CHUNK):
        wanted = sa.select(table).where(table.c.batch.in_(numbers[first : first + _CHUNK])).order_by(table.c.id)
        for row in connection.execute(wanted).mappings():
            found.setdefault(row["batch"], []).append(dict(row))
    return found
