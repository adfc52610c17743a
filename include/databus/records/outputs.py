"""Which outputs a run has written: for asset events."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime

import sqlalchemy as sa

from databus.records import tables as t
from databus.records.recorded_under import recorded_under
from databus.records.store import RecordStore

_PARTITION = re.compile(r"\[\d+\]$")
_WRITES = ("records", "created", "updated", "deleted")


def written_outputs(store: RecordStore, flow: str, run_id: str, started: datetime | None) -> dict[tuple[str, str], int]:
    """Return (sink, topic or index) → records written by a run, and by runs before it that were never audited.

    A run that failed after it had moved batches is not audited: its outputs are told by the next one that is.

    Args:
        store: the records.
        flow: flow name.
        run_id: the run.
        started: when it started, aware UTC; only batches committed before count for other runs. None leaves those out.

    Raises:
        RecordingError: the database refuses or cannot be reached.
    """
    b, r, q = t.batches.c, t.runs.c, t.quality_results.c
    graded = sa.select(q.run_id).where((q.flow == flow) & (q.run_id != run_id))
    wanted = r.run_id == run_id
    if started is not None:
        last = (
            sa.select(sa.func.coalesce(sa.func.max(b.id), 0))
            .join(t.runs, b.run == r.id)
            .where((b.flow == flow) & r.run_id.in_(graded))
            .scalar_subquery()
        )
        wanted |= r.run_id.not_in(graded) & (b.id > last) & (b.committed_at < started)
    return _written(store, (b.flow == flow) & wanted)


def moved_outputs(store: RecordStore, dag: str, run_id: str) -> dict[tuple[str, str], int]:
    """Return (sink, topic or index) → records written by a run of a backfill DAG, by all its attempts.

    Raises:
        RecordingError: the database refuses or cannot be reached.
    """
    return _written(store, recorded_under(t.batches.c.flow, dag) & (t.runs.c.run_id == run_id))


def _written(store: RecordStore, wanted: sa.ColumnElement[bool]) -> dict[tuple[str, str], int]:
    query = (
        sa.select(t.receipts.c.sink, t.receipts.c.outputs)
        .join(t.batches, t.receipts.c.batch == t.batches.c.id)
        .join(t.runs, t.batches.c.run == t.runs.c.id)
        .where(wanted)
    )
    found: Counter[tuple[str, str]] = Counter()
    with store.transaction() as connection:
        for sink, outputs in connection.execute(query):
            for output, facts in outputs.items():
                found[sink, _PARTITION.sub("", output)] += sum(int(facts.get(fact, 0)) for fact in _WRITES)
    return {output: rows for output, rows in found.items() if rows}
