"""Airflow connections to a sandbox."""

import json
from dataclasses import dataclass
from pathlib import Path

from databus.sandbox.connections import airflow_connections, databus_environment


@dataclass(frozen=True)
class At:
    name: str
    port: int
    host: str = "127.0.0.1"
    extra_address: str = ""

    @property
    def address(self) -> str:
        return self.extra_address or f"{self.host}:{self.port}"


def test_each_server_has_its_connection() -> None:
    servers = [
        At("mysql", 1),
        At("kafka", 2),
        At("zookeeper", 3),
        At("spark", 4),
        At("opensearch", 5),
        At("airflow", 6),
    ]
    found = {name: json.loads(value) for name, value in airflow_connections(servers).items()}
    assert set(found) == {
        "AIRFLOW_CONN_MYSQL_SHOP",
        "AIRFLOW_CONN_KAFKA_EAST",
        "AIRFLOW_CONN_ZOOKEEPER_DEFAULT",
        "AIRFLOW_CONN_SPARK_CONNECT_DEFAULT",
        "AIRFLOW_CONN_SPARK_DEFAULT",
        "AIRFLOW_CONN_OPENSEARCH_DEFAULT",
    }
    assert found["AIRFLOW_CONN_KAFKA_EAST"] == {
        "conn_type": "kafka",
        "extra": {"bootstrap.servers": "127.0.0.1:2"},
    }
    assert found["AIRFLOW_CONN_MYSQL_SHOP"]["login"] == "databus"
    assert found["AIRFLOW_CONN_MYSQL_SHOP"]["port"] == 1
    assert found["AIRFLOW_CONN_SPARK_CONNECT_DEFAULT"] == {
        "conn_type": "spark_connect",
        "host": "sc://127.0.0.1",
        "port": 4,
    }


def test_a_cluster_is_named_with_all_its_brokers() -> None:
    [value] = [v for k, v in airflow_connections([At("kafka-3", 1, extra_address="h:1,h:2")]).items() if "KAFKA" in k]
    assert json.loads(value)["extra"]["bootstrap.servers"] == "h:1,h:2"


def test_the_environment_has_the_sql_store(tmp_path: Path) -> None:
    environment = databus_environment([], tmp_path)
    assert environment["DATABUS_RECORDS_URL"] == f"sqlite:///{tmp_path / 'records.db'}"
    assert list(environment) == ["AIRFLOW_CONN_SPARK_DEFAULT", "DATABUS_RECORDS_URL"]
