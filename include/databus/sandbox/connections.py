"""Airflow connections to the servers of a sandbox, in the environment form that Airflow and `databus run` both read.

The format is Airflow's: a variable `AIRFLOW_CONN_<CONN_ID>` that holds the connection as JSON (Airflow 3 documentation,
"Managing Connections", "JSON format").
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from databus.sandbox.accounts import RECORDS, RECORDS_DATABASE, REPLICATION, SHOP_DATABASE
from databus.sandbox.certificates import ACCOUNT, Authority, authority


class Endpoint(Protocol):
    """Endpoint of a server; `ServerStatus` is one."""

    @property
    def name(self) -> str:
        """Name of the server."""
        ...

    @property
    def host(self) -> str:
        """Address."""
        ...

    @property
    def port(self) -> int:
        """Clients' port."""
        ...

    @property
    def address(self) -> str:
        """`host:port`, several for a cluster."""
        ...


def _sql(server: Endpoint) -> dict[str, Any]:
    return {
        "conn_type": "mysql",
        "host": server.host,
        "port": server.port,
        "login": REPLICATION.user,
        "password": REPLICATION.password.get_secret_value(),
        "schema": SHOP_DATABASE,
    }


def _kafka(server: Endpoint) -> dict[str, Any]:
    return {"conn_type": "kafka", "extra": {"bootstrap.servers": server.address}}


def _search(kind: str) -> Callable[[Endpoint], dict[str, Any]]:
    return lambda server: {"conn_type": kind, "host": server.host, "port": server.port, "schema": "http"}


def _spark_connect(server: Endpoint) -> dict[str, Any]:
    return {"conn_type": "spark_connect", "host": f"sc://{server.host}", "port": server.port}


def _zookeeper(server: Endpoint) -> dict[str, Any]:
    return {"conn_type": "zookeeper", "host": server.host, "port": server.port}


def _ensemble(server: Endpoint) -> dict[str, Any]:
    return {"conn_type": "zookeeper", "extra": {"hosts": server.address}}


def _registry(server: Endpoint) -> dict[str, Any]:
    extra = {"path": "/apis/ccompat/v7"}
    return {"conn_type": "http", "host": server.host, "port": server.port, "schema": "http", "extra": extra}


_CONNECTIONS: dict[str, tuple[str, Callable[[Endpoint], dict[str, Any]]]] = {
    "mysql": ("mysql_shop", _sql),
    "mariadb": ("mariadb_shop", _sql),
    "kafka": ("kafka_east", _kafka),
    "kafka-b": ("kafka_west", _kafka),
    "kafka-c": ("kafka_north", _kafka),
    "kafka-3": ("kafka_three", _kafka),
    "opensearch": ("opensearch_default", _search("opensearch")),
    "elasticsearch": ("elasticsearch_default", _search("elasticsearch")),
    "spark": ("spark_connect_default", _spark_connect),
    "zookeeper": ("zookeeper_default", _zookeeper),
    "zookeeper-3": ("zookeeper_three", _ensemble),
    "apicurio": ("schema_registry_default", _registry),
}


def airflow_connections(status: Iterable[Endpoint]) -> dict[str, str]:
    """Environment variable → connection as JSON, for each server given that has one, and `spark_default`.

    Secrets are in the values: pass them to a process, do not log them.

    Args:
        status: the servers to connect to, such as `Sandbox.status()`.
    """
    connections: dict[str, dict[str, Any]] = {"spark_default": {"conn_type": "spark", "host": "local[2]"}}
    for server in status:
        if server.name in _CONNECTIONS:
            conn_id, build = _CONNECTIONS[server.name]
            connections[conn_id] = build(server)
    return {f"AIRFLOW_CONN_{conn_id.upper()}": json.dumps(value) for conn_id, value in connections.items()}


def postgres_url(server: Endpoint, database: str = RECORDS_DATABASE) -> str:
    """URL of a database on the sandbox's PostgreSQL, for `DATABUS_RECORDS_URL`; the password is in it."""
    secret = quote(RECORDS.password.get_secret_value(), safe="")
    return f"postgresql+psycopg://{RECORDS.user}:{secret}@{server.host}:{server.port}/{database}"


def secured_connections(status: Iterable[Endpoint], known: Authority) -> dict[str, str]:
    """Environment variable → connection as JSON, for each of the secured servers given; every option is the field's.

    Secrets are in the values: pass them to a process, do not log them.

    Args:
        status: the servers, of which those whose names end in `-tls` are taken.
        known: authority of their home.
    """
    connections: dict[str, dict[str, Any]] = {}
    for server in status:
        if server.name in _SECURED:
            conn_id, build = _SECURED[server.name]
            connections[conn_id] = build(server, known)
    return {f"AIRFLOW_CONN_{conn_id.upper()}": json.dumps(value) for conn_id, value in connections.items()}


def _sql_tls(server: Endpoint, known: Authority) -> dict[str, Any]:
    return {**_sql(server), "extra": {"ssl_ca": str(known.certificate), "ssl_mode": "verify_identity"}}


def _kafka_tls(server: Endpoint, known: Authority) -> dict[str, Any]:
    extra = {
        "bootstrap.servers": server.address,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.ca.location": str(known.certificate),
    }
    return {"conn_type": "kafka", "login": ACCOUNT, "password": known.password(server.name), "extra": extra}


def _search_tls(server: Endpoint, known: Authority) -> dict[str, Any]:
    return {
        "conn_type": "opensearch",
        "host": server.host,
        "port": server.port,
        "login": ACCOUNT,
        "password": known.password(server.name),
        "schema": "https",
        "extra": {"ca_certs": str(known.certificate)},
    }


def _zookeeper_tls(server: Endpoint, known: Authority) -> dict[str, Any]:
    client = known.issue("client", ())
    extra = {
        "use_ssl": True,
        "ca": str(known.certificate),
        "certfile": str(client.certificate),
        "keyfile": str(client.key),
    }
    return {**_zookeeper(server), "login": ACCOUNT, "password": known.password(server.name), "extra": extra}


_SECURED: dict[str, tuple[str, Callable[[Endpoint, Authority], dict[str, Any]]]] = {
    "mysql-tls": ("mysql_secured", _sql_tls),
    "mariadb-tls": ("mariadb_secured", _sql_tls),
    "kafka-tls": ("kafka_secured", _kafka_tls),
    "opensearch-tls": ("opensearch_secured", _search_tls),
    "zookeeper-tls": ("zookeeper_secured", _zookeeper_tls),
}


def records_url(home: Path) -> str:
    """URL of the SQL store of batch reports in a sandbox's home, for `DATABUS_RECORDS_URL`."""
    return f"sqlite:///{home.absolute() / 'records.db'}"


def databus_environment(status: Iterable[Endpoint], home: Path) -> dict[str, str]:
    """Return the environment of a process that runs flows against a sandbox: connections, and the SQL store."""
    known = tuple(status)
    return {
        **airflow_connections(known),
        **secured_connections(known, authority(home)),
        "DATABUS_RECORDS_URL": records_url(home),
    }
