"""What the outputs of a run are made of: one row per run and table's lineage, however many batches repeat it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from databus.core.stored_json import canonical_json
from databus.core.tables.column_lineage import TableLineage
from databus.records import tables as t
from databus.records.recorded_under import recorded_under
from databus.records.store import RecordStore


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
