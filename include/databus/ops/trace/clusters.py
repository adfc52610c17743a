"""The Kafka clusters that flows lead to: which connections mean the same one, and what reads single records there."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from databus.core.connections import ConnectionSource
from databus.core.errors.root import DatabusError

if TYPE_CHECKING:
    from databus.sinks.kafka.tracing.topic_reader import TopicReader

_TIMEOUT_S = 10.0


class Sites:
    """Kafka clusters; each is named by the connection that named it first. Opens readers when they are needed.

    Args:
        connections: where the servers are.
    """

    def __init__(self, connections: ConnectionSource) -> None:
        self._connections = connections
        self._names: dict[str, str] = {}
        self._brokers: dict[str, frozenset[str]] = {}
        self._readers: dict[str, TopicReader] = {}
        self._stack = ExitStack()

    def close(self) -> None:
        """Close the readers; safe to call twice."""
        self._stack.close()
        self._readers.clear()

    def of(self, conn_id: str) -> str:
        """Return the cluster of a connection: two that have a broker's address in common are one."""
        if conn_id not in self._names:
            brokers = self._addresses(conn_id)
            name = next((known for known, theirs in self._brokers.items() if theirs & brokers), conn_id)
            self._brokers[name] = self._brokers.get(name, frozenset()) | brokers
            self._names[conn_id] = name
        return self._names[conn_id]

    def reader(self, site: str) -> TopicReader:
        """Return what reads single records of a cluster.

        Raises:
            ConnectionMissingError: no such connection.
            SinkSettingError: it names no broker.
        """
        if site not in self._readers:
            from databus.kafka.client import ClientSettings  # most traces go through no mirror
            from databus.sinks.kafka.tracing.topic_reader import TopicReader

            reader = TopicReader(site, ClientSettings.of(self._connections.get(site), _TIMEOUT_S))
            self._stack.callback(reader.close)
            self._readers[site] = reader
        return self._readers[site]

    def _addresses(self, conn_id: str) -> frozenset[str]:
        from databus.kafka.client import ClientSettings

        try:
            servers = ClientSettings.of(self._connections.get(conn_id), _TIMEOUT_S).servers
        except DatabusError:
            return frozenset()
        return frozenset(address.strip() for address in servers.split(",")) - {""}
