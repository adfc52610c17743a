"""Consumers that begin with a state, on a real Kafka that compacts it and whose retention passes meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from databus.consumer import Change, Changes, FileCheckpoint, StateTopic
from databus.consumer.places import client_settings
from databus.consumer.state_topics import StateTopics
from databus.core.errors import StateTopicError
from tests.integration.kafka_target import wait_until
from tests.integration.two_sinks import KEYS, TwoSinks, forget, keep_tombstones

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PARTITIONS = 2


@pytest.fixture
def cleaning(servers: str) -> Iterator[None]:
    """Let the broker look for what is to be compacted each half second, and not each fifteen."""
    admin = AdminClient({"bootstrap.servers": servers})
    (broker,) = map(str, admin.list_topics(timeout=20).brokers)

    def alter(how: AlterConfigOpType) -> None:
        entry = ConfigEntry("log.cleaner.backoff.ms", "500", incremental_operation=how)
        (done,) = admin.incremental_alter_configs(
            [ConfigResource(ResourceType.BROKER, broker, incremental_configs=[entry])]
        ).values()
        done.result(30)

    alter(AlterConfigOpType.SET)
    yield
    alter(AlterConfigOpType.DELETE)


@pytest.fixture
def flow(servers: str) -> Iterator[TwoSinks]:
    made = TwoSinks(servers, PARTITIONS, seed=3)
    yield made
    made.close()


class Table:
    """What a program keeps: key → (number, state, partition); it judges what comes."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, int, int]] = {}
        self._last: dict[int, int] = {}
        self._state: dict[int, int] = {}
        self.ends = 0
        self.came = 0

    def begin(self) -> None:
        self._last.clear()

    def apply(self, change: Change) -> None:
        self.came += 1
        if change.op == "e":
            self.ends += 1
            self.rows = {k: r for k, r in self.rows.items() if r[2] != change.partition or r[1] == change.state}
            return
        assert change.key is not None
        key, number = change.key["id"], int(change.event_id[1:])
        if change.state and change.state != self._state.get(change.partition):
            self._state[change.partition] = change.state  # a state that is read again begins with older rows
            self._last = {k: n for k, n in self._last.items() if k % PARTITIONS != change.partition}
        assert number > self._last.get(key, 0), f"{change} after {self._last[key]}"
        self._last[key] = number
        if change.deleted:
            self.rows.pop(key, None)
        else:
            assert change.after == {"id": key, "n": number}
            self.rows[key] = (number, change.state, change.partition)

    @property
    def numbers(self) -> dict[int, int]:
        return {key: number for key, (number, _, _) in self.rows.items()}


def records(servers: str, topic: str) -> int:
    """Return how many records a topic has that can be read."""
    count = ended = 0
    settings = {"bootstrap.servers": servers, "group.id": "none", "enable.partition.eof": True}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        while ended < PARTITIONS:
            message = consumer.poll(20)
            assert message is not None
            ended += message.error() is not None
            count += message.error() is None
    return count


@pytest.fixture
def reading(servers: str, flow: TwoSinks) -> Iterator[Callable[..., Changes]]:
    opened: list[Changes] = []

    def make(**options: Any) -> Changes:
        told = {"state": StateTopic(flow.name, patience_s=60, rounds=5), "start": "state", **options}
        opened.append(Changes(servers, flow.changes, **told))
        return opened[-1]

    yield make
    for changes in opened:
        changes.close()


