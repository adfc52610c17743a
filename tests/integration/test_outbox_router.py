"""Events of an outbox, record by record as Debezium's own outbox event router writes them from the same table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Flow, Kafka, Route, SequenceTable
from databus.bench.peer import SETTINGS, DebeziumPeer
from databus.sandbox import Sandbox
from tests.integration.kafka_target import consume
from tests.integration.one_process import OneProcessWorld
from tests.ports import ports_from

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
KINDS = ("Order", "Customer")
ROUTER = {
    "transforms": "outbox",
    "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    "transforms.outbox.table.fields.additional.placement": "type:header,version:header",
    "transforms.outbox.route.tombstone.on.empty.payload": "true",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
}
VALUES: dict[str, dict[str, str]] = {
    "json": {"value.converter": "org.apache.kafka.connect.storage.StringConverter"},
    "string": {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    },
}
"""Form of the payload → the connector's converters that give it."""
PAYLOADS = (
    '{"order": 17, "amount": 1.50, "note": "é\\u00e9"}',
    "[1, 2]",
    'no JSON: "\\ \n\t',
    "ü€😀/",
    "\x01\x1f\x7f\u2028\b\f\r",
    None,
)


class Router(DebeziumPeer):
    """Debezium with its outbox event router."""

    def _config(self) -> dict[str, str]:
        return {**super()._config(), **self._settings, "database.server.id": "5421"}


def shown(records: list[Any], names: tuple[str, ...]) -> list[Any]:
    """Return key, value and headers of records; Connect orders headers as they were added."""
    found = []
    for record in records:
        headers = dict(record.headers() or ())
        found.append((record.key(), record.value(), {name: headers[name] for name in names}))
    return found


def records_of(servers: str, topic: str, count: int) -> list[Any]:
    """Return a topic's records once it has so many."""
    deadline = time.monotonic() + 120
    while True:
        try:
            found = consume(servers, topic)
        except KeyError:  # not made yet
            found = []
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline, f"{topic} has {len(found)} records of {count}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Servers of its own: the connector reads a server's log from its beginning."""
    sandbox = Sandbox(tmp_path_factory.mktemp("router"), ports_from=ports_from(28_900))
    try:
        sandbox.up(("zookeeper", "kafka", "mysql", "debezium"))
        yield sandbox
    finally:
        sandbox.destroy()


@pytest.mark.parametrize("form", VALUES)
def test_records_are_those_of_debezium_s_router(own: Sandbox, tmp_path: Path, form: str) -> None:
    world = OneProcessWorld(own, tmp_path)
    servers, table = own.address("kafka"), f"events_{form}"
    theirs, ours = f"theirs_{form}", f"ours_{form}"
    with world.sql("shop") as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {table}")
        cursor.execute(
            f"CREATE TABLE {table} (id bigint AUTO_INCREMENT PRIMARY KEY, created_at datetime(6) NOT NULL DEFAULT "
            "CURRENT_TIMESTAMP(6), aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL, "
            "type varchar(255) NOT NULL, version int NOT NULL, payload longtext)"
        )
        for number, payload in enumerate(PAYLOADS * 4):
            cursor.execute(
                f"INSERT INTO {table} (aggregatetype, aggregateid, type, version, payload) VALUES (%s, %s, %s, 3, %s)",
                (KINDS[number % 2], str(number % 3), f"T{number}", payload),
            )
    settings = {
        **SETTINGS, **ROUTER, **VALUES[form],
        "transforms.outbox.route.topic.replacement": theirs + ".${routedByValue}",
    }  # fmt: skip
    router = Router(world.sandbox, f"router_{form}", [f"shop.{table}"], settings)
    router.create()
    try:
        flow = Flow(
            name=f"events_{form}",
            source=SequenceTable(
                conn_id="mysql_shop", table=f"shop.{table}", lag_window=timedelta(milliseconds=1)
            ),
            transforms=(Route(by="aggregatetype", routes=KINDS),),
            sinks=(
                Kafka(
                    conn_id="kafka_east", topic=f"{ours}.{{route}}", envelope="outbox", payload=form,
                    event_headers=("type", "version"), replication_factor=1,
                ),
            ),
        )  # fmt: skip
        world.run(flow)
        names = ("id", "type", "version")
        for kind in KINDS:
            mine = consume(servers, f"{ours}.{kind}")
            assert len(mine) == len(PAYLOADS) * 2
            assert shown(mine, names) == shown(records_of(servers, f"{theirs}.{kind}", len(mine)), names)
    finally:
        router.delete()
