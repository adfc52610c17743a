"""Records in Avro on a real registry, read back by Confluent's own deserialiser: types, ALTERs, kills, the quarantine.

Run as a program, it plans one batch and dies between the registration of its schemas and the plan.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from databus import Filter, Flow, Hash, Kafka, Mask, MysqlBinlog, NotNull, RenameColumns, __version__
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.consumer import Changes
from databus.core.errors import ConfigError
from databus.core.errors.sink import SinkSchemaError
from databus.core.findings import Level
from databus.ops.checkpoint.amend import Attribution
from databus.ops.health.doctor import examine_flow
from databus.ops.quarantine import show as quarantine
from databus.ops.quarantine.replay import replay_rows
from databus.ops.services import open_services
from databus.records.quarantine.rows import Selection
from databus.registry import flow_from_json
from databus.runtime.context import RunIdentity
from databus.sandbox import Sandbox, SandboxOptions
from tests.integration.conftest import Started
from tests.integration.kafka_target import consume
from tests.integration.one_process import OneProcess, OneProcessWorld
from tests.integration.statements import run_sql

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PATH = "/apis/ccompat/v7"


class Orders:
    """A database of one test's own, its table `orders`, and flows of it to topics of their own."""

    def __init__(self, world: OneProcessWorld, columns: str, form: Any = "avro", registry: str = ""):
        self.world, self.name = world, f"a{uuid.uuid4().hex[:8]}"
        self.sql(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
        ((file, position, *_),) = self.sql("SHOW MASTER STATUS")
        self.sql(f"CREATE TABLE {self.name}.orders ({columns})")
        self.flow = Flow(
            name=f"{form}_{self.name}",
            source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{self.name}.*",), start=f"{file}:{position}"),
            sinks=(
                Kafka(
                    conn_id="kafka_east",
                    format=form,
                    registry_conn_id=registry or world.override("schema_registry_default", extra={"path": PATH}),
                    partitions=2,
                ),
            ),
        )
        self.topic = f"cdc.{self.name}.orders"

    @property
    def sink(self) -> Kafka:
        (found,) = self.flow.sinks
        assert isinstance(found, Kafka)
        return found

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        with self.world.sql() as connection:
            return run_sql(connection, *statements)

    def insert(self, values: str) -> None:
        self.sql(f"INSERT INTO {self.name}.orders VALUES {values}")

    def run(self) -> None:
        self.world.run(self.flow)

    def records(self, client: SchemaRegistryClient) -> list[tuple[Any, Any]]:
        """Return (key, value) as Confluent's deserialiser reads them, partition by partition."""
        read = AvroDeserializer(client)
        return [
            (
                read(message.key(), SerializationContext(self.topic, MessageField.KEY)),
                read(message.value(), SerializationContext(self.topic, MessageField.VALUE)),
            )
            for message in consume(self.world.sandbox.address("kafka"), self.topic)
        ]


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka", "mysql", "apicurio"), tmp_path_factory.mktemp("avro"))


@pytest.fixture
def client(world: OneProcessWorld) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": f"http://{world.sandbox.address('apicurio')}{PATH}"}) as opened:
        yield opened


def test_values_of_all_types_tombstones_and_what_a_check_holds_back(
    world: OneProcessWorld, client: SchemaRegistryClient
) -> None:
    shop = Orders(
        world,
        "id BIGINT UNSIGNED PRIMARY KEY, `bestellt am` DATETIME(3), ts TIMESTAMP(6) NULL, d DATE, t TIME(2), y YEAR, "
        "amount DECIMAL(12,2), big DECIMAL(38,30), f FLOAT, x DOUBLE, flag BIT(9), note TEXT, raw VARBINARY(9), "
        "kind ENUM('new','paid'), parts SET('a','b'), doc JSON, tiny TINYINT UNSIGNED",
    )
    shop.flow = shop.flow.model_copy(update={"checks": (NotNull("kind"),)})
    with world.sql() as connection:
        run_sql(
            connection,
            "SET SESSION sql_mode=''",
            f"INSERT INTO {shop.name}.orders VALUES (18446744073709551615, '2026-11-27 07:08:09.123', "
            "'2026-11-27 07:08:09.123456', '2026-11-27', '-12:00:01.50', 2026, -1.5, 0.5, 1.5, -2.25, b'100000001', "
            "'ä€', x'00ff', 'paid', 'a,b', '{\"k\": 1}', 255)",
            f"INSERT INTO {shop.name}.orders (id, d, kind) VALUES (2, '0000-00-00', 'new'), (3, NULL, NULL)",
            "SET SESSION binlog_row_image='MINIMAL'",
            f"UPDATE {shop.name}.orders SET note='b' WHERE id=2",
            f"DELETE FROM {shop.name}.orders WHERE id=2",
            f"TRUNCATE {shop.name}.orders",
        )
    shop.run()
    records = shop.records(client)
    large = [value for key, value in records if key["id"] == Decimal(18446744073709551615)]
    (value,) = large
    assert value["after"] == {
        "id": Decimal(18446744073709551615), "bestellt_am": "2026-11-27T07:08:09.123", "d": "2026-11-27",
        "ts": "2026-11-27T07:08:09.123456Z", "t": "-12:00:01.50", "y": 2026, "amount": Decimal("-1.50"),
        "big": Decimal("0.5"), "f": 1.5, "x": -2.25, "flag": 257, "note": "ä€", "raw": b"\0\xff", "kind": "paid",
        "parts": "a,b", "doc": '{"k":1}', "tiny": 255, "__flags": None,
    }  # fmt: skip
    second = [value for key, value in records if key == {"id": Decimal(2)}]
    assert [one and one["op"] for one in second] == ["c", "u", "d", None]
    assert (second[0]["after"]["d"], second[0]["after"]["__flags"]) == ("0000-00-00", {"d": "invalid_date"})
    assert second[0]["source"]["flags"] == ["after.d:invalid_date"]
    assert (second[1]["after"]["note"], second[1]["after"]["id"]) == ("b", None)
    assert second[1]["after"]["__flags"]["id"] == "absent"
    assert "note" not in second[1]["after"]["__flags"]
    assert len(records) == 5
    registry = f"http://{world.sandbox.address('apicurio')}{PATH}"
    with Changes(world.sandbox.address("kafka"), shop.topic, registry=registry, until_end=True) as changes:
        seen = list(changes)
    assert sorted(change.op for change in seen) == ["c", "c", "d", "u"]
    (first,) = [change for change in seen if change.key == {"id": Decimal(18446744073709551615)}]
    assert first.after == {name: column for name, column in value["after"].items() if name != "__flags"}
    (changed,) = [change for change in seen if change.op == "u"]
    assert (changed.key, changed.before, changed.after) == ({"id": 2}, {"id": 2}, {"note": "b"})
    reader = shop.sink.tracing(world.connections)
    with closing(reader):
        (found,) = reader.newest([f"{shop.topic}[0]", f"{shop.topic}[1]"], '{"id":18446744073709551615}', "")
    assert (found.change.op, found.change.key) == ("c", '{"id":18446744073709551615}')
    assert (found.change.table, found.change.file) == (f"{shop.name}.orders", value["source"]["file"])
    with open_services(shop.flow, world.connections, world.settings) as services:
        (row,) = quarantine.select(shop.flow, services, Selection())
    assert (row.key, json.loads(row.payload)["after"]["id"]) == ('{"id":3}', 3)
    latest = json.loads(str(client.get_latest_version(f"{shop.topic}-value").schema.schema_str))
    assert (latest["name"], latest["namespace"]) == ("Envelope", shop.topic)


def test_columns_come_and_go_and_an_incompatible_alter_stops_with_nothing_written(
    world: OneProcessWorld, client: SchemaRegistryClient
) -> None:
    shop = Orders(world, "id INT PRIMARY KEY, note VARCHAR(20) NOT NULL")
    shop.insert("(1, 'a')")
    shop.run()
    subject = f"{shop.topic}-value"
    client.set_compatibility(subject, level="FULL_TRANSITIVE")
    shop.sql(f"ALTER TABLE {shop.name}.orders ADD COLUMN n INT NOT NULL DEFAULT 5")
    shop.insert("(2, 'b', 6)")
    shop.sql(f"ALTER TABLE {shop.name}.orders DROP COLUMN note")
    shop.insert("(3, 7)")
    shop.run()
    assert len(client.get_versions(subject)) == 3
    shop.sql(f"ALTER TABLE {shop.name}.orders MODIFY n VARCHAR(20)")
    shop.insert("(4, 'x')")
    with pytest.raises(SinkSchemaError, match=rf"table {shop.name}\.orders \(id int, n varchar\(20\)\)") as refused:
        shop.run()
    assert subject in refused.value.message
    assert "another `topic`" in refused.value.hint
    images = [value["after"] for _, value in shop.records(client)]
    assert sorted((image["id"], image.get("note"), image.get("n")) for image in images) == [
        (1, "a", None), (2, "b", 6), (3, None, 7),
    ]  # fmt: skip
    hidden = shop.flow.model_copy(update={"transforms": (RenameColumns({"n": "n_text"}),)})
    world.run(hidden)
    assert {value["after"].get("n_text") for _, value in shop.records(client)} == {None, "x"}


def test_a_kill_between_registration_and_plan_writes_each_row_once(
    world: OneProcessWorld, client: SchemaRegistryClient
) -> None:
    shop = Orders(world, "id INT PRIMARY KEY")
    shop.insert("(1), (2), (3)")
    told = {"home": str(world.home), "sandbox": str(world.sandbox.home), "flow": shop.flow.to_json()}
    told["environment"] = world.environment
    done = subprocess.run([sys.executable, "-m", __name__, json.dumps(told)], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-4000:]
    registered = client.get_latest_version(f"{shop.topic}-value").schema_id
    with open_services(shop.flow, world.connections, world.settings) as services:
        assert services.store.pending_plan(shop.flow.name) is None
    shop.world.run(shop.flow, lease_wait_s=60)
    records = shop.records(client)
    assert sorted(key["id"] for key, _ in records) == [1, 2, 3]
    assert client.get_versions(f"{shop.topic}-value") == [1]
    (message, *_) = consume(world.sandbox.address("kafka"), shop.topic)
    assert int.from_bytes(message.value()[1:5], "big") == registered


def test_rows_are_filtered_and_hidden_where_they_are_decoded(
    world: OneProcessWorld, client: SchemaRegistryClient
) -> None:
    shop = Orders(world, "id INT PRIMARY KEY, state VARCHAR(9), card VARCHAR(20), amount DECIMAL(9,2), email TEXT")
    hiding = (Filter("state <> 'draft'"), Mask("card", keep_last=2), Mask("amount"), Hash("email"))
    shop.flow = shop.flow.model_copy(update={"transforms": hiding, "checks": (NotNull("email"),)})
    shop.insert("(1, 'draft', '4711-0815', 1.5, 'a@b'), (2, 'paid', '4711-0816', NULL, 'a@b')")
    shop.insert("(3, 'paid', '4711-0817', 31337.25, NULL)")
    shop.sql(f"UPDATE {shop.name}.orders SET state = 'paid', amount = 31337.25 WHERE id = 1")
    shop.sql(f"UPDATE {shop.name}.orders SET state = 'draft', card = NULL WHERE id = 2")
    shop.run()
    records = shop.records(client)
    hidden = {"state": "paid", "card": "***15", "amount": "***", "email": hashlib.sha256(b"a@b").hexdigest()}
    hidden["__flags"] = None
    first = [(v["op"], v["before"], v["after"]) for k, v in records if k == {"id": 1}]
    assert first == [("c", None, {"id": 1, **hidden})]
    second = {"id": 2, **hidden, "card": "***16", "amount": None}
    assert [(v and v["op"], v and (v["before"], v["after"])) for k, v in records if k == {"id": 2}] == [
        ("c", (None, second)), ("d", (second, None)), (None, None),
    ]  # fmt: skip
    assert not [k for k, _ in records if k == {"id": 3}]
    with open_services(shop.flow, world.connections, world.settings) as services:
        (row,) = quarantine.select(shop.flow, services, Selection())
    third = {"id": 3, "state": "paid", "card": "***17", "amount": "***", "email": None}
    assert (row.key, json.loads(row.payload)["after"]) == ('{"id":3}', third)
    mended = shop.flow.model_copy(update={"checks": ()})
    with open_services(mended, world.connections, world.settings) as services:
        run: Any = OneProcess(), RunIdentity("replay", "", __version__)
        (done,) = replay_rows(mended, services, run, Selection(), Attribution("ada", "the check was lifted"))
        assert (done.replayed, done.held) == (1, 0)
        assert replay_rows(mended, services, run, Selection(), Attribution("ada", "once more")) == []
    sent = [v for k, v in shop.records(client) if k == {"id": 3}]
    assert [(v["op"], v["after"]) for v in sent] == [("c", {**third, "__flags": None})]
    raw = b"".join(m.value() or b"" for m in consume(world.sandbox.address("kafka"), shop.topic))
    assert not any(secret in raw for secret in (b"4711", b"a@b", (3133725).to_bytes(3, "big"), b"31337"))
    latest = json.loads(str(client.get_latest_version(f"{shop.topic}-value").schema.schema_str))
    (image,) = (field["type"][1] for field in latest["fields"] if field["name"] == "before")
    assert {field["name"]: field["type"][1] for field in image["fields"][:5]} == {
        "id": "int", **dict.fromkeys(("state", "card", "amount", "email"), "string"),
    }  # fmt: skip


def test_what_keeps_spark_s_lane_is_refused_by_name(world: OneProcessWorld) -> None:
    shop = Orders(world, "id INT PRIMARY KEY")
    shop.insert("(1)")
    found = [f for f in examine_flow(shop.flow, world.connections) if "schema registry" in f.subject]
    assert [finding.level for finding in found] == [Level.OK]
    strict = shop.flow.model_copy(update={"lane": "spark"})
    errors = [f for f in examine_flow(strict, world.connections) if f.level is Level.ERROR]
    assert [finding.code for finding in errors] == ["lane_required"]
    failing = shop.flow.model_copy(update={"checks": (NotNull("id", severity="fail"),)})
    with pytest.raises(ConfigError, match=r'format="avro" needs rows as they are decoded: .*not_null\(id\)'):
        world.run(failing)


def _die_before_the_plan() -> None:
    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    ZooKeeperCheckpoints.write_plan = die  # type: ignore[method-assign]


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    _die_before_the_plan()
    OneProcessWorld(
        Sandbox(Path(given["sandbox"]), options=SandboxOptions()), Path(given["home"]), given["environment"]
    ).run(flow_from_json(given["flow"]))
