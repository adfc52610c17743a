"""What each profile of the Kafka sink does on a real broker, and chunks of slow rows."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from databus.core.errors import ConfigError, SinkUnavailableError
from databus.core.findings import Level
from databus.sinks.kafka import Kafka, writer
from databus.sinks.kafka.markers import MARKER_TOPIC
from tests.contract.sink_contract import inserts, source_plan
from tests.integration.kafka_target import KafkaAdapter, forget_kept

pytestmark = pytest.mark.integration

PLAIN = ("at_least_once", "throughput_first")


@pytest.fixture(autouse=True)
def no_kept_producers() -> Iterator[None]:
    yield
    forget_kept()


@pytest.mark.parametrize("profile", PLAIN)
def test_a_batch_tried_again_is_there_twice_and_none_is_missing(servers: str, profile: str) -> None:
    adapter = KafkaAdapter(servers, partitions=3, slots=2, profile=profile)
    sink = adapter.make_sink()
    plan, changes = adapter.plan(sink, 1, 0), inserts(range(60), 1500)
    halves = [[c for c in changes if c.id % 3 % 2 == slot] for slot in range(2)]
    receipts = [adapter.write(sink, plan, half, slot) for slot, half in enumerate(halves)]
    assert [r.written for r in receipts] == [len(half) for half in halves]
    assert sum(f["records"] for r in receipts for f in r.outputs.values()) == 60
    assert Counter(adapter.delivered()) == {c.event_id: 1 for c in changes}
    again = adapter.write(sink, plan, halves[0], 0)
    assert not again.duplicate
    assert Counter(adapter.delivered()) == {c.event_id: 2 if c in halves[0] else 1 for c in changes}


@pytest.mark.parametrize("profile", PLAIN)
def test_no_transaction_and_no_marker_is_made(
    profile: str, tmp_path_factory: pytest.TempPathFactory, servers: str
) -> None:
    adapter = KafkaAdapter(servers, profile=profile)
    sink = adapter.make_sink()
    plan = adapter.plan(sink, 1, 0)
    receipt = adapter.write(sink, plan, inserts(range(5), 1500))
    # Transactions end with a control record, which takes an offset: here the next record follows at once.
    following = adapter.write(sink, adapter.plan(sink, 2, 1), inserts([7], 2500))
    (first,), (second,) = receipt.outputs.values(), following.outputs.values()
    assert second["first_offset"] == first["last_offset"] + 1
    assert sink.markers() == [None] or MARKER_TOPIC not in sink.topics.partitions()
    assert not sink.wrote_any_of(plan)
    assert sink.abandon(plan) == {}
    assert sink.refresh() == 0


@pytest.mark.parametrize("profile", PLAIN)
def test_a_broker_that_is_away_is_named(servers: str, profile: str) -> None:
    adapter = KafkaAdapter(servers, profile=profile)
    plan = adapter.plan(adapter.make_sink(), 1, 0)
    away = adapter.make_unreachable_sink()
    batches = adapter.encode(inserts(range(5), 1500), plan)
    there = adapter.make_sink().writer(plan)
    unreachable = type(there)(there.sink, plan, away._producer({}), {}, profile)  # type: ignore[call-arg, arg-type, attr-defined]
    with pytest.raises(SinkUnavailableError, match="unacknowledged"):
        unreachable.write(batches, 0)


@pytest.mark.parametrize("profile", ["exactly_once", *PLAIN])
def test_preflight_says_what_is_promised(servers: str, profile: str) -> None:
    sink = KafkaAdapter(servers, profile=profile).make_sink()
    findings = sink.preflight()
    assert all(f.level is not Level.ERROR for f in findings)
    (promise,) = [f.message for f in findings if f.subject.endswith(": profile")]
    assert promise.startswith(f"{profile}: ")
    assert any(f.subject.endswith("offsets.retention.minutes") for f in findings) == (profile == "exactly_once")


def test_profiles_are_refused_where_they_make_no_sense() -> None:
    with pytest.raises(ConfigError, match="chunk_rows"):
        Kafka(conn_id="kafka", profile="at_least_once", chunk_rows=10)
    with pytest.raises(ConfigError, match="acks"):
        Kafka(conn_id="kafka", profile="throughput_first", producer={"acks": 0})
    with pytest.raises(ConfigError, match="profile"):
        Kafka(conn_id="kafka", profile="fast")


def test_the_retention_of_markers_is_the_brokers(servers: str) -> None:
    assert KafkaAdapter(servers).make_sink().marker_retention_s() == 7 * 24 * 3600


def test_slow_rows_end_a_chunk_in_time_and_a_retry_goes_on_behind_it(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks of the two attempts are cut at other places; each row is there once, in order."""
    adapter = KafkaAdapter(servers)
    sink = adapter.make_sink()
    plan, changes = adapter.plan(sink, 1, 0), inserts(range(100), 1500)
    batches = [batch.slice(start, 10) for batch in adapter.encode(changes, plan) for start in range(0, 50, 10)]

    def cut_off() -> Iterator[object]:
        yield from batches[:4]
        raise SinkUnavailableError("the executor is gone")

    monkeypatch.setattr(writer, "LONGEST_CHUNK_S", -1.0)
    with pytest.raises(SinkUnavailableError):
        sink.writer(plan).write(cut_off(), 0)  # type: ignore[arg-type]
    (marker,) = sink.markers()
    assert marker is not None
    # The chunk that was open is gone; the ones before it stay.
    assert (marker.chunk, marker.last, marker.done) == (2, False, 30)
    assert adapter.delivered() == [c.event_id for c in changes[:30]]
    monkeypatch.setattr(writer, "LONGEST_CHUNK_S", 3600.0)
    receipt = adapter.settled(sink.writer(plan).write(batches, 0))
    (marker,) = sink.markers()
    assert marker is not None
    assert (marker.chunk, marker.last, marker.done) == (3, True, 100)
    assert receipt.written == 100
    assert adapter.delivered() == [c.event_id for c in changes]
    positions = [c.position for c in changes]
    assert all(a <= b for a, b in itertools.pairwise(positions))
    assert sink.prepare(source_plan(500, 1000), []).prev == (1,)
