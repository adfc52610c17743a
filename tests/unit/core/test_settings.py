from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from databus.core.connections import Connection
from databus.core.positions.lag import Lag
from databus.core.settings import Settings
from databus.core.tables.schemas import ColumnSchema, TableSchema


def test_defaults_lie_under_the_home_that_is_there() -> None:
    at_home = Settings.from_environment({})
    assert at_home.segment_store == str(Path.home() / ".databus" / "segments")
    in_airflow = Settings.from_environment({"AIRFLOW_HOME": "/opt/airflow"})
    assert in_airflow.segment_store == "/opt/airflow/databus/segments"
    chosen = Settings.from_environment({"AIRFLOW_HOME": "/opt/airflow", "DATABUS_HOME": "/data"})
    assert (chosen.segment_store, chosen.records_url) == ("/data/segments", "sqlite:////data/records.db")


def test_each_setting_has_its_variable() -> None:
    found = Settings.from_environment(
        {
            "DATABUS_INSTALLATION": "east",
            "DATABUS_SEGMENT_STORE": "s3://bucket/segments",
            "DATABUS_RECORDS_URL": "postgresql://db/records",
            "DATABUS_DATA_DOCS": "/docs",
            "DATABUS_DATA_DOCS_URL": "https://docs",
        }
    )
    expected = Settings("east", "s3://bucket/segments", "postgresql://db/records")
    assert found == replace(expected, data_docs="/docs", data_docs_url="https://docs")
    assert Settings.from_environment({"DATABUS_DATA_DOCS": ""}).data_docs == ""


def test_a_connection_hides_its_secrets() -> None:
    connection = Connection(conn_id="c", conn_type="kafka", password="hunter2", extra={"sasl.password": "hunter3"})
    assert "hunter" not in repr(connection)
    assert "hunter" not in str(connection)


def test_a_table_schema_is_read_back() -> None:
    columns = (ColumnSchema("id", "bigint", "bigint", nullable=False), ColumnSchema("name", "varchar(9)", "string"))
    schema = TableSchema(3, "shop", "orders", columns, ("id",))
    assert TableSchema.from_json(schema.to_json()) == schema
    assert schema.full_name == "shop.orders"


def test_caught_up_means_known_to_be() -> None:
    now = datetime(2024, 1, 31, tzinfo=UTC)
    assert Lag(0, 0.0, "bin.000001:4", now).caught_up
    assert not Lag(None, None, "", now).caught_up
