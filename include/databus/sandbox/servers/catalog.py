"""Server catalog of the sandbox, by name."""

from __future__ import annotations

from collections.abc import Iterable

from databus.core.errors.config import ServerUnknownError
from databus.sandbox.servers.airflow import AIRFLOW
from databus.sandbox.servers.apicurio import APICURIO
from databus.sandbox.servers.debezium import DEBEZIUM
from databus.sandbox.servers.elasticsearch import ELASTICSEARCH
from databus.sandbox.servers.kafka import KAFKA, KAFKA_3, KAFKA_B, KAFKA_C
from databus.sandbox.servers.mariadb import MARIADB
from databus.sandbox.servers.mysql import MYSQL
from databus.sandbox.servers.opensearch import OPENSEARCH
from databus.sandbox.servers.postgres import POSTGRES
from databus.sandbox.servers.protocol import Server
from databus.sandbox.servers.secured import KAFKA_TLS, MARIADB_TLS, MYSQL_TLS, ZOOKEEPER_TLS
from databus.sandbox.servers.secured_opensearch import OPENSEARCH_TLS
from databus.sandbox.servers.spark import SPARK
from databus.sandbox.servers.spark_cluster import SPARK_CLUSTER
from databus.sandbox.servers.stream import STREAM
from databus.sandbox.servers.zookeeper import ZOOKEEPER, ZOOKEEPER_3

_ALL: tuple[Server, ...] = (
    ZOOKEEPER,
    ZOOKEEPER_3,
    KAFKA,
    KAFKA_B,
    KAFKA_C,
    KAFKA_3,
    MYSQL,
    MARIADB,
    POSTGRES,
    OPENSEARCH,
    ELASTICSEARCH,
    APICURIO,
    ZOOKEEPER_TLS,
    KAFKA_TLS,
    MYSQL_TLS,
    MARIADB_TLS,
    OPENSEARCH_TLS,
    SPARK,
    SPARK_CLUSTER,
    DEBEZIUM,
    STREAM,
    AIRFLOW,
)
SERVERS: dict[str, Server] = {server.name: server for server in _ALL}


def server_named(name: str) -> Server:
    """The server of this name.

    Raises:
        ServerUnknownError: there is none; the hint lists them.
    """
    try:
        return SERVERS[name]
    except KeyError:
        raise ServerUnknownError(
            f"no server is called {name!r}", hint=f"Known servers: {', '.join(SERVERS)}."
        ) from None


def in_order(names: Iterable[str]) -> list[Server]:
    """The servers of these names, once each, in the order of the catalog."""
    wanted = {server_named(name).name for name in names}
    return [server for server in _ALL if server.name in wanted]
