"""Cluster of a consumer: brokers' addresses, or a connection by its id."""

from __future__ import annotations

from databus.kafka.client import ClientSettings

_TIMEOUT_S = 30.0


def client_settings(cluster: str) -> ClientSettings:
    """Return how to reach a cluster.

    Args:
        cluster: "host:port,…", or the id of a connection.

    Raises:
        ConnectionMissingError: no connection has this id.
        SinkSettingError: the connection names no broker.
    """
    if ":" in cluster:
        return ClientSettings(cluster, cluster, timeout_s=_TIMEOUT_S)
    from databus.connections.environment import ChainedConnections

    return ClientSettings.of(ChainedConnections.from_environment().get(cluster), _TIMEOUT_S)
