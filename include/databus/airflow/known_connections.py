"""Connections of a flow, fetched in a triggerer's event loop, for code that then runs in a thread beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from databus.airflow.connections import AirflowConnections, connection_missing, to_connection
from databus.core.alerts.alert import ChannelSpec
from databus.core.connections import Connection
from databus.core.flow import Flow


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
