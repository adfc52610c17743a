"""Orphaned runs after a merge of batches: what a dry run of merging counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from databus.core.state.checkpoint import HistoryEntry
from databus.records import tables as t
from databus.records.store import RecordStore

_IDS = 500


def reports_of(connection: sa.Connection, flow: str, group: Sequence[HistoryEntry]) -> list[Any]:
    """Return the reports of history entries that go on from one another, in order of their batches."""
    b = t.batches.c
    plans = {(entry.batch, entry.plan_hash) for entry in group}
    wanted = (b.flow == flow) & b.batch.between(group[0].batch, group[-1].batch)
    columns = (b.id, b.batch, b.plan_hash, b.run, b.spec_hash, b.code_version)
    rows = connection.execute(sa.select(*columns).where(wanted).order_by(b.batch))
    return [row for row in rows if (row.batch, row.plan_hash) in plans]


class RunsLeft:
    """Counts the runs of one flow that merging would leave with nothing.

    Args:
        store: the records store.
        results: ids of quality results that are deleted before; None for none.
    """

    def __init__(self, store: RecordStore, results: sa.Select[int] | None = None) -> None:
        self._store, self._results = store, results
        self._run_of: dict[int, int] = {}
        self._parts: dict[int, int] = {}

    def add(self, flow: str, group: Sequence[HistoryEntry]) -> None:
        """Note that the batches of a group would become a part, which belongs to the run of the last of them."""
        with self._store.transaction() as connection:
            found = reports_of(connection, flow, group)
        for row in found:
            self._run_of[row.id] = row.run
            self._parts.pop(row.id, None)  # a part that becomes part of this one
        self._parts[found[-1].id] = found[-1].run

    def count(self) -> int:
        """Return how many runs lose their last batch to another run's part, and have no quality result left."""
        b, r, q = t.batches.c, t.runs.c, t.quality_results.alias()
        merged = Counter(self._run_of.values())
        runs = sorted(merged.keys() - set(self._parts.values()))
        judged = sa.exists().where((q.c.flow == r.flow) & (q.c.run_id == r.run_id))
        if self._results is not None:
            judged = judged.where(q.c.id.not_in(self._results))
        gone = 0
        for begin in range(0, len(runs), _IDS):
            chunk = r.id.in_(runs[begin : begin + _IDS])
            batches = sa.select(r.id, sa.func.count(b.id)).join(t.batches, b.run == r.id).where(chunk & ~judged)
            with self._store.transaction() as connection:
                gone += sum(had == merged[run] for run, had in connection.execute(batches.group_by(r.id)))
        return gone
