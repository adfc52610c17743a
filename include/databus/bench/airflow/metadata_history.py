"""Fills Airflow's database with runs of the past, each a copy of one that Airflow itself has made and ended.

Arguments: runs of each flow, seconds between them. Prints the rows that each table has before and after.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

CHUNK = 2_000
"""Runs whose rows are written together."""


def fill(session: Any, runs: int, step: timedelta) -> None:
    """Copy the newest run that ended well of each DAG, with its tasks, results and log, into the past.

    Raises:
        LookupError: no DAG has such a run.
    """
    from airflow.models.dagrun import DagRun
    from airflow.utils.state import DagRunState
    from sqlalchemy import func, select

    done = select(func.max(DagRun.id)).where(DagRun.state == DagRunState.SUCCESS).group_by(DagRun.dag_id)
    newest = list(session.scalars(done))
    if not newest:
        raise LookupError("Airflow has ended no run yet: there is nothing to copy")
    for number in newest:
        _copy(session, number, runs, step)
    _raise_sequences(session)


def _copy(session: Any, number: int, runs: int, step: timedelta) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.models.log import Log
    from airflow.models.taskinstance import TaskInstance, uuid7
    from airflow.models.xcom import XComModel
    from sqlalchemy import func, insert, select

    run_table = DagRun.__table__
    run = dict(session.execute(select(run_table).where(run_table.c.id == number)).mappings().one())
    parts = {
        model.__table__: [
            dict(row)
            for row in session.execute(
                select(model.__table__).where(
                    model.__table__.c.dag_id == run["dag_id"], model.__table__.c.run_id == run["run_id"]
                )
            ).mappings()
        ]
        for model in (TaskInstance, XComModel, Log)
    }
    first = session.scalar(select(func.max(run_table.c.id))) + 1
    oldest = session.scalar(select(func.min(run_table.c.run_after)).where(run_table.c.dag_id == run["dag_id"]))
    since = run["run_after"] - oldest  # the copies go behind all runs that are there
    for begin in range(0, runs, CHUNK):
        numbers = range(begin, min(begin + CHUNK, runs))
        backs = [since + step * (n + 1) for n in numbers]
        moved = [(back, first + n, _run_id(run, back)) for n, back in zip(numbers, backs, strict=True)]
        session.execute(
            insert(run_table), [{**_earlier(run, back), "id": new, "run_id": name} for back, new, name in moved]
        )
        for table, rows in parts.items():
            copies = [
                {**_earlier(row, back), "run_id": name, **_keys(table.name, new, uuid7)}
                for back, new, name in moved
                for row in (_without_key(table.name, row) for row in rows)
            ]
            if copies:
                session.execute(insert(table), copies)
        session.commit()


def _earlier(row: Mapping[str, Any], back: timedelta) -> dict[str, Any]:
    return {key: value - back if isinstance(value, datetime) else value for key, value in row.items()}


def _run_id(run: Mapping[str, Any], back: timedelta) -> str:
    return f"scheduled__{(run['run_after'] - back).isoformat()}"


def _without_key(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if not (table == "log" and key == "id")}


def _keys(table: str, run: int, new_id: Any) -> dict[str, Any]:
    return {"task_instance": {"id": new_id()}, "xcom": {"dag_run_id": run}}.get(table, {}) if table != "log" else {}


def _raise_sequences(session: Any) -> None:
    """Let PostgreSQL go on behind the numbers that were given here."""
    from sqlalchemy import text

    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT setval(pg_get_serial_sequence('dag_run', 'id'), (SELECT max(id) FROM dag_run))"))
        session.commit()
        session.connection(execution_options={"isolation_level": "AUTOCOMMIT"}).execute(text("VACUUM ANALYZE"))


def sizes(session: Any) -> Iterator[tuple[str, int]]:
    """Yield each table that grows with runs, and its rows."""
    from airflow.models.dagrun import DagRun
    from airflow.models.log import Log
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from sqlalchemy import func, select

    for model in (DagRun, TaskInstance, XComModel, Log):
        yield model.__tablename__, session.scalar(select(func.count()).select_from(model.__table__))


def main(runs: int, seconds: float) -> None:
    """Fill, unless no run is asked for; print the sizes before and after as the last line."""
    from airflow.utils.session import create_session

    with create_session() as session:
        before = after = dict(sizes(session))
        if runs:
            fill(session, runs, timedelta(seconds=seconds))
            after = dict(sizes(session))
    sys.stdout.write("\n" + json.dumps([before, after]) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
