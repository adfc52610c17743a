"""Airflow's part in the pages' API: flows of stored DAGs, connections, rights, the log of events.

The API server runs no DAG file: a DAG's `transfer` carries its flow as JSON, which Airflow stores with the DAG.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from databus.airflow.carried_flow import carried_by
from databus.airflow.connections import AirflowConnections
from databus.registry import flow_from_json
from databus.web.installation import Access, DagFlow, Installation


def flow_of(dag_id: str) -> DagFlow | None:
    """Return the flow of a DAG as Airflow has stored it; None where the DAG is no flow's, or its file is gone."""
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel

    known = DagModel.get_dagmodel(dag_id)
    if known is None or known.is_stale:
        return None
    stored = SerializedDagModel.get(dag_id)
    found = carried_by((stored.data if stored is not None else None) or {})
    return None if found is None else DagFlow(flow_from_json(found["flow"]), str(found["spark_conn_id"]))


def spark(conn_id: str, identity: str) -> Any:
    """Return a session on the Spark Connect server of a connection; the same one for the same identity."""
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

    from databus.runtime.spark.session import connect_session

    return connect_session(SparkConnectHook(conn_id).get_connection_url(), identity)


def installation() -> Installation:
    """Return what the API works on."""
    return Installation(flow_of, AirflowConnections(), spark)


def access(lists: Callable[..., Any]) -> Access:
    """Return rights as Airflow's auth manager gives them.

    Args:
        lists: dependency that refuses who may see no DAG at all.
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
