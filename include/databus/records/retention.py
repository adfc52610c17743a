"""Records retention: results of checks, quality and lineage windows of old runs, old offset maps, old API actions.

Reports, counts, receipts, ranges and ledger pages stay: `databus ledger --verify` and `databus trace` rest on them.
Rows held back stay too: only a person decides about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from databus.records import tables as t
from databus.records.store import RecordStore

_CHUNK = 2_000
"""Rows deleted in one transaction: flows that record meanwhile wait for no longer."""


class RecordRetention:
    """Counts and deletes what is older than a time; all methods raise RecordingError when the database refuses.

    Args:
        store: the records store; the caller closes it.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    def surplus(self, before: datetime) -> dict[str, int]:
        """Return table → rows that `prune` would delete."""
        old = _old(before)
        counted = {**old, t.runs.name: _runs_of(old[t.quality_results.name])}
        with self._store.transaction() as connection:
            return {
                name: connection.execute(sa.select(sa.func.count()).select_from(rows.subquery())).scalar_one()
                for name, rows in counted.items()
            }

    def prune(self, before: datetime) -> dict[str, int]:
        """Delete what is older than `before`, aware UTC, in small transactions; return table → rows deleted.

        The newest quality result of each flow stays, however old. A second call deletes nothing.
        """
        gone = {t.runs.name: 0}
        self._mark_outlived(before)
        for name, old in _old(before).items():
            table, gone[name] = t.metadata.tables[name], 0
            while True:
                with self._store.transaction() as connection:
                    ids = list(connection.execute(old.order_by(table.c.id).limit(_CHUNK)).scalars())
                    if not ids:
                        break
                    runs = list(connection.execute(_runs_of(ids)).scalars()) if table is t.quality_results else []
                    gone[name] += connection.execute(table.delete().where(table.c.id.in_(ids))).rowcount
                    gone[t.runs.name] += connection.execute(t.runs.delete().where(t.runs.c.id.in_(runs))).rowcount
        return gone

    def _mark_outlived(self, before: datetime) -> None:
        """Mark the rows of offset maps that stay where others go: before those go, for a kill may come in between."""
        m, other = t.offset_map, t.offset_map.alias()
        going = _old(before)[m.name]
        same = (other.c.flow == m.c.flow) & (other.c.generation == m.c.generation)
        loses = sa.exists().where(same & other.c.id.in_(going))
        with self._store.transaction() as connection:
            staying = sa.select(m.c.id).where((m.c.paged_at < before) & m.c.id.not_in(going) & loses)
            ids = list(connection.execute(staying).scalars())
            for begin in range(0, len(ids), _CHUNK):
                chunk = ids[begin : begin + _CHUNK]
                connection.execute(m.update().where(m.c.id.in_(chunk)).values(outlived=True))


def _old(before: datetime) -> Mapping[str, sa.Select[int]]:
    """Return table → the ids of its old rows."""
    q, newer = t.quality_results, t.quality_results.alias()
    last = sa.exists().where((newer.c.flow == q.c.flow) & (newer.c.id > q.c.id))
    found = t.check_results
    window = t.lineage_runs.c
    m, last_of = t.offset_map, t.offset_map.alias()
    same = ("flow", "generation", "source_topic", "source_partition", "incarnation")
    furthest = (
        sa.select(last_of.c.id)
        .where(sa.and_(*(last_of.c[name] == m.c[name] for name in same)))
        .order_by(last_of.c.source_upto.desc(), last_of.c.id.desc())
        .limit(1)
        .correlate(m)
        .scalar_subquery()
    )
    return {
        found.name: sa.select(found.c.id)
        .join(t.batches, t.batches.c.id == found.c.batch)
        .where(t.batches.c.committed_at < before),
        q.name: sa.select(q.c.id).where((q.c.evaluated_at < before) & last),
        # A window whose events have not left is still to be sent.
        t.lineage_runs.name: sa.select(window.id).where((window.ended_at < before) & window.end_sent),
        # What lies before the furthest place of a partition, which stays; it stands in the ledger's pages, too.
        m.name: sa.select(m.c.id).where((m.c.paged_at < before) & (m.c.id < furthest)),
        # Nobody sends a request again after so long; what it did stands in the flow's history.
        t.actions.name: sa.select(t.actions.c.id).where(t.actions.c.begun_at < before),
    }


def old_results(before: datetime) -> sa.Select[int]:
    """Return the ids of the quality results that `RecordRetention.prune` deletes."""
    return _old(before)[t.quality_results.name]


def _runs_of(results: list[int] | sa.Select[int]) -> sa.Select[int]:
    """Return the runs of quality results that moved no batch: nothing else hangs on them."""
    q = t.quality_results.alias()
    moved = sa.exists().where(t.batches.c.run == t.runs.c.id)
    return (
        sa.select(t.runs.c.id)
        .join(q, (q.c.flow == t.runs.c.flow) & (q.c.run_id == t.runs.c.run_id))
        .where(q.c.id.in_(results) & ~moved)
        .distinct()
    )