@pytest.mark.usefixtures("cleaning")
def test_a_compacted_state_then_the_stream_through_kills_and_retention(
    servers: str, flow: TwoSinks, reading: Callable[..., Changes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep_tombstones(servers, flow.state, 0)
    flow.write(60)
    written = flow.rows

    def compacted() -> bool:
        flow.write()
        return records(servers, flow.state) < written // 2

    wait_until(compacted, "compaction of the state")
    keep_tombstones(servers, flow.state, 120_000)
    forget(servers, flow.changes, PARTITIONS)
    table, stop = Table(), threading.Event()
    thread = flow.writing(stop)
    path = tmp_path / "places"
    for kill_after in (5, KEYS // 2):
        table.begin()
        with reading(checkpoint=FileCheckpoint(path), commit_every_s=0) as changes:
            for number, change in enumerate(changes, 1):
                table.apply(change)
                if number == kill_after:
                    break
    table.begin()
    changes = reading(checkpoint=FileCheckpoint(path))
    caplog.set_level("INFO", "databus.consumer")
    for change in changes:
        if table.ends == 0 and change.op == "r" and "vain" not in caplog.text and not caplog.text.count("again"):
            flow.write(3)
            forget(servers, flow.changes, PARTITIONS)  # what comes behind the state is gone before it is read
        table.apply(change)
        if table.ends >= PARTITIONS and table.came > 400:
            break
    stop.set()
    thread.join()
    assert "read again from its beginning" in caplog.text
    changes.until_end = True
    table.begin()  # what was in hand comes again
    for change in changes:
        table.apply(change)
    assert table.numbers == flow.alive
    changes.close()

    flow.write(20)
    forget(servers, flow.changes, PARTITIONS)
    flow.write(5)
    table.begin()
    behind = reading(checkpoint=FileCheckpoint(path), start="committed", behind="state", until_end=True)
    for change in behind:
        table.apply(change)
    assert table.numbers == flow.alive, "also what was deleted while it was away"
    assert table.ends == 2 * PARTITIONS
    behind.close()
    assert list(reading(checkpoint=FileCheckpoint(path), until_end=True)) == []


def test_members_begin_with_the_state_of_what_they_are_given(
    servers: str, flow: TwoSinks, reading: Callable[..., Changes]
) -> None:
    """One that joins as the other has begun takes a partition over, with its state where that is not whole."""
    flow.write(20)
    member = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
    one, other = (reading(group=flow.name, client=member, commit_every_s=0) for _ in range(2))
    tables: list[Table] = []

    def read(changes: Changes) -> None:
        tables.append(Table())
        for change in changes:
            tables[-1 if changes is other else 0].apply(change)

    first = next(iter(one))
    assert first.op in "rd"
    threads = [threading.Thread(target=read, args=(each,)) for each in (one, other)]
    threads[0].start()
    wait_until(lambda: bool(tables) and tables[0].ends > 0, "the first member")
    threads[1].start()
    stop = threading.Event()
    writing = flow.writing(stop)
    wait_until(lambda: len(tables) == 2 and tables[1].came > 20, "the second member")
    stop.set()
    writing.join()

    def newest() -> dict[int, int]:
        found: dict[int, int] = {}
        for table in tables:
            for key, number in table.numbers.items():
                found[key] = max(number, found.get(key, 0))
        return found

    wait_until(lambda: all(newest().get(key) == number for key, number in flow.alive.items()), "all rows")
    for each in (one, other):
        each.stop()
    for thread in threads:
        thread.join()


def test_rows_of_an_open_transaction_are_behind_the_end(
    servers: str, flow: TwoSinks, reading: Callable[..., Changes]
) -> None:
    flow.write(3)
    topics = StateTopics(client_settings(servers), StateTopic(flow.name), {})
    ends = {place: topics.end(place) for place in ((flow.changes, 0), (flow.changes, 1))}
    session = flow.sessions["kafka"]
    session.begin()
    for key in (0, 1):
        flow.produce("kafka", key, 10_000 + key, False)
    session.producer.flush(30)
    assert {place: topics.end(place) for place in ends} == ends
    session.producer.abort_transaction(30)
    # the coordinator answers before the partitions have what ends the transaction
    wait_until(lambda: all(topics.end(place) > at for place, at in ends.items()), "the end of what was given up")
    topics.close()
    table = Table()
    with reading(until_end=True) as changes:
        for change in changes:
            table.apply(change)
    assert table.numbers == flow.alive


def test_a_topic_that_deletes_by_time_is_no_state(servers: str) -> None:
    flow = TwoSinks(servers, PARTITIONS, seed=1, config={"cleanup.policy": "delete"})
    try:
        with pytest.raises(StateTopicError, match=r"has cleanup\.policy=delete"):
            list(Changes(servers, flow.changes, start="state", state=StateTopic(flow.name)))
        with pytest.raises(StateTopicError, match=r"there is no topic gone\."):
            list(Changes(servers, flow.changes, start="state", state=StateTopic(flow.name, topic="gone.{route}")))
    finally:
        flow.close()
