"""Records in JSON Schema and Protobuf on a real registry, read back by Confluent's own deserialisers."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from kazoo.client import KazooClient

from databus import NotNull
from databus.core.errors.sink import SinkAccessError, SinkSchemaError
from databus.core.findings import Level
from databus.ops.health.doctor import examine_flow
from databus.sandbox.certificates import authority
from tests.integration.conftest import Started
from tests.integration.kafka_target import consume
from tests.integration.one_process import OneProcessWorld
from tests.integration.registry_front import secured_front
from tests.integration.secured_world import walk
from tests.integration.statements import run_sql
from tests.integration.test_kafka_avro import PATH, Orders
from tests.unit.rows.protobuf_messages import flags_of, message_type, values_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

LOGIN, PASSWORD, TOKEN = "writer", "registry-secret-7716", "registry-token-40913"
both = pytest.mark.parametrize("form", ["protobuf", "json_schema"])


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka", "mysql", "apicurio"), tmp_path_factory.mktemp("registered"))


@pytest.fixture(scope="module")
def client(world: OneProcessWorld) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": f"http://{world.sandbox.address('apicurio')}{PATH}"}) as opened:
        yield opened


@pytest.fixture(scope="module")
def front(world: OneProcessWorld) -> Iterator[int]:
    pair = authority(world.home).issue("registry")
    with secured_front(world.sandbox.address("apicurio"), pair, LOGIN, PASSWORD, TOKEN) as port:
        yield port


def registry(world: OneProcessWorld, port: int, **changed: Any) -> str:
    """Return the id of a connection to the front, with fields changed; None in `extra` takes one out."""
    trusted = {"ssl.ca.location": str(authority(world.home).certificate), **changed.pop("extra", {})}
    extra = {"path": PATH, "timeout": 5, "max.retries": 0, **trusted}
    told = {
        "conn_type": "http", "host": "localhost", "port": port, "schema": "https", "login": LOGIN,
        "password": PASSWORD, **changed, "extra": {k: v for k, v in extra.items() if v is not None},
    }  # fmt: skip
    name = f"registry_sink_{len(world.environment)}"
    world.environment[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(told)
    return name


def records(shop: Orders, client: SchemaRegistryClient) -> list[tuple[Any, Any]]:
    """Return (key, value) as Confluent's deserialiser reads them: documents, or (values, flags) of the after-image."""
    found = consume(shop.world.sandbox.address("kafka"), shop.topic)
    of_key, of_value = (SerializationContext(shop.topic, field) for field in (MessageField.KEY, MessageField.VALUE))
    if shop.sink.format == "json_schema":
        read = JSONDeserializer(None, schema_registry_client=client)
        return [(read(message.key(), of_key), read(message.value(), of_value)) for message in found]
    texts = [str(client.get_latest_version(f"{shop.topic}-{part}").schema.schema_str) for part in ("key", "value")]
    options = {"use.deprecated.format": False}
    keys = ProtobufDeserializer(message_type(texts[0], "Key"), options)
    values = ProtobufDeserializer(message_type(texts[1], "Envelope"), options)
    return [(keys(message.key(), of_key), values(message.value(), of_value)) for message in found]


def images(shop: Orders, client: SchemaRegistryClient) -> list[dict[str, Any]]:
    """Return the after-images, columns that are NULL or absent left out."""
    found = []
    for _, value in records(shop, client):
        if value is not None:
            after = value["after"] if shop.sink.format == "json_schema" else values_of(value.after)
            found.append({name: one for name, one in after.items() if one is not None})
    return found


@both
def test_a_flow_of_all_types(world: OneProcessWorld, client: SchemaRegistryClient, form: str) -> None:
    shop = Orders(
        world,
        "id BIGINT UNSIGNED PRIMARY KEY, `bestellt am` DATETIME(3), ts TIMESTAMP(6) NULL, d DATE, t TIME(2), y YEAR, "
        "amount DECIMAL(12,2), big DECIMAL(38,30), f FLOAT, x DOUBLE, flag BIT(9), note TEXT, raw VARBINARY(9), "
        "kind ENUM('new','paid'), parts SET('a','b'), doc JSON, tiny TINYINT UNSIGNED",
        form,
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
        )
    shop.run()
    found = records(shop, client)
    assert len(found) == 5  # one is held back, one is a tombstone
    common = {
        "id": 2**64 - 1, "d": "2026-11-27", "ts": "2026-11-27T07:08:09.123456Z", "t": "-12:00:01.50", "y": 2026,
        "f": 1.5, "x": -2.25, "flag": 257, "note": "ä€", "kind": "paid", "parts": "a,b", "doc": '{"k":1}', "tiny": 255,
    }  # fmt: skip
    if form == "protobuf":
        (value,) = [value for key, value in found if key.id == 2**64 - 1]
        assert (values_of(value.after), flags_of(value.after)) == (
            {**common, "bestellt_am": "2026-11-27T07:08:09.123", "amount": "-1.50", "big": "0.5" + "0" * 29,
             "raw": b"\0\xff"},
            {},
        )  # fmt: skip
        second = [value for key, value in found if key.id == 2]
        assert [one and one.op for one in second] == ["c", "u", "d", None]
        assert flags_of(second[0].after) == {"d": "invalid_date"}
        assert flags_of(second[1].after)["id"] == "absent"
        place = (value.source.file, value.source.pos)
    else:
        (value,) = [value for key, value in found if key["id"] == 2**64 - 1]
        after = {**value["after"], "big": Decimal(str(value["after"]["big"]))}
        assert after == {
            **common, "bestellt am": "2026-11-27T07:08:09.123", "amount": -1.5, "big": Decimal("0.5"), "raw": "AP8="
        }  # fmt: skip
        second = [value for key, value in found if key["id"] == 2]
        assert [one and one["op"] for one in second] == ["c", "u", "d", None]
        assert second[0]["source"]["flags"] == ["after.d:invalid_date"]
        assert second[1]["after"] == {"note": "b"}
        place = (value["source"]["file"], value["source"]["pos"])
    with closing(shop.sink.tracing(world.connections)) as reader:
        (seen,) = reader.newest([f"{shop.topic}[0]", f"{shop.topic}[1]"], '{"id":18446744073709551615}', "")
    assert (seen.change.op, seen.change.key) == ("c", '{"id":18446744073709551615}')
    assert (seen.change.file, seen.change.position) == place


