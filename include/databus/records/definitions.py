"""Definitions of flows: what moved their batches, and since when; the newest one is what the pages show and trace."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import sqlalchemy as sa

from databus.core.batches.report import BatchReport
from databus.core.state.backfill import piece_of
from databus.core.stored_form import canonical_json
from databus.records import tables as t
from databus.records.store import RecordStore


@dataclass(frozen=True)
class Definition:
    """Definition of a flow.

    Attributes:
        flow: flow name.
        dag: id of the DAG that ran it; "" where no run of Airflow did.
        batch: number of the first batch that it moved.
        since: when that was committed, aware UTC.
        definition: `Flow.shown`.
    """

    flow: str
    dag: str
    batch: int
    since: datetime
    definition: Mapping[str, Any]

    @property
    def dag_id(self) -> str:
        """Return the id of its DAG; where none is known, the one that `flow_dag` gives it."""
        return self.dag or self.flow


def dag_of(run_url: str) -> str:
    """Return the DAG in the address of a run's page, "" where it names none."""
    _, _, behind = run_url.partition("/dags/")
    return unquote(behind.partition("/")[0])


Noted = tuple[str, Mapping[str, Any]]
"""DAG and definition of a flow."""


class NotedDefinitions:
    """Notes definitions that differ from a flow's newest one; remembers what it noted, so that few reports ask."""

    def __init__(self) -> None:
        self._noted: dict[str, Noted] = {}

    def put(self, connection: sa.Connection, report: BatchReport) -> tuple[str, Noted] | None:
        """Note the definition of a report; return (flow, what was noted) for `done`, once that is committed."""
        flow, dag = report.plan.flow, dag_of(report.run_url)
        if not report.definition or piece_of(flow) is not None:  # a backfill's pieces are moved by their flow
            return None
        noted = dag, report.definition
        if self._noted.get(flow) == noted:
            return None
        digest = hashlib.sha256(canonical_json(report.definition)).hexdigest()
        d = t.definitions.c
        newest = sa.select(d.dag, d.digest).where(d.flow == flow).order_by(d.id.desc()).limit(1)
        known = connection.execute(newest).first()
        same = known is not None and known.digest == digest and dag in ("", known.dag)
        if not same:
            row = {"flow": flow, "dag": dag or (known.dag if known else ""), "digest": digest}
            begun = {"batch": report.plan.batch, "since": report.committed_at}
            connection.execute(t.definitions.insert(), {**row, **begun, "definition": dict(report.definition)})
        return flow, noted

    def done(self, noted: Mapping[str, Noted]) -> None:
        """Remember what was committed."""
        self._noted |= noted


def newest_definitions(store: RecordStore, dag: str | None = None) -> list[Definition]:
    """Return the newest definition of each flow, by name; one query.

    Args:
        store: the records.
        dag: only of the flow that this DAG runs; None for all.

    Raises:
        RecordingError: the database refuses or cannot be reached.
    """
    d = t.definitions.c
    newest = sa.select(sa.func.max(d.id)).group_by(d.flow)
    wanted = sa.select(d.flow, d.dag, d.batch, d.since, d.definition).where(d.id.in_(newest)).order_by(d.flow)
    if dag is not None:
        wanted = wanted.where((d.dag == dag) | ((d.dag == "") & (d.flow == dag)))
    with store.transaction() as connection:
        return [Definition(*row) for row in connection.execute(wanted)]
