"""State and changes through `Changes`, on librdkafka's mock brokers: they compact nothing and describe no topic."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from databus.consumer import Changes, DatabaseCheckpoint, FileCheckpoint, Seen, StateTopic
from databus.consumer.state_topics import MARKER_TOPIC, StateTopics
from databus.core.errors import ConfigError, PlaceGoneError, StateBehindError, StateLostError, StateTopicError
from databus.sinks.kafka import markers

PARTITIONS = 4
"""Of a topic at librdkafka's mock brokers."""
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Producer:
    return Producer({"test.mock.num.brokers": 1, "log_level": 0, "bootstrap.servers": "none:1"})


class Flow:
    """Writes rows as the two sinks of a flow do, with their markers."""

    def __init__(self, cluster: Producer):
        self.name = f"f{next(_NUMBERS)}"
        self.topics = {"kafka": f"cdc.{self.name}", "state": f"state.{self.name}"}
        broker = next(iter(cluster.list_topics(timeout=20).brokers.values()))
        self.servers = f"{broker.host}:{broker.port}"
        for topic in (*self.topics.values(), MARKER_TOPIC):
            cluster.list_topics(topic, timeout=20)  # mock brokers make what is asked for
        self._producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 0})
        self._rows = 0
        self.alive: dict[str, int] = {}

    def write(self, keys: str, sinks: str = "kafka state", batch: int = 0) -> None:
        """Write changes of keys, "a" sets one and "-a" deletes it, to sinks; a batch moves their markers, too."""
        number = self._rows
        for sink in sinks.split():
            self._rows = number
            for key in keys.split():
                self._row(sink, key.lstrip("-"), deleted=key.startswith("-"))
            self._producer.flush(20)
            if batch:
                self.mark(sink, batch)

    def _row(self, sink: str, key: str, *, deleted: bool) -> None:
        self._rows += 1
        image, event = {"id": key, "n": self._rows}, f"e{self._rows}"
        if sink == "kafka":
            source = {"db": "shop", "table": "t", "event_id": event, "ts_ms": 5}
            images = {"before": image, "after": None} if deleted else {"before": None, "after": image}
            value: dict[str, Any] = {"op": "d" if deleted else "u", "source": source, **images}
        else:
            value = {**image, "__op": "d" if deleted else "u", "__deleted": deleted}
        headers = [("event_id", event), ("table", "shop.t")]
        made = {"key": json.dumps({"id": key}), "partition": ord(key[0]) % PARTITIONS, "headers": headers}
        self._producer.produce(self.topics[sink], json.dumps(value), **made)
        if deleted:
            self._producer.produce(self.topics[sink], None, **made)
            self.alive.pop(key, None)
        else:
            self.alive[key] = self._rows

    def mark(self, sink: str, batch: int, *, last: bool = True, group: str = "") -> None:
        marker = markers.Marker(batch, "h", last=last, end={"pos": batch})
        key = markers.MarkerKey("default", group or self.name, sink)
        with closing(Consumer({"bootstrap.servers": self.servers, "group.id": key.group})) as consumer:
            place = TopicPartition(markers.MARKER_TOPIC, 0, batch, marker.metadata())
            consumer.commit(offsets=[place], asynchronous=False)


