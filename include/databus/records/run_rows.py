"""The row of a run, which batch reports and quality results hang on."""

from __future__ import annotations

import sqlalchemy as sa

from databus.records import tables as t
from databus.records.store import RecordStore


def run_number(store: RecordStore, connection: sa.Connection, flow: str, run_id: str, run_url: str) -> int:
    """Return the number of a run, made when it is new; a known address is not replaced by none."""
    insert = store.upsert(t.runs, [{"flow": flow, "run_id": run_id, "run_url": run_url}], ("flow", "run_id"), ())
    connection.execute(insert)
    this = (t.runs.c.flow == flow) & (t.runs.c.run_id == run_id)
    if run_url:
        connection.execute(t.runs.update().where(this & (t.runs.c.run_url != run_url)).values(run_url=run_url))
    number: int = connection.execute(sa.select(t.runs.c.id).where(this)).scalar_one()
    return number
