"""Messages in forms of other connectors through real servers: every sink of one flow in another form."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from databus import Filter, Flow, Kafka, Mask, MysqlBinlog, NotNull
from databus.core.errors.sink import ValidationRefusedError
from databus.core.flow_specs import FlowContext
from databus.ops.health.preflight import preflight
from databus.ops.services import open_services
from databus.ops.trace.follow import trace
from databus.ops.trace.query import recognise
from databus.records.reports import quarantined
from tests.integration.conftest import Started
from tests.integration.kafka_target import consume
from tests.integration.one_process import OneProcessWorld

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

NAME = "formats"
SINKS = {
    "dbz": {"types": "debezium", "schemas": True, "topic_prefix": "east"},
    "maxwell": {"envelope": "maxwell", "cloudevents": True},
    "canal": {"envelope": "canal", "headers": ("op", "event_id", "table")},
    "iso": {},
}


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    home = Path(os.environ.get("DATABUS_TEST_WORLD") or tmp_path_factory.mktemp(NAME))
    return OneProcessWorld(started("zookeeper", "kafka", "mysql"), home)


@pytest.fixture(scope="module")
def flow(world: OneProcessWorld) -> Flow:
    """A flow that has moved an insert, an update, a delete and a row that a check holds back."""
    flow = Flow(
        name=NAME,
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{NAME}.*",), start="latest"),
        checks=(NotNull("note"),),
        sinks=tuple(
            Kafka(name=name, conn_id="kafka_east", topic=f"{NAME}_{name}", **options) for name, options in SINKS.items()
        ),
    )
    with world.sql() as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {NAME}")
        cursor.execute(f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4")
        cursor.execute(f"CREATE TABLE {NAME}.t (day DATE PRIMARY KEY, at DATETIME(3), price DECIMAL(8,2), note TEXT)")
        world.run(flow)
        cursor.execute(f"INSERT INTO {NAME}.t VALUES ('1970-01-11', '1970-01-01 00:00:00.120', 1.28, 'new')")
        cursor.execute(f"UPDATE {NAME}.t SET note = 'paid'")
        cursor.execute(f"DELETE FROM {NAME}.t")
        cursor.execute(f"INSERT INTO {NAME}.t VALUES ('1970-01-12', NULL, 2, NULL)")
    result = world.run(flow)
    assert (result.quarantined, result.rows) == (1, 4)
    return flow


def records(world: OneProcessWorld, name: str) -> list[tuple[Any, Any, dict[str, str]]]:
    found = consume(world.sandbox.address("kafka"), f"{NAME}_{name}")
    return [
        (json.loads(m.key()), json.loads(m.value() or b"null"), {k: v.decode() for k, v in m.headers()}) for m in found
    ]


def test_debezium_s_types_with_schemas(world: OneProcessWorld, flow: Flow) -> None:
    insert, update, delete, tombstone = records(world, flow.sinks[0].sink_name)
    assert all(key["payload"] == {"day": 10} for key, _, _ in (insert, update, delete, tombstone))
    assert insert[0]["schema"]["fields"][0]["name"] == "io.debezium.time.Date"
    row = {"day": 10, "at": 120, "price": "AIA=", "note": "new"}
    assert insert[1]["payload"]["after"] == row
    assert insert[1]["schema"]["name"] == f"east.{NAME}.t.Envelope"
    assert (update[1]["payload"]["before"], update[1]["payload"]["op"]) == (row, "u")
    assert (delete[1]["payload"]["after"], tombstone[1]) == (None, None)
    assert insert[2].keys() == {"event_id", "ts_ms"}


def test_maxwell_and_cloud_events(world: OneProcessWorld, flow: Flow) -> None:
    insert, update, delete, tombstone = records(world, "maxwell")
    assert insert[0] == {"database": NAME, "table": "t", "pk.day": "1970-01-11"}
    assert (update[1]["data"]["note"], update[1]["old"]) == ("paid", {"note": "new"})
    assert delete[1]["data"] == {"day": "1970-01-11", "at": "1970-01-01 00:00:00.120", "price": 1.28, "note": "paid"}
    assert [r[2].get("ce_type") for r in (insert, update, delete, tombstone)] == [
        "databus.mysql.create", "databus.mysql.update", "databus.mysql.delete", None,
    ]  # fmt: skip
    assert delete[2]["ce_id"] == delete[2]["event_id"] == tombstone[2]["event_id"]


def test_canal_and_chosen_headers(world: OneProcessWorld, flow: Flow) -> None:
    insert, update, *_ = records(world, "canal")
    assert insert[1]["data"] == [{"day": "1970-01-11", "at": "1970-01-01 00:00:00.120", "price": "1.28", "note": "new"}]
    assert update[1]["old"] == [{"note": "new"}]
    assert [list(r[2].items())[::2] for r in (insert, update)] == [
        [("op", "c"), ("table", f"{NAME}.t")], [("op", "u"), ("table", f"{NAME}.t")],
    ]  # fmt: skip


def test_what_a_check_holds_back_is_kept_in_the_usual_form(world: OneProcessWorld, flow: Flow) -> None:
    (held,) = quarantined(world.settings.records_url, flow.name)
    assert json.loads(held.payload)["after"]["day"] == "1970-01-12"
    assert held.key == '{"day":"1970-01-12"}'


def test_a_change_is_traced_into_every_form(world: OneProcessWorld, flow: Flow) -> None:
    event_id = records(world, "iso")[0][2]["event_id"]
    (journey,) = trace(recognise(event_id), [flow], (world.connections, world.settings), "")
    assert {sighting.place.rpartition(":")[0].rpartition(":")[0] for sighting in journey.sightings} == {
        f"{NAME}_{name}" for name in SINKS
    }


def test_a_comparison_is_refused_by_name(world: OneProcessWorld, flow: Flow) -> None:
    with open_services(flow, world.connections, world.settings) as services:
        for spec in flow.sinks[:3]:
            sink: Any = spec.open(services.connections, FlowContext(flow.name, services.settings))
            with pytest.raises(ValidationRefusedError, match=f"sink {spec.sink_name}: .* not read back"):
                sink.held(())
            sink.close()


def test_debezium_s_types_behind_a_filter_and_a_mask(world: OneProcessWorld, flow: Flow) -> None:
    name = "hidden"
    sink = Kafka(conn_id="kafka_east", topic=name, types="debezium", schemas=True)
    hiding = Flow(
        name=name,
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{NAME}.{name}",), start="latest"),
        transforms=(Filter("v > 5"), Mask("price", "note", "big")),
        checks=(NotNull("note"),),
        sinks=(sink,),
    )
    with world.sql() as connection, connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {NAME}.{name} (id INT PRIMARY KEY, v INT, price DECIMAL(9,2), note TEXT, "
            "big BIGINT UNSIGNED NOT NULL)"
        )
        world.run(hiding)
        cursor.execute(f"INSERT INTO {NAME}.{name} VALUES (1, 9, 31337.25, 'secret', 18446744073709551615)")
        cursor.execute(f"INSERT INTO {NAME}.{name} VALUES (2, 9, 31337.25, NULL, 4711), (3, 1, 1, 'secret', 4711)")
        cursor.execute(f"UPDATE {NAME}.{name} SET v = 1, price = 31338 WHERE id = 1")
        cursor.execute(f"TRUNCATE {NAME}.{name}")
    result = world.run(hiding)
    assert (result.quarantined, result.rows) == (1, 5)
    insert, delete, tombstone, truncate = (
        (json.loads(m.key() or b"null"), json.loads(m.value() or b"null"), m.value() or b"")
        for m in consume(world.sandbox.address("kafka"), name)
    )
    row = {"id": 1, "v": 9, "price": "***", "note": "***", "big": "***"}
    told = [(m["payload"]["op"], m["payload"]["before"], m["payload"]["after"]) for _, m, _ in (insert, delete)]
    assert told == [("c", None, row), ("d", row, None)]
    assert [key["payload"] for key, _, _ in (insert, delete, tombstone)] == [{"id": 1}] * 3
    assert (tombstone[1], truncate[1]["payload"]["op"], truncate[1]["schema"]) == (None, "t", insert[1]["schema"])
    columns = {each["field"]: each["type"] for each in insert[1]["schema"]["fields"][1]["fields"]}
    assert columns == {"id": "int32", "v": "int32", "price": "string", "note": "string", "big": "string"}
    assert "flags" not in insert[1]["payload"]["source"], "a hidden number is not told as wrapped"
    assert not any(b"secret" in raw or b"31337" in raw or b"L9E" in raw for _, _, raw in (insert, delete, truncate))
    (held,) = quarantined(world.settings.records_url, name)
    assert json.loads(held.payload)["after"] == {**row, "id": 2, "note": None}


def test_rows_in_spark_are_refused_before_a_plan(world: OneProcessWorld, flow: Flow) -> None:
    other = flow.model_copy(update={"lane": "spark"})
    with open_services(other, world.connections, world.settings) as services:
        told = [finding for finding in preflight(other, services) if finding.code == "lane_required"]
    assert [finding.message.split(":")[0] for finding in told] == [f"flow {NAME}, sink {n}" for n in list(SINKS)[:3]]
