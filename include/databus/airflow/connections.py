"""Connections from Airflow: its database, its secrets backends, AIRFLOW_CONN_ variables."""

from __future__ import annotations

from typing import Any

from databus.core.connections import Connection
from databus.core.errors.config import ConnectionMissingError


class AirflowConnections:
    """A ConnectionSource over `BaseHook.get_connection`; only ever called inside a task."""

    @staticmethod
    def missing() -> tuple[type[Exception], ...]:
        """Return what Airflow raises for a connection that it does not know."""
        from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

        return (AirflowNotFoundException, AirflowRuntimeError)

    def get(self, conn_id: str) -> Connection:
        """Return the connection.

        Raises:
            ConnectionMissingError: Airflow gave none; see `connection_missing`.
        """
        from airflow.sdk import BaseHook

        try:
            found = BaseHook.get_connection(conn_id)
        except self.missing() as error:
            raise connection_missing(conn_id) from error
        return to_connection(conn_id, found)


def connection_missing(conn_id: str) -> ConnectionMissingError:
    """Return the error for a connection that Airflow did not give.

    To a task and a trigger Airflow says "isn't defined" also while its api-server or database does not answer
    (`airflow.sdk.execution_time.secrets.execution_api`). So a retry may help; where nothing is defined it costs little.
    """
    return ConnectionMissingError(
        f"Airflow gave no connection {conn_id!r}",
        hint=f"Add it under Admin → Connections, with `airflow connections add {conn_id} …`, or as "
        f"AIRFLOW_CONN_{conn_id.upper()}. If it is there, Airflow's api-server or database did not answer: "
        "the next attempt asks again.",
        retryable=True,
    )


def to_connection(conn_id: str, found: Any) -> Connection:
    """Return Airflow's connection as ours."""
    return Connection(
        conn_id=conn_id,
        conn_type=found.conn_type or "",
        host=found.host or "",
        port=found.port,
        login=found.login or "",
        password=found.password or "",
        db_schema=found.schema or "",
        extra=found.extra_dejson,
    )
