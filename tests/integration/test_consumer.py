"""`databus.consumer` on a real Kafka: kills with each kind of checkpoint, rebalances, places to begin at."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from databus.consumer import Changes, DatabaseCheckpoint, FileCheckpoint, Handlers, Seen
from databus.core.errors import (
    MessageFormatError,
    PlaceGoneError,
    SourceSettingError,
    SourceUnavailableError,
    StoredPlaceError,
)
from tests.integration.changes_writer import Writer, make_topics
from tests.integration.kafka_target import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
_NUMBERS = iter(range(10**6))


@pytest.fixture
def topic(servers: str) -> str:
    name = f"consumed.{os.getpid()}.{next(_NUMBERS)}"
    make_topics(servers, (name, 4), (f"{name}.transactions", 1))
    return name


@pytest.fixture
def writer(servers: str, topic: str) -> Writer:
    return Writer(servers, topic, 4)


class Program:
    """Process that reads changes."""

    def __init__(self, **options: Any):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.consumer_program", json.dumps(options)], cwd=ROOT,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        self._process.send_signal(how)
        _, told = self._process.communicate(timeout=60)
        assert self._process.returncode in (0, -signal.SIGKILL), told.decode()[-3000:]


def kill_often(make: Callable[[], Program], done: Callable[[], bool], kills: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(kills):
        program = make()
        time.sleep(chance.uniform(0.8, 2.0))
        program.kill()
    program = make()
    try:
        wait_until(done, "everything that was written")
    finally:
        program.kill(signal.SIGTERM)


class Log:
    """What a program has written to its file."""

    def __init__(self, path: Path):
        self.path = path

    def lines(self) -> list[list[str]]:
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split() for line in text.splitlines()]

    def handled(self) -> Counter[str]:
        return Counter(line[1] for line in self.lines() if line[0] == "handled")

    def assert_only_unacknowledged_is_repeated(self) -> None:
        acked: set[str] = set()
        for word, event_id, *_ in self.lines():
            assert word == "acked" or event_id not in acked, f"{event_id} came again"
            if word == "acked":
                acked.add(event_id)


def in_order(log: Log) -> None:
    last: dict[str, int] = {}
    repeated: set[str] = set()
    for word, event_id, *place in log.lines():
        if word == "handled" and event_id not in repeated:
            repeated.add(event_id)
            partition, offset = place
            assert int(offset) > last.get(partition, -1)
            last[partition] = int(offset)


@pytest.mark.parametrize("kind", ["group", "file"])
def test_kills_repeat_at_most_what_was_not_acknowledged(
    servers: str, topic: str, writer: Writer, tmp_path: Path, kind: str
) -> None:
    log = Log(tmp_path / "log")
    options = {"servers": servers, "topics": topic, "kind": kind, "log": str(log.path)}
    options |= {"group": topic} if kind == "group" else {"file": str(tmp_path / "places")}
    writer.write(400)
    stop = threading.Event()
    thread = writer.writing(stop)
    stopped = threading.Timer(8, stop.set)
    stopped.start()
    try:
        kill_often(
            lambda: Program(**options), lambda: stop.is_set() and set(log.handled()) >= set(writer.written), 3, 1
        )
    finally:
        stop.set()
        stopped.cancel()
    thread.join()
    assert set(log.handled()) == set(writer.written)
    log.assert_only_unacknowledged_is_repeated()
    in_order(log)
    assert sum(log.handled().values()) - len(log.handled()) <= 3


def effects_of(path: Path) -> Counter[str]:
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return Counter(name for (name,) in connection.execute("SELECT event_id FROM effects"))


def make_tables(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE effects (event_id VARCHAR(100), place VARCHAR(300), txn VARCHAR(100))")
    DatabaseCheckpoint("effects", lambda: connection).create(cursor)
    connection.commit()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "effects.db"
    with closing(sqlite3.connect(path)) as connection:
        make_tables(connection)
    return path


def test_effects_and_checkpoint_in_one_transaction_are_exactly_once_through_kills(
    servers: str, topic: str, writer: Writer, database: Path
) -> None:
    options = {"servers": servers, "topics": topic, "kind": "database", "database": {"sqlite": str(database)}}
    writer.write(500)
    kill_often(lambda: Program(**options, every=7), lambda: len(effects_of(database)) >= len(writer.written) - 6, 3, 2)
    assert effects_of(database) == Counter(writer.written)


def test_transactions_are_whole_and_exactly_once_through_kills(
    servers: str, topic: str, writer: Writer, database: Path
) -> None:
    options = {
        "servers": servers, "topics": topic, "kind": "database", "database": {"sqlite": str(database)},
        "transaction_topic": f"{topic}.transactions",
    }  # fmt: skip
    made = writer.write_transactions(f"{topic}.transactions", 120)
    kill_often(lambda: Program(**options), lambda: len(effects_of(database)) >= len(writer.written), 3, 3)
    assert effects_of(database) == Counter(writer.written)
    with closing(sqlite3.connect(database)) as connection:
        found = dict(connection.execute("SELECT txn, COUNT(*) FROM effects GROUP BY txn"))
        order = [name for (name,) in connection.execute("SELECT txn FROM effects ORDER BY rowid")]
    assert found == made
    assert list(dict.fromkeys(order)) == list(made)


def test_three_members_share_and_repeat_at_most_what_was_not_acknowledged(
    servers: str, topic: str, writer: Writer, tmp_path: Path
) -> None:
    """Members come, leave and are killed while changes are written: each acknowledged change was handled once."""
    log = Log(tmp_path / "log")
    options = {"servers": servers, "topics": topic, "kind": "group", "log": str(log.path), "group": topic}
    stop, chance = threading.Event(), random.Random(4)
    thread = writer.writing(stop)
    members = [Program(**options) for _ in range(3)]
    for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        time.sleep(chance.uniform(2, 3))
        members.pop(0).kill(how)
        members.append(Program(**options))
    stop.set()
    thread.join()
    try:
        wait_until(lambda: set(log.handled()) >= set(writer.written), "everything that was written")
    finally:
        for member in members:
            member.kill(signal.SIGTERM)
    assert set(log.handled()) == set(writer.written)
    log.assert_only_unacknowledged_is_repeated()
    assert sum(log.handled().values()) - len(log.handled()) <= 3


def test_members_with_a_database_are_exactly_once_through_rebalances(
    servers: str, topic: str, writer: Writer, database: Path
) -> None:
    options = {
        "servers": servers, "topics": topic, "kind": "database", "group": topic,
        "database": {"sqlite": str(database)},
    }  # fmt: skip
    stop, chance = threading.Event(), random.Random(5)
    thread = writer.writing(stop)
    members = [Program(**options) for _ in range(2)]
    for how in (signal.SIGTERM, signal.SIGKILL):
        time.sleep(chance.uniform(2, 3))
        members.pop(0).kill(how)
        members.append(Program(**options))
    stop.set()
    thread.join()
    try:
        wait_until(lambda: len(effects_of(database)) >= len(writer.written) - 8, "nearly everything")
    finally:
        for member in members:
            member.kill(signal.SIGTERM)
    assert effects_of(database) == Counter(writer.written)


def ids(changes: Changes) -> list[str]:
    with changes:
        return [change.event_id for change in changes]


@pytest.fixture
def reading(servers: str, topic: str) -> Iterator[Callable[..., Changes]]:
    opened: list[Changes] = []

    def make(**options: Any) -> Changes:
        opened.append(Changes(servers, **{"topics": topic, "until_end": True, **options}))
        return opened[-1]

    yield make
    for changes in opened:
        changes.close()


def test_what_is_in_hand_as_a_loop_is_left_comes_again(
    reading: Callable[..., Changes], topic: str, writer: Writer
) -> None:
    writer.write(50)
    changes = reading(group=topic)
    first = next(iter(changes))
    again = [change.event_id for change in changes]
    assert again[0] == first.event_id
    assert sorted(again) == sorted(writer.written)
    assert [change.event_id for change in changes] == []
    changes.close()
    assert ids(reading(group=topic)) == []

    other = reading(group=f"{topic}.other")
    for number, change in enumerate(other, 1):
        if number == 20:
            other.ack(change)
            break
    rest = [change.event_id for change in other]
    assert len(rest) == 30

    explicit = reading(group=f"{topic}.explicit", ack_by="explicit")
    came = list(explicit)
    explicit.ack(came[9])
    acked = sum(c.partition == came[9].partition and c.offset <= came[9].offset for c in came)
    explicit.rewind()
    assert len(list(explicit)) == 50 - acked


def test_places_to_begin_at(
    servers: str, reading: Callable[..., Changes], topic: str, writer: Writer, tmp_path: Path
) -> None:
    writer.write(30)
    time.sleep(0.05)
    when = datetime.now(UTC)
    time.sleep(0.05)
    with closing(FileCheckpoint(tmp_path / "latest")) as checkpoint:
        assert ids(reading(start="latest", checkpoint=checkpoint)) == []
    before = len(writer.written)
    writer.write(20)
    later = writer.written[before:]
    assert sorted(ids(reading(start=when))) == sorted(later)
    assert sorted(ids(reading(checkpoint=FileCheckpoint(tmp_path / "latest")))) == sorted(later)
    assert sorted(ids(reading())) == sorted(ids(reading(start="earliest"))) == sorted(writer.written)
    everything = list(reading())
    (place,) = {(c.topic, c.partition, c.offset) for c in everything if c.event_id == writer.written[-1]}
    from_there = ids(reading(start={place[:2]: place[2]}))
    assert sum(c.partition != place[1] for c in everything) + 1 == len(from_there)
    shares = [ids(reading(share=(number, 3))) for number in range(3)]
    assert sorted(event_id for share in shares for event_id in share) == sorted(writer.written)
    assert ids(reading(topics=f"^{topic}$")) == ids(reading())


def test_partitions_that_are_added_are_read_from_their_beginning(
    servers: str, topic: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka.admin import NewPartitions

    monkeypatch.setattr("databus.consumer.feed._LOOK_S", 0.5)
    writer.write(10)
    admin = AdminClient({"bootstrap.servers": servers})
    with Changes(servers, topic, start="latest") as changes:
        came: list[str] = []

        def read() -> None:
            came.extend(change.event_id for change in changes)

        thread = threading.Thread(target=read)
        thread.start()
        wait_until(lambda: changes._feed is not None, "the consumer")
        admin.create_partitions([NewPartitions(topic, 6)])[topic].result(30)
        wait_until(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 6, "partitions")
        more = Writer(changes.cluster, topic, 6, seed=9)
        more._number = 1000
        more.write(60)
        wait_until(lambda: len(came) >= 60, "what was written to them")
        changes.stop()
        thread.join()
    assert sorted(came) == sorted(more.written)


def test_retention_that_passed_the_checkpoint_is_told(
    servers: str, reading: Callable[..., Changes], topic: str, writer: Writer
) -> None:
    writer.write(40)
    changes = reading(group=topic)
    for number, _ in enumerate(changes):
        if number == 5:
            break
    changes.close()
    admin = AdminClient({"bootstrap.servers": servers})
    ends = {TopicPartition(topic, p, -1): None for p in range(4)}
    for done in admin.delete_records(list(ends)).values():
        done.result(30)
    with pytest.raises(PlaceGoneError, match=rf"{topic}:\d no longer has offset \d+"):
        list(reading(group=topic))


def test_what_cannot_be_read_stops_or_is_skipped_and_told(
    servers: str, reading: Callable[..., Changes], topic: str, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    writer.write(10)
    writer._producer.begin_transaction()
    writer._producer.produce(topic, b"no change", partition=0)
    writer._producer.commit_transaction(30)
    writer.write(10)
    changes = reading(group=topic)
    for _ in range(2):
        with pytest.raises(MessageFormatError, match=rf"{topic}:0:\d+ cannot be read"):
            list(changes)
    changes.close()
    skipping = reading(group=topic, unreadable="skip")
    rest = ids(skipping)
    assert skipping.skipped == 1
    assert "skipped" in caplog.text
    assert set(rest) <= set(writer.written)
    assert ids(reading(group=topic)) == []


def test_wrong_names_and_groups_in_use_are_named(
    reading: Callable[..., Changes], topic: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.write(5)
    for group in ("", topic):
        with pytest.raises(SourceSettingError, match=r"there is no topic no\.such"):
            list(reading(topics="no.such", group=group))
    monkeypatch.setattr("databus.consumer.cluster._TIMEOUT_S", 2.0)
    unreachable = Changes("127.0.0.1:1", topic)
    with pytest.raises(SourceUnavailableError, match="cannot list topics"):
        list(unreachable)
    member = reading(group=topic, until_end=False)
    next(iter(member))
    with pytest.raises(StoredPlaceError, match=f"group {topic} has members"):
        list(reading(group=topic, share=(0, 1)))


def test_async_handlers_and_seen(reading: Callable[..., Changes], topic: str, writer: Writer) -> None:
    writer.write(40)

    async def collect() -> list[str]:
        return [change.event_id async for change in reading(group=topic)]

    assert sorted(asyncio.run(collect())) == sorted(writer.written)
    assert ids(reading(group=topic)) == []

    handlers, came = Handlers(), []
    handlers.on("shop.*")(lambda change: came.append(change.after["n"]))
    seen = Seen()
    changes = reading(seen=seen, columns=("n",), where={"id": range(20)})
    changes.run(handlers)
    assert (len(came), handlers.handled, len(seen)) == (40, 40, 40)
    changes.close()
    changes.run(handlers)
    assert len(came) == 40, "the same process has handled them"
    assert ids(reading(tables=("crm.*",), group=f"{topic}.2")) == []


def test_transactions_in_their_order_with_filters(
    reading: Callable[..., Changes], topic: str, writer: Writer, tmp_path: Path
) -> None:
    made = writer.write_transactions(f"{topic}.transactions", 40)
    options = {"transaction_topic": f"{topic}.transactions"}
    found = [(t.id, len(t), t.complete) for t in reading(**options, group=topic).transactions(memory_changes=3)]
    assert found == [(name, size, True) for name, size in made.items()]
    some = list(reading(**options, where=lambda change: change.after["id"] < 10).transactions(folder=tmp_path))
    assert all(t.complete and t.expected == made[t.id] for t in some)
    assert 0 < sum(map(len, some)) < sum(made.values())
    assert [t.id for t in reading(**options, group=topic).transactions()] == []
