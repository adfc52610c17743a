"""Routes of a mirror on two real clusters: its state, its groups and its map, and the same by the command."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from fastapi.testclient import TestClient

from databus import AlertWhen, Flow
from databus.cli.server import choice
from databus.ops.mirror.consumer_groups import GroupSync
from databus.ops.mirror.translate import mirror_sink
from databus.ops.services import open_services
from databus.web.app import create_app
from databus.web.installation import Access, DagFlow, Installation
from databus.web.operations import add_operations
from tests.integration import kafka_world as given
from tests.integration.command_line import CliHere
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_target import consume
from tests.integration.kafka_world import KafkaWorld, caught_up
from tests.integration.mirrors import mirror_of
from tests.served_app import served
from tests.unit.web.described import checked

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world


class Desk:
    """The routes over the DAG of one mirror."""

    def __init__(self, world: KafkaWorld, mirror: Flow, folder: Path):
        def flow_of(dag_id: str) -> DagFlow | None:
            return DagFlow(mirror, "spark") if dag_id == mirror.name else None

        def nobody_is_refused() -> set[str]:
            return {mirror.name}

        ok = nobody_is_refused
        access = Access(ok, ok, ok, ok, ok, lambda: "ada", lambda *_: None)
        installation = Installation(flow_of, world.connections, lambda *_: None)
        self.app = create_app(ok, ok, folder, partial(add_operations, access=access, installation=installation))
        self.name, self.client = mirror.name, TestClient(self.app)

    def get(self, path: str, status: int = 200, **asked: Any) -> Any:
        answer = self.client.get(f"/api/v1/dags/{self.name}{path}", params=asked)
        assert answer.status_code == status, answer.text
        return checked("get", path, answer)


@pytest.fixture(autouse=True)
def environment(world: KafkaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installation's settings, as an API server has them."""
    for name, value in (
        ("INSTALLATION", world.settings.installation), ("RECORDS_URL", world.settings.records_url),
        ("SEGMENT_STORE", world.settings.segment_store),
    ):  # fmt: skip
        monkeypatch.setenv(f"DATABUS_{name}", value)


def offsets(logs: Logs, topic: str) -> dict[tuple[int, bytes], int]:
    """Return (partition, value) → offset of what a consumer sees; values are unique."""
    return {(m.partition(), m.value()): m.offset() for m in consume(logs.servers, topic)}


def commit(logs: Logs, group: str, topic: str, places: dict[int, int]) -> None:
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in places.items()]

    def done() -> bool:
        (future,) = logs.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]).values()
        return not any(place.error for place in future.result().topic_partitions)

    logs.until(done, f"offsets of {group}")


