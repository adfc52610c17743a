"""Airflow's part in the pages' API: flows of stored DAGs, connections, rights, the log of events.

The API server runs no DAG file: a DAG's `transfer` carries its flow as JSON, which Airflow stores with the DAG.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from databus.airflow.carried_flow import carried_by
from databus.airflow.connections import AirflowConnections
from databus.core.errors.root import DatabusError
from databus.registry import flow_from_json
from databus.web.installation import Access, DagFlow, Installation, unreadable


def flow_of(dag_id: str) -> DagFlow | None:
    """Return the flow of a DAG as Airflow has stored it; None where the DAG is no flow's, or its file is gone."""
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel

    known = DagModel.get_dagmodel(dag_id)
    if known is None or known.is_stale:
        return None
    stored = SerializedDagModel.get(dag_id)
    found = carried_by((stored.data if stored is not None else None) or {})
    return None if found is None else _dag_flow(found, known.fileloc)


def stored_flows(dag_ids: Sequence[str]) -> dict[str, DagFlow | DatabusError]:
    """Return DAG id → its flow as Airflow has stored it, or why it cannot be read; other DAGs are left out.

    Args:
        dag_ids: the DAGs to look at: two statements, however many.
    """
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        there = select(DagModel.dag_id, DagModel.fileloc).where(DagModel.dag_id.in_(dag_ids), ~DagModel.is_stale)
        files = {row.dag_id: row.fileloc for row in session.execute(there)}
        newest = SerializedDagModel.get_latest_serialized_dags(dag_ids=sorted(files), session=session)
        carried = {dag.dag_id: carried_by(dag.data or {}) for dag in newest} if files else {}
    return read_each(carried, files)


def read_each(
    carried: Mapping[str, Mapping[str, Any] | None], files: Mapping[str, str | None]
) -> dict[str, DagFlow | DatabusError]:
    """Return DAG id → its flow, or why it cannot be read; whatever that is, the others are read.

    Args:
        carried: DAG id → what the DAG carries, None where that is no flow.
        files: DAG id → its file.
    """
    found: dict[str, DagFlow | DatabusError] = {}
    for dag_id, known in carried.items():
        if known is None:
            continue
        try:
            found[dag_id] = _dag_flow(known, files[dag_id])
        except Exception as error:  # noqa: BLE001 - one DAG takes no list of all of them away
            found[dag_id] = unreadable(dag_id, error)
    return found


def _dag_flow(carried: Mapping[str, Any], file: str | None) -> DagFlow:
    return DagFlow(flow_from_json(carried["flow"]), str(carried["spark_conn_id"]), file or "")


def spark(conn_id: str, identity: str) -> Any:
    """Return a session on the Spark Connect server of a connection; the same one for the same identity."""
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

    from databus.runtime.spark.session import connect_session

    return connect_session(SparkConnectHook(conn_id).get_connection_url(), identity)


def installation() -> Installation:
    """Return what the API works on."""
    return Installation(flow_of, AirflowConnections(), spark, stored_flows)


def access(lists: Callable[..., Any]) -> Access:
    """Return rights as Airflow's auth manager gives them.

    Args:
        lists: dependency that refuses who may see no DAG at all, and gives the ids of those that who asks may see.
    """
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
    from fastapi import Depends

    user = Depends(get_user)

    def who(user: Any = user) -> str:
        return str(user.get_name())

    return Access(
        lists=lists,
        sees=requires_access_dag("GET"),
        values=requires_access_dag("PUT"),
        audits=requires_access_dag("GET", DagAccessEntity.AUDIT_LOG),
        changes=requires_access_dag("PUT"),
        who=who,
        note=note,
    )


def note(who: str, dag_id: str, event: str, facts: Mapping[str, Any]) -> None:
    """Write an event to Airflow's log of events."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    told = json.dumps(dict(facts), default=str)
    with create_session() as session:
        session.add(Log(event=event, owner=who, owner_display_name=who, extra=told, dag_id=dag_id))
