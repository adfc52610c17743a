"""`databus.consumer` on a real Kafka: what is acknowledged, places to begin at, what is refused, transactions."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from databus.consumer import Changes, FileCheckpoint, Handlers, Seen
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

_NUMBERS = iter(range(10**6))


@pytest.fixture
def topic(servers: str) -> str:
    name = f"consumed.{os.getpid()}.{next(_NUMBERS)}"
    make_topics(servers, (name, 4), (f"{name}.transactions", 1))
    return name


@pytest.fixture
def writer(servers: str, topic: str) -> Writer:
    return Writer(servers, topic, 4)


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
    assert sorted(ids(reading(topics=f"^{topic}$"))) == sorted(writer.written)


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
    monkeypatch.setattr("databus.consumer.places._TIMEOUT_S", 2.0)
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
        with reading(group=topic) as changes:
            return [change.event_id async for change in changes]

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
