"""Connections from Airflow: its database, its secrets backends, AIRFLOW_CONN_ variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from databus.core.alerts.alert import ChannelSpec
from databus.core.connections import Connection
from databus.core.errors.config import ConnectionMissingError
from databus.core.flow import Flow


class AirflowConnections:
    """A ConnectionSource over `BaseHook.get_connection`; only ever called inside a task."""

    @staticmethod
    def missing() -> tuple[type[Exception], ...]:
        """Return what Airflow raises for a connection that it does not know."""
        from airflow.sdk.exceptions import AirflowRuntimeError

        from databus.airflow.moved import AirflowNotFoundException

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


class ServerConnections:
    """A ConnectionSource inside of Airflow's API server: from secrets backends, AIRFLOW_CONN_ and its database."""

    def get(self, conn_id: str) -> Connection:
        """Return the connection.

        Raises:
            ConnectionMissingError: Airflow gave none; see `connection_missing`.
        """
        from airflow.models import Connection as Stored

        from databus.airflow.moved import AirflowNotFoundException

        try:
            found = Stored.get_connection_from_secrets(conn_id)
        except AirflowNotFoundException as error:
            raise connection_missing(conn_id) from error
        return to_connection(conn_id, found)


class KnownConnections:
    """A ConnectionSource over connections that were fetched before."""

    def __init__(self, connections: Mapping[str, Connection]) -> None:
        self._connections = connections

    def get(self, conn_id: str) -> Connection:
        """Return the connection.

        Raises:
            ConnectionMissingError: Airflow did not give it when they were fetched; to be fetched anew.
        """
        found = self._connections.get(conn_id)
        if found is None:
            raise connection_missing(conn_id)
        return found


async def connections_of(flow: Flow, *, alerts: bool = False) -> KnownConnections:
    """Fetch what reading a flow's place and its source's head needs, and its alert channels where asked for."""
    wanted = {flow.zookeeper_conn_id, *(conn_id for conn_id, _ in flow.source.conn_ids())}
    if alerts:
        channels = (spec for spec in flow.alerts if isinstance(spec, ChannelSpec))
        wanted |= {conn_id for channel in channels for conn_id, _ in channel.conn_ids()}
    return KnownConnections(await _fetched(sorted(wanted)))


async def _fetched(conn_ids: Iterable[str]) -> dict[str, Connection]:
    from airflow.sdk import BaseHook

    found: dict[str, Connection] = {}
    for conn_id in conn_ids:
        try:
            found[conn_id] = to_connection(conn_id, await BaseHook.aget_connection(conn_id))
        except AirflowConnections.missing():
            continue
    return found
