"""Kafka topics to real search clusters: documents show the newest record of a key, or the flow stops by name."""

from __future__ import annotations

import os
import uuid
from datetime import timedelta
from typing import Any

import pytest

from databus import Batching, Elasticsearch, Flow, KafkaTopics
from databus.core.errors import RecordRejectedError, SinkConflictError
from databus.demo.consumers import index_documents
from tests.integration.conftest import Started
from tests.integration.cut_bulk import KilledError, kill_in_mid_batch
from tests.integration.kafka_logs import Logs
from tests.integration.one_process import OneProcessWorld

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka", "opensearch"), tmp_path_factory.mktemp("search_from_kafka"))


@pytest.fixture
def logs(world: OneProcessWorld) -> Logs:
    return Logs(world.sandbox.address("kafka"))


class Indexed:
    """A topic, and a flow from it into an index."""

    def __init__(self, world: OneProcessWorld, logs: Logs, partitions: int, **options: Any):
        self.world, self.logs = world, logs
        self.topic = logs.create(logs.name("s"), partitions)
        self.index = f"from-kafka-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        sink = {"profile": options.pop("profile")} if "profile" in options else {}
        self.flow = Flow(
            name=f"flow_{uuid.uuid4().hex[:10]}",
            source=KafkaTopics(conn_id="kafka_east", topics=(self.topic,), start="earliest", **options),
            sinks=(Elasticsearch(conn_id="opensearch_default", index=self.index, **sink),),
            batching=Batching(max_rows=4, max_wait=timedelta(seconds=0.3)),
        )

    def write(self, partition: int, *values: str, key: str = "k") -> None:
        self.logs.write(self.topic, [{"key": key, "value": value, "partition": partition} for value in values])

    def run(self) -> Any:
        return self.world.run(self.flow)

    def values(self) -> dict[str, str]:
        found = index_documents(self.world.sandbox.address("opensearch"), self.index)
        return {name: document["value"] for name, document in found.items()}


def test_a_key_that_moves_as_its_topic_grows_is_newest_where_it_is_written_now(
    world: OneProcessWorld, logs: Logs
) -> None:
    """Ten records are read before it grows, ten more lie unread when the first of the new partitions is."""
    to = Indexed(world, logs, 2)
    to.write(1, *(f"{n}" for n in range(10)))
    to.run()
    assert to.values() == {"k": "9"}
    to.write(1, *(f"{n}" for n in range(10, 20)))
    logs.grow(to.topic, 4)
    to.write(3, "moved")
    to.run()
    assert to.values() == {"k": "moved"}
    to.write(3, "moved again")
    to.run()
    assert to.values() == {"k": "moved again"}
    to.write(1, "by a producer that has not heard of it")  # above all offsets of the new partition: it is the newest
    to.run()
    to.write(3, "nothing says that this is newer")
    with pytest.raises(SinkConflictError, match=rf"of row .*{to.topic}\[3\]:2 .* up to offset 2") as stopped:
        to.run()
    assert "several partitions" in str(stopped.value.hint)
    assert to.values() == {"k": "by a producer that has not heard of it"}


def test_a_topic_that_is_made_anew_overwrites_what_the_former_one_left(world: OneProcessWorld, logs: Logs) -> None:
    to = Indexed(world, logs, 1, on_gap="earliest")
    to.write(0, *(f"{n}" for n in range(10)))
    to.run()
    for number in range(2):
        logs.delete(to.topic)
        logs.create(to.topic)
        to.write(0, f"anew {number}")
        to.run()
        assert to.values() == {"k": f"anew {number}"}


def test_a_key_in_two_partitions_stops_the_flow_by_name(world: OneProcessWorld, logs: Logs) -> None:
    to = Indexed(world, logs, 2)
    to.write(0, *(f"{n}" for n in range(8)))
    to.run()
    to.write(1, "older or newer?")
    for _ in range(2):
        with pytest.raises(SinkConflictError, match=rf"{to.topic}\[1\]:0 has 0, and the batch reads .* offset 0"):
            to.run()
    assert to.values() == {"k": "7"}
    lenient = to.flow.sinks[0].model_copy(update={"profile": "at_least_once"})
    world.run(to.flow.model_copy(update={"sinks": (lenient,)}))
    assert to.values() == {"k": "7"}


def test_a_key_in_two_partitions_of_one_batch_stops_the_flow_by_name(world: OneProcessWorld, logs: Logs) -> None:
    to = Indexed(world, logs, 2)
    to.write(0, "a", "b")
    to.write(1, "c", "d")
    with pytest.raises(SinkConflictError, match=r"rows at .*\[0\]:1 and .*\[1\]:0, and nothing says"):
        to.run()
    assert to.values() == {}


@pytest.mark.parametrize("grows", [False, True], ids=["two partitions", "two, then four"])
def test_a_flow_that_is_edited_in_mid_batch_goes_on_over_its_own_documents(
    world: OneProcessWorld, logs: Logs, grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned anew in smaller batches, it meets documents of the batch that was cut short, in each of them."""
    to = Indexed(world, logs, 2)
    sink = to.flow.sinks[0].model_copy(update={"gc_deletes": "8d"})
    small = to.flow.model_copy(update={"sinks": (sink,)})
    large = to.flow.model_copy(update={"batching": Batching(max_rows=100, max_wait=timedelta(seconds=0.3))})
    to.write(0, "first", key="a")
    world.run(large)
    keys = "abcdefgh"
    for number in range(3):
        for place, key in enumerate(keys):
            to.write(place % 2, f"{number}", key=key)
    if grows:
        logs.grow(to.topic, 4)
        to.write(3, "moved", key="a")
    with monkeypatch.context() as patch:
        kill_in_mid_batch(patch)
        with pytest.raises(KilledError):
            world.run(large)
    held = to.values()
    assert sum(value != "first" for value in held.values()) == len(keys) // 2
    for place, key in enumerate(keys[1:], 1):  # behind what the batch that was cut short has read
        to.write(place % 2, "last", key=key)
    to.flow = small
    assert to.run().batches > 4
    assert to.values() == {"a": "moved" if grows else "2"} | dict.fromkeys(keys[1:], "last")


def test_behind_a_gap_the_first_batch_of_a_new_index_is_still_the_first(world: OneProcessWorld, logs: Logs) -> None:
    """The flow is changed while it is stopped, and what it had stopped at is gone from the topic meanwhile."""
    to = Indexed(world, logs, 1, on_gap="earliest")

    def taking(**options: Any) -> None:
        sink = to.flow.sinks[0].model_copy(update=options)
        to.flow = to.flow.model_copy(update={"sinks": (sink,)})

    def written(*values: str) -> None:
        for value in values:
            to.write(0, value, key=value)

    taking(mapping={"properties": {"value": {"type": "integer"}}})
    written("1", "two")
    with pytest.raises(RecordRejectedError, match="its first batch"):
        to.run()
    assert to.values() == {"1": "1"}
    written("3", "four")
    logs.cut(to.topic, 0, 2)
    taking(max_retries=3)
    for _ in range(2):
        with pytest.raises(RecordRejectedError, match="its first batch"):
            to.run()
    assert world.checkpoint(to.flow).first == {"elasticsearch": (to.index,)}
    taking(on_reject="quarantine")
    assert to.run().quarantined == 1
    assert to.values() == {"1": "1", "3": "3"}
    taking(on_reject=None)
    written("five", "6")
    assert to.run().quarantined == 1
    assert world.checkpoint(to.flow).first == {}
    assert to.values() == {"1": "1", "3": "3", "6": "6"}
