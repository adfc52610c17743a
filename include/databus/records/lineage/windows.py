"""Lineage windows whose start and end were emitted, so that each is emitted once however often a task is retried.

A row is written before an event leaves and marked after: a process killed in between leaves an event that is due, and
whoever comes next sends it again, the same to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from databus.records import tables as t
from databus.records.store import RecordStore

COMPLETE, FAIL, ABORT = "COMPLETE", "FAIL", "ABORT"


@dataclass(frozen=True)
class WindowRun:
    """A run of a flow as lineage sees it: all attempts of its transfer between two clears.

    Attributes:
        flow: flow name.
        run_id: Airflow's run id.
        clear: how often the run had been cleared.
        started_at: when the first attempt began.
        parent: run id of the DAG run's own OpenLineage events, "" when unknown.
        state: "", or COMPLETE, FAIL, ABORT.
        ended_at: when it ended, None while it runs.
        due: events that were not sent for sure: "START", then the state.
    """

    flow: str
    run_id: str
    clear: int
    started_at: datetime
    parent: str = ""
    state: str = ""
    ended_at: datetime | None = None
    due: tuple[str, ...] = ()


class WindowRuns:
    """The windows of a records store; all methods raise RecordingError when the database refuses.

    Args:
        store: the records store; the caller closes it.
    """

    def __init__(self, store: RecordStore) -> None:
        self.store = store

    def begin(self, run: WindowRun) -> WindowRun:
        """Write a window's start, unless an earlier attempt has; returns what stands there."""
        row = {
            "flow": run.flow,
            "run_id": run.run_id,
            "clear": run.clear,
            "parent": run.parent,
            "started_at": run.started_at,
        }
        with self.store.transaction() as connection:
            connection.execute(self.store.upsert(t.lineage_runs, [row], ("flow", "run_id", "clear"), ()))
            return _window(connection.execute(sa.select(t.lineage_runs).where(_is(run))).mappings().one())

    def end(self, run: WindowRun, state: str, at: datetime) -> WindowRun | None:
        """Write a window's end, unless it has one; returns it as it stands, None for one that never began."""
        with self.store.transaction() as connection:
            first = _is(run) & (t.lineage_runs.c.state == "")
            connection.execute(t.lineage_runs.update().where(first).values(state=state, ended_at=at))
            row = connection.execute(sa.select(t.lineage_runs).where(_is(run))).mappings().one_or_none()
            return None if row is None else _window(row)

    def sent(self, run: WindowRun, event: str) -> None:
        """Note that an event, START or a state, has left."""
        column = "start_sent" if event == "START" else "end_sent"
        with self.store.transaction() as connection:
            connection.execute(t.lineage_runs.update().where(_is(run)).values({column: True}))

    def unfinished(self, flow: str) -> list[WindowRun]:
        """Return the windows of a flow that did not end, or whose events are due, oldest first."""
        c = t.lineage_runs.c
        wanted = sa.select(t.lineage_runs).where((c.flow == flow) & (c.end_sent == sa.false())).order_by(c.id)
        with self.store.transaction() as connection:
            return [_window(row) for row in connection.execute(wanted).mappings()]


def _is(run: WindowRun) -> sa.ColumnElement[bool]:
    c = t.lineage_runs.c
    return (c.flow == run.flow) & (c.run_id == run.run_id) & (c["clear"] == run.clear)


def _window(row: Any) -> WindowRun:
    due = (() if row["start_sent"] else ("START",)) + ((row["state"],) if row["state"] and not row["end_sent"] else ())
    return WindowRun(
        row["flow"],
        row["run_id"],
        row["clear"],
        row["started_at"],
        row["parent"],
        row["state"],
        row["ended_at"],
        due,
    )