@pytest.fixture
def flow(cluster: Producer, monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.setattr(
        StateTopics, "_topic_settings", lambda *_: {"cleanup.policy": "compact", "delete.retention.ms": "86400000"}
    )
    return Flow(cluster)


@pytest.fixture
def reading(flow: Flow) -> Iterator[Callable[..., Changes]]:
    opened: list[Changes] = []

    def make(**options: Any) -> Changes:
        state = StateTopic(flow.name, patience_s=20)
        told = {"start": "state", "state": state, "until_end": True, **options}
        opened.append(Changes(flow.servers, flow.topics["kafka"], **told))
        return opened[-1]

    yield make
    for changes in opened:
        changes.close()


def applied(changes: Any, table: dict[str, int]) -> list[tuple[str, str]]:
    """Apply changes to a table as a program does; return what came."""
    came, last = [], dict[str, int]()
    states: dict[str, int] = {}
    for change in changes:
        if change.op == "e":
            for key in [key for key in table if ord(key[0]) % PARTITIONS == change.partition]:
                if states.get(key) != change.state:
                    del table[key]
            came.append(("e", str(change.partition)))
            continue
        key = change.key["id"]
        number = int(change.event_id[1:])
        assert number > last.get(key, 0), f"{change} is older than {last[key]}"
        last[key], states[key] = number, change.state
        if change.deleted:
            table.pop(key, None)
        else:
            table[key] = change.after["n"]
        came.append((change.op, key))
    return came


def test_the_topic_of_markers_is_the_sinks() -> None:
    assert MARKER_TOPIC == markers.MARKER_TOPIC


def test_state_then_what_came_since_then_the_stream(
    flow: Flow, reading: Callable[..., Changes], tmp_path: Path
) -> None:
    flow.write("a b c d -c a", batch=1)
    changes, table = reading(checkpoint=FileCheckpoint(tmp_path / "places")), {"z": 0}
    came = applied(changes, table)
    assert table == flow.alive
    assert sorted(came) == sorted(
        [("r", "a"), ("r", "a"), ("r", "b"), ("r", "c"), ("r", "d"), ("d", "c"), *(("e", str(n)) for n in range(4))]
    )
    changes.close()
    flow.write("b -d e", batch=2)
    came = applied(reading(checkpoint=FileCheckpoint(tmp_path / "places")), table)
    assert sorted(came) == [("d", "d"), ("u", "b"), ("u", "e")], "it goes on behind its state"
    assert table == flow.alive


def test_what_one_sink_has_alone_is_waited_for_and_comes_once(flow: Flow, reading: Callable[..., Changes]) -> None:
    flow.write("a b", batch=1)
    flow.write("a b a -b", sinks="kafka", batch=2)
    changes, table = reading(until_end=False), dict[str, int]()
    iterator = iter(changes)
    changes._begin(whole=False)
    for _ in range(20):
        changes._fill()
    assert not changes._pending, "the state is behind the changes"
    flow._rows -= 4
    flow.write("a b a -b", sinks="state", batch=2)
    flow._rows -= 1
    flow.write("c", sinks="state", batch=3)
    changes.until_end = True
    for _ in range(20):
        changes._fill()
    assert not changes._pending, "the changes are behind the state"
    flow._rows -= 1
    flow.write("c", sinks="kafka", batch=3)
    came = applied(iterator, table)
    assert table == flow.alive
    assert [key for op, key in came if op == "u"] == [], came


def test_a_kill_before_the_end_begins_with_the_state_again(
    flow: Flow, reading: Callable[..., Changes], tmp_path: Path
) -> None:
    flow.write("a b c d e f", batch=1)
    table: dict[str, int] = {}
    path = tmp_path / "places"
    first = reading(checkpoint=FileCheckpoint(path))
    for number, change in enumerate(first):
        first.ack(change)
        if number == 3:
            break
    first.close()
    assert not path.exists() or json.loads(path.read_text())["next_offsets"] == {}
    applied(reading(checkpoint=FileCheckpoint(path)), table)
    assert table == flow.alive
    opened = json.loads(path.read_text())["next_offsets"]
    assert sum(opened[flow.topics["kafka"]].values()) == 6


def test_a_place_that_is_gone_is_given_up_for_the_state(
    flow: Flow, reading: Callable[..., Changes], tmp_path: Path
) -> None:
    """Mock brokers keep everything: the places are behind the end, which Kafka answers alike."""
    flow.write("a b c -c", batch=1)
    topic, path = flow.topics["kafka"], tmp_path / "places"
    path.write_text(json.dumps({"v": 1, "next_offsets": {topic: {str(n): 1000 for n in range(PARTITIONS)}}}))
    with reading(checkpoint=FileCheckpoint(path), behind="stop") as stopped, pytest.raises(PlaceGoneError):
        list(stopped)
    table = {"z": 1, "c": 1}
    changes = reading(checkpoint=FileCheckpoint(path), start="committed", behind="state")
    applied(changes, table)
    assert table == flow.alive
    changes.close()
    assert max(json.loads(path.read_text())["next_offsets"][topic].values()) < 1000
    flow.write("d", batch=2)
    assert applied(reading(checkpoint=FileCheckpoint(path)), table) == [("u", "d")]


def test_a_rewind_before_the_end_begins_with_the_state_again(
    flow: Flow, reading: Callable[..., Changes], tmp_path: Path
) -> None:
    flow.write("a b c d", batch=1)
    changes = reading(checkpoint=FileCheckpoint(tmp_path / "places"))
    for number, _ in enumerate(changes):
        if number == 2:
            changes.rewind()
            break
    table: dict[str, int] = {}
    assert sorted(op for op, _ in applied(changes, table)) == ["e"] * 4 + ["r"] * 4
    assert table == flow.alive


def test_with_a_database_the_place_is_stored_with_the_end(
    flow: Flow, reading: Callable[..., Changes], tmp_path: Path
) -> None:
    flow.write("a b c d e -e", batch=1)
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        checkpoint = DatabaseCheckpoint("shop", lambda: sqlite3.connect(path))
        checkpoint.create(connection.cursor())
        connection.commit()
        changes = reading(checkpoint=checkpoint)
        ends = 0
        for change in changes:
            cursor = connection.cursor()
            checkpoint.save(cursor)
            connection.commit()
            ends += change.op == "e"
            assert len(checkpoint.load(cursor)) == ends
        assert ends == PARTITIONS
    assert list(reading(checkpoint=DatabaseCheckpoint("shop", lambda: sqlite3.connect(path)))) == []


def test_a_member_of_a_group_begins_with_the_state(flow: Flow, reading: Callable[..., Changes]) -> None:
    flow.write("a b c d e f g h", batch=1)
    changes, table = reading(group=flow.name), dict[str, int]()
    applied(changes, table)
    assert table == flow.alive
    changes.close()
    with closing(Consumer({"bootstrap.servers": flow.servers, "group.id": flow.name})) as consumer:
        places = [TopicPartition(flow.topics["kafka"], partition) for partition in range(PARTITIONS)]
        assert sum(place.offset for place in consumer.committed(places, 20)) == 8


def test_filters_leave_ends_in(flow: Flow, reading: Callable[..., Changes]) -> None:
    flow.write("a b", batch=1)
    came = [(c.op, c.after) for c in reading(tables=("shop.*",), where={"id": "a"}, columns=("id",))]
    assert sorted(came, key=str) == [("e", None)] * 4 + [("r", {"id": "a"})]


def test_sinks_that_do_not_meet_are_named(flow: Flow, reading: Callable[..., Changes]) -> None:
    flow.write("a", batch=1)
    flow.write("b", sinks="kafka", batch=2)
    state = StateTopic(flow.name, patience_s=0.5)
    with pytest.raises(StateBehindError, match="sink kafka stands at batch 2, sink state at batch 1: for 0 s") as told:
        list(reading(state=state))
    assert "databus lag" in told.value.hint
    with pytest.raises(StateBehindError, match="sink kafka stands at no batch, sink state at no batch"):
        list(reading(state=StateTopic("no_such_flow", patience_s=0.1)))


def test_topics_that_are_no_state_are_named(
    flow: Flow, reading: Callable[..., Changes], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.write("a", batch=1)
    for policy in ("delete", "compact,delete"):
        found = {"cleanup.policy": policy, "delete.retention.ms": "1"}
        monkeypatch.setattr(StateTopics, "_topic_settings", lambda *_, found=found: found)
        with pytest.raises(StateTopicError, match=f"has cleanup.policy={policy}"):
            list(reading())
    monkeypatch.setattr(StateTopics, "_partitions", lambda _, topic: 3 if topic.startswith("state") else 4)
    with pytest.raises(StateTopicError, match=r"state\.f\d+ has 3 partitions, and cdc\.f\d+, .* state, 4"):
        list(reading())
    monkeypatch.setattr(StateTopics, "_partitions", lambda _, topic: 0 if topic.startswith("state") else 4)
    with pytest.raises(StateTopicError, match=r"there is no topic state\.f\d+, the state of cdc"):
        list(reading())


def test_tombstones_that_may_be_gone_begin_another_round(
    flow: Flow, reading: Callable[..., Changes], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.write("a", batch=1)
    found = {"cleanup.policy": "compact", "delete.retention.ms": "0"}
    monkeypatch.setattr(StateTopics, "_topic_settings", lambda *_: found)
    with pytest.raises(StateLostError, match=r"was read 2 times in vain: reading took longer than .* keeps tombstones"):
        list(reading(state=StateTopic(flow.name, rounds=2)))


def test_options_that_do_not_go_together_are_named(flow: Flow) -> None:
    state, changes = StateTopic(flow.name), flow.topics["kafka"]
    for options in (
        {"start": "state"}, {"behind": "state"}, {"state": state}, {"start": "state", "state": state, "seen": Seen()},
        {"start": "state", "state": state, "transaction_topic": "t"}, {"behind": "skip"},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            Changes(flow.servers, changes, **options)  # type: ignore[arg-type]


def test_templates_say_which_topic_is_the_state() -> None:
    assert StateTopic("f").topic_of("cdc.shop.orders") == "state.shop.orders"
    one = StateTopic("f", topic="{database}-{table}-now", changes="{database}.{table}")
    assert one.topic_of("shop.orders") == "shop-orders-now"
    assert StateTopic("f", topic="now", changes="all").topic_of("all") == "now"
    with pytest.raises(ConfigError, match="is none of"):
        StateTopic("f").topic_of("other.shop")
    with pytest.raises(ConfigError, match="differ in route"):
        StateTopic("f", topic="now")
    with pytest.raises(ConfigError, match="are templates"):
        StateTopic("f", topic="{route")
    with pytest.raises(ConfigError):
        StateTopic("f", sink="kafka")
    with pytest.raises(ConfigError):
        StateTopic("f", rounds=0)


def test_transactions_of_tables_that_nobody_asked_for_are_left_out(flow: Flow) -> None:
    """The topic of boundaries has none here: it shows that records are read without a state, too."""
    flow.write("a b")
    with Changes(
        flow.servers, flow.topics["kafka"], transaction_topic=flow.topics["state"], until_end=True, tables=("x.*",)
    ) as changes:
        assert list(changes.transactions()) == []
