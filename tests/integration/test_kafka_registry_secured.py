"""A schema registry behind TLS and a login, and what is said when either is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from databus.core.errors import RegistryAccessError
from databus.core.findings import Level
from databus.ops.health.doctor import examine_flow
from databus.sandbox.certificates import authority
from tests.integration.conftest import Started
from tests.integration.kafka_world import KafkaWorld
from tests.integration.registry_front import secured_front
from tests.integration.registry_writer import writer
from tests.integration.test_kafka_registry import arrived, flow_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

LOGIN, PASSWORD = "reader", "registry-secret-5083"


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> KafkaWorld:
    return KafkaWorld(started("zookeeper", "kafka", "apicurio"), tmp_path_factory.mktemp("secured_registry"))


@pytest.fixture(scope="module")
def front(world: KafkaWorld) -> Iterator[int]:
    pair = authority(world.home).issue("registry")
    with secured_front(world.sandbox.address("apicurio"), pair, LOGIN, PASSWORD) as port:
        yield port


def registry(world: KafkaWorld, port: int, **changed: Any) -> dict[str, Any]:
    """Return what a connection to the front says, with fields changed; None in `extra` takes one out."""
    trusted = {"ssl.ca.location": str(authority(world.home).certificate), **changed.pop("extra", {})}
    extra = {"path": "/apis/ccompat/v7", "timeout": 5, "max.retries": 0, **trusted}
    return {
        "conn_type": "http", "host": "localhost", "port": port, "schema": "https", "login": LOGIN,
        "password": PASSWORD, **changed, "extra": {k: v for k, v in extra.items() if v is not None},
    }  # fmt: skip


def records_of(world: KafkaWorld) -> str:
    topic = world.east.create(world.east.name("tls"))
    with SchemaRegistryClient({"url": f"http://{world.sandbox.address('apicurio')}/apis/ccompat/v7"}) as client:
        value = writer(client, "avro", topic, "id", "note")({"id": 7, "note": "ö"})
    world.east.write(topic, [{"key": "a", "value": value}])
    return topic


def flow_through(world: KafkaWorld, topic: str, connection: dict[str, Any]) -> Any:
    name = f"registry_{topic.replace('.', '_')}_{len(world.environment)}"
    world.environment[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(connection)
    return flow_of(world, topic, "avro", registry_conn_id=name)


def test_values_are_decoded_through_tls_and_a_login(world: KafkaWorld, front: int) -> None:
    topic = records_of(world)
    flow = flow_through(world, topic, registry(world, front))
    assert [f.level for f in examine_flow(flow, world.connections) if "schema registry" in f.subject] == [Level.OK]
    world.run(flow)
    assert [(row["id"], json.loads(row["value"])["note"]) for row in arrived(world, topic)] == [(7, "ö")]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"password": "surely-wrong-2207"}, "registry_access_denied"),
        ({"login": "", "password": ""}, "registry_access_denied"),
        ({"extra": {"ssl.ca.location": None}}, "tls_ca_unknown"),
    ],
    ids=["password", "no login", "unknown authority"],
)
def test_what_is_refused_is_named_and_nothing_moves(
    world: KafkaWorld, front: int, changed: dict[str, Any], code: str
) -> None:
    topic = records_of(world)
    flow = flow_through(world, topic, registry(world, front, **changed))
    (found,) = [f for f in examine_flow(flow, world.connections) if "schema registry" in f.subject]
    assert (found.level, found.code) == (Level.ERROR, code)
    with pytest.raises(RegistryAccessError, match="schema registry") as refused:
        world.run(flow)
    assert refused.value.code == code
    assert refused.value.hint
    assert not refused.value.retryable
    assert "surely-wrong" not in f"{refused.value}{refused.value.hint}{found.message}{found.hint}"
    assert f"{topic}.out" not in world.east.admin.list_topics(timeout=30).topics or not arrived(world, topic)
