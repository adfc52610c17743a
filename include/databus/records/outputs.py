"""Outputs of a run, for asset events, and the columns that they are made of: one row per run and table's lineage."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from databus.core.stored_form import canonical_json
from databus.core.tables.column_lineage import TableLineage
from databus.records import tables as t
from databus.records.reports import recorded_under
from databus.records.store import RecordStore

_PARTITION = re.compile(r"\[\d+\]$")
_WRITES = ("records", "created", "updated", "deleted")


def written_outputs(store: RecordStore, flow: str, run_id: str, started: datetime | None) -> dict[tuple[str, str], int]:
    """Return (sink, topic or index) → records written by a run, and by runs before it that were never audited.

    A run that failed after it had moved batches is not audited: its outputs are reported by the next one that is.

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


def put_columns(store: RecordStore, connection: sa.Connection, run: int, columns: Sequence[TableLineage]) -> None:
    """Note the lineage of a batch under its run; idempotent."""
    rows: dict[str, dict[str, Any]] = {}
    for lineage in columns:
        data = lineage.to_json()
        digest = hashlib.sha256(canonical_json(data)).hexdigest()
        rows[digest] = {"run": run, "digest": digest, "columns": data}
    if rows:
        connection.execute(store.upsert(t.run_columns, list(rows.values()), ("run", "digest"), ()))


def columns_of_run(store: RecordStore, flow: str, run_id: str) -> list[TableLineage]:
    """Return what the batches of a run noted, oldest first; several of a table whose schema changed meanwhile.

    Raises:
        RecordingError: the database refuses or cannot be reached.
    """
    joined = sa.select(t.run_columns.c.columns).join(t.runs, t.run_columns.c.run == t.runs.c.id)
    wanted = joined.where(recorded_under(t.runs.c.flow, flow) & (t.runs.c.run_id == run_id)).order_by(
        t.run_columns.c.id
    )
    with store.transaction() as connection:
        return [TableLineage.from_json(data) for data in connection.execute(wanted).scalars()]


def masked_fields(store: RecordStore, flow: str, table: str, sink: str) -> dict[str, str]:
    """Return the fields of a sink that the flow masks, and how in words, as the newest run noted them.

    Args:
        store: the records.
        flow: flow name.
        table: `database.table`, "" for any.
        sink: sink name.

    Raises:
        RecordingError: the database refuses or cannot be reached.
    """
    c = t.run_columns.c
    newest = sa.select(sa.func.max(c.run)).select_from(t.run_columns.join(t.runs, c.run == t.runs.c.id))
    wanted = sa.select(c.columns).where(c.run == newest.where(t.runs.c.flow == flow).scalar_subquery())
    with store.transaction() as connection:
        noted = [TableLineage.from_json(data) for data in connection.execute(wanted).scalars()]
    return {
        field.field: ", ".join(step.label for step in field.steps if step.masking)
        for lineage in noted
        if lineage.sink == sink and table in {"", lineage.table}
        for field in lineage.fields
        if any(step.masking for step in field.steps)
    }