@both
def test_columns_come_and_go_and_an_incompatible_alter_stops_with_nothing_written(
    world: OneProcessWorld, client: SchemaRegistryClient, form: str
) -> None:
    shop = Orders(world, "id INT PRIMARY KEY, note VARCHAR(20) NOT NULL", form)
    shop.insert("(1, 'a')")
    shop.run()
    subject = f"{shop.topic}-value"
    client.set_compatibility(subject, level="BACKWARD")
    shop.sql(f"ALTER TABLE {shop.name}.orders ADD COLUMN n INT NOT NULL DEFAULT 5")
    shop.insert("(2, 'b', 6)")
    shop.sql(f"ALTER TABLE {shop.name}.orders DROP COLUMN note")
    shop.insert("(3, 7)")
    shop.run()
    shop.sql(f"ALTER TABLE {shop.name}.orders ADD COLUMN m INT")
    shop.insert("(4, 8, 9)")
    shop.run()
    written = [{"id": 1, "note": "a"}, {"id": 2, "note": "b", "n": 6}, {"id": 3, "n": 7}, {"id": 4, "n": 8, "m": 9}]
    assert sorted(images(shop, client), key=lambda image: int(image["id"])) == written
    versions = client.get_versions(subject)
    shop.sql(f"ALTER TABLE {shop.name}.orders MODIFY n VARCHAR(20)")
    shop.insert("(5, 'x', 1)")
    with pytest.raises(SinkSchemaError, match=r"orders \(id int, n varchar\(20\), m int\)") as refused:
        shop.run()
    assert subject in refused.value.message
    assert client.get_versions(subject) == versions
    assert len(images(shop, client)) == 4


def test_a_registry_behind_tls_and_a_login_and_no_secret_is_shown(
    world: OneProcessWorld, client: SchemaRegistryClient, front: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shop = Orders(world, "id INT PRIMARY KEY", "protobuf", registry(world, front))
    shop.insert("(1)")
    assert [f.level for f in examine_flow(shop.flow, world.connections) if "schema registry" in f.subject] == [Level.OK]
    shop.run()
    bearer = {
        "bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": TOKEN,
        "bearer.auth.logical.cluster": "lsrc-1",
    }  # fmt: skip
    sink = shop.sink.model_copy(
        update={"registry_conn_id": registry(world, front, login="", password="", extra=bearer)}
    )
    shop.flow = shop.flow.model_copy(update={"sinks": (sink,)})
    shop.sql(f"ALTER TABLE {shop.name}.orders ADD COLUMN n INT")
    shop.insert("(2, 3)")
    shop.run()
    assert sorted(image["id"] for image in images(shop, client)) == [1, 2]
    texts = {"log": caplog.text.encode(), "flow": json.dumps(shop.flow.to_json()).encode(), **dict(kept(world))}
    assert any(name.endswith("/checkpoint") for name in texts)
    assert any(name.endswith("records.db") for name in texts)
    for secret in (PASSWORD, TOKEN):
        forms = (secret.encode(), base64.b64encode(f"{LOGIN}:{secret}".encode()))
        assert [name for name, data in texts.items() if any(form in data for form in forms)] == []


def kept(world: OneProcessWorld) -> Iterator[tuple[str, bytes]]:
    """Yield what flows leave behind: znodes with the plans, the store of records, segments."""
    client = KazooClient(world.sandbox.address("zookeeper"))
    client.start(timeout=30)
    try:
        for node in walk(client, "/databus"):
            yield node, client.get(node)[0]
    finally:
        client.stop()
        client.close()
    for path in world.home.rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes()


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"password": "surely-wrong-3391"}, "sink_access_denied"),
        ({"login": "", "password": "", "extra": {
            "bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "surely-wrong-3391",
            "bearer.auth.logical.cluster": "lsrc-1"}}, "sink_access_denied"),
        ({"extra": {"ssl.ca.location": None}}, "tls_ca_unknown"),
    ],
    ids=["password", "token", "unknown authority"],
)  # fmt: skip
def test_what_a_registry_refuses_is_named_and_nothing_is_written(
    world: OneProcessWorld, front: int, changed: dict[str, Any], code: str
) -> None:
    shop = Orders(world, "id INT PRIMARY KEY", "json_schema", registry(world, front, **changed))
    shop.insert("(1)")
    (found,) = [f for f in examine_flow(shop.flow, world.connections) if "schema registry" in f.subject]
    assert found.level is Level.ERROR
    with pytest.raises(SinkAccessError, match="schema registry") as refused:
        shop.run()
    assert refused.value.code == code
    assert refused.value.hint
    assert "surely-wrong" not in f"{refused.value}{refused.value.hint}{found.message}{found.hint}"
    admin = AdminClient({"bootstrap.servers": world.sandbox.address("kafka")})
    assert shop.topic not in admin.list_topics(timeout=30).topics