def test_state_groups_and_map_are_those_of_the_clusters(world: KafkaWorld, tmp_path: Path) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("r"), 2)
    carried, waits = f"{topic}-carried", f"{topic}-waits"
    mirror = mirror_of(
        world, topic, policy="prefix", groups=(f"{topic}-*",), heartbeat=timedelta(seconds=10),
        source_conn_id=world.override("kafka_east"), alerts=(AlertWhen(),),
    )  # fmt: skip
    desk, theirs = Desk(world, mirror, tmp_path), mirror_sink(mirror).target(topic)
    assert desk.get("/mirror")["batch"] is None

    east.write(topic, [{"value": "first", "partition": p} for p in (0, 1)])
    east.transaction(topic, [{"value": "aborted", "partition": p} for p in (0, 1)], commit=False)
    east.write(topic, [{"value": "last", "partition": p} for p in (0, 1)])
    commit(east, carried, topic, {0: offsets(east, topic)[0, b"last"]})
    caught_up(world, mirror)
    with (
        open_services(mirror, world.connections, world.settings) as services,
        closing(GroupSync(mirror, services)) as sync,
    ):
        sync.carry()
    commit(east, waits, topic, {1: 0})
    old = int(1000 * (time.time() - 100))
    east.write(topic, [{"value": f"new {n}", "partition": 1, "timestamp": old} for n in range(3)])

    here, there = offsets(east, topic), offsets(west, theirs)
    now = desk.get("/mirror")
    assert now["problems"] == now["alerts"] == []
    assert (now["flow"], now["paused"]) == (mirror.name, None)
    assert now["batch"] >= 1
    (worst,) = (one for one in now["lag"]["worst"] if one["topic"] == topic)
    assert (worst["partition"], worst["records"], worst["target"]) == (1, 3, theirs)
    assert now["lag"]["seconds"] == worst["seconds"] >= 100
    assert now["heartbeat"]["age_seconds"] < 300
    assert now["groups"] == {"followed": 2, "on_target": 1, "missing": [waits]}
    with open_services(mirror, world.connections, world.settings) as services:
        services.store.pause(mirror.name, "ada", "a disk is moved")  # type: ignore[attr-defined]
    assert "by ada" in desk.get("/mirror")["paused"]

    last = (0, b"last")
    assert desk.get("/mirror/group", name=carried)["places"] == [{
        "topic": topic, "partition": 0, "offset": here[last], "other_topic": theirs, "other_partition": 0,
        "other_offset": there[last], "committed": there[last],
    }]  # fmt: skip
    assert desk.get("/mirror/group", name=carried, back=True)["places"] == [{
        "topic": theirs, "partition": 0, "offset": there[last], "other_topic": topic, "other_partition": 0,
        "other_offset": here[last], "committed": here[last],
    }]  # fmt: skip
    (first,) = desk.get("/mirror/group", name=waits)["places"]
    assert (first["other_offset"], first["committed"]) == (there[1, b"first"], None)
    refused = desk.get("/mirror/group", 422, name=f"{topic}-*")
    assert refused["code"] == "config_invalid"
    assert carried in refused["hint"]

    for partition in (0, 1):
        spans = desk.get("/mirror/offsets", topic=topic, partition=partition, limit=1_000)["items"]
        mapped = {one["from"] + n: one["other_from"] + n for one in spans for n in range(one["to"] - one["from"] + 1)}
        moved = {here[place]: offset for place, offset in there.items() if place[0] == partition}
        assert mapped == moved
    says_the_same(
        world,
        desk,
        mirror,
        tmp_path,
        (
            ("offsets", mirror.name, topic, "0"),
            ("offsets", mirror.name, theirs, "1", "--back"),
            ("offsets", mirror.name, topic, "0", "--from", "1", "--to", "9"),
        ),
    )


def says_the_same(world: KafkaWorld, desk: Desk, mirror: Flow, folder: Path, verbs: Sequence[Sequence[str]]) -> None:
    """Compare what the command prints of a mirror with a server and without."""
    told = f"from databus.registry import flow_from_json\nflow = flow_from_json({mirror.to_json()!r})\n"
    (folder / "mirrors.py").write_text(f"# databus\n{told}")
    cli = CliHere(world, folder)
    cli.environment |= {**world.environment, choice.TOKEN: "a-token"}
    with served(desk.app) as address:
        for words in verbs:
            direct, asked = cli("mirror", *words), cli("--server", address, "mirror", *words)
            assert asked.stdout == direct.stdout
            assert cli.json("--server", address, "mirror", *words)


def test_a_cluster_that_is_away_takes_nothing_else_away(world: KafkaWorld, tmp_path: Path) -> None:
    east = world.east
    topic = east.create(east.name("r"))
    east.write(topic, [{"value": "v"}])
    mirror = mirror_of(
        world, topic, groups=(f"{topic}-*",), heartbeat=timedelta(seconds=10), timeout=timedelta(seconds=2),
        target_conn_id=world.override("kafka_west", extra={"bootstrap.servers": "127.0.0.1:1"}),
    )  # fmt: skip
    now = Desk(world, mirror, tmp_path).get("/mirror")
    assert [(one["of"], bool(one["message"]), bool(one["hint"])) for one in now["problems"]] == [
        ("heartbeat", True, True)
    ]
    assert now["lag"]["records"] >= 1
    assert (now["heartbeat"], now["groups"], now["batch"]) == (None, None, None)
