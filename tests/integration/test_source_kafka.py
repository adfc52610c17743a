"""The Kafka source on a real broker: the contract, and what only a broker's log can hold."""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from databus.core.batching import Batching
from databus.core.errors import OffsetInvalidError, OffsetPurgedError, SourceUnavailableError
from databus.core.findings import Level
from databus.core.positions.offsets import KafkaOffsets, Ordering
from databus.core.protocols import PartitionedSource, Source
from databus.core.state.plan import SourcePlan
from tests.contract.source_contract import IMPATIENT, SourceContract, rows_of
from tests.integration.binlog_shop import fields
from tests.integration.kafka_logs import DEADLINE_S, Logs, LogsSubject

log = logging.getLogger(__name__)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def logs(servers: str) -> Logs:
    return Logs(servers)


class TestKafkaContract(SourceContract):
    one_log = False

    @pytest.fixture
    def subject(self, logs: Logs) -> LogsSubject:
        return LogsSubject(logs)


def planned(source: Source, after: Any, **limit: Any) -> SourcePlan:
    plan = source.plan(after, Batching(**{"max_rows": 10**6, "max_wait": timedelta(seconds=2), **limit}))
    assert plan is not None
    return plan


def values(source: Source, plan: SourcePlan) -> list[Any]:
    return [fields(row["after"] or row["before"])["value"] for row in rows_of(source, plan)]


def numbered(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"key": f"k{n % 3}", "value": f"v{n}"} for n in range(first, first + count)]


def test_records_are_rows(logs: Logs) -> None:
    topic = logs.create(logs.name())
    logs.write(
        topic,
        [
            {"key": "a", "value": '{"id": 5, "deep": {"price": 1.50}}', "timestamp": 1000,
             "headers": [("h", b"1"), ("h", None), ("x", b"\xff")]},
            {"key": None, "value": b"", "timestamp": 2000},
            {"key": "a", "value": None, "timestamp": 3000},
            {"key": b"\xff", "value": b"not json", "timestamp": 4000},
        ],
    )  # fmt: skip
    source = logs.open(
        topics=(topic,), start="earliest", cluster="east", value_format="json",
        fields={"id": "bigint", "deep.price": "decimal(9,2)"},
    )  # fmt: skip
    plan = planned(source, source.start_offset())
    rows = rows_of(source, plan)
    assert [(r["op"], r["database"], r["table"], r["key"], r["log"], r["place"], r["ts_ms"]) for r in rows] == [
        ("c", "east", topic, b'{"key":"a"}', f"{topic}[0]", 0, 1000),
        ("c", "east", topic, b'{"partition":0,"offset":1}', f"{topic}[0]", 1, 2000),
        ("d", "east", topic, b'{"key":"a"}', f"{topic}[0]", 2, 3000),
        ("c", "east", topic, b'{"key":{"base64":"/w=="}}', f"{topic}[0]", 3, 4000),
    ]
    first = fields(rows[0]["after"])
    assert (first["id"], float(first["deep.price"]), first["offset"], first["timestamp_type"]) == (5, 1.5, 0, "create")
    assert json.loads(first["headers"]) == [["h", "1"], ["h", None], ["x", {"base64": "/w=="}]]
    assert fields(rows[2]["before"])["value"] is None
    assert [r["flags"] for r in rows] == [
        None, ["after.value:undecodable"], None, ["after.key:undecodable", "after.value:undecodable"],
    ]  # fmt: skip
    source.close()


@pytest.mark.parametrize(
    "stamp", [1_764_032_400_000_000, 253_402_300_799_999, 253_402_300_800_000, 2**62, 1_764_032_400, -5]
)  # microseconds, the end of year 9999 and what comes after, nanoseconds and more, seconds, before 1970
def test_a_stamp_that_cannot_be_is_a_time_not_known(logs: Logs, stamp: int, caplog: pytest.LogCaptureFixture) -> None:
    topic = logs.create(logs.name(), config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    logs.write(topic, [{"key": f"k{n}", "value": "v", "timestamp": stamp} for n in range(3)])
    source = logs.open(topics=(topic,), start="earliest")
    start = source.start_offset()
    plan = planned(source, start)
    assert (plan.rows, plan.first_commit_at, plan.watermark) == (3, None, None)
    assert [fields(row["after"])["timestamp"] for row in rows_of(source, plan)] == [stamp if stamp >= 0 else None] * 3
    lag = source.lag(start)
    assert lag.bytes
    assert lag.seconds is None
    assert isinstance(source, PartitionedSource)
    (partition,) = source.partition_lags(start)
    assert (partition.records, partition.seconds) == (3, None)
    warned = [r.getMessage() for r in caplog.records if f"{topic}[0]@0 has the time {stamp} ms" in r.getMessage()]
    assert len(warned) == 1
    logs.write(topic, [{"value": "now"}])
    later = planned(source, plan.range.end)
    assert later.watermark is not None
    seconds = source.lag(plan.range.end).seconds
    assert seconds is not None
    assert seconds < DEADLINE_S
    source.close()


def test_aborted_records_do_not_appear_and_control_records_leave_no_hang(logs: Logs) -> None:
    topic = logs.create(logs.name())
    logs.transaction(topic, numbered(3), commit=True)
    logs.transaction(topic, numbered(5, 100), commit=False)
    logs.transaction(topic, numbered(2, 3), commit=True)
    logs.transaction(topic, numbered(5, 200), commit=False)
    source = logs.open(topics=(topic,), start="earliest")
    plan = planned(source, source.start_offset())
    assert values(source, plan) == ["v0", "v1", "v2", "v3", "v4"]
    assert plan.range.end.compare(source.latest_offset()) is Ordering.EQUAL
    assert source.lag(plan.range.end).caught_up
    # Each way to cut the log, also inside aborted and control records, gives the same records once.
    for size in (1, 2, 3, 7):
        after, got = source.start_offset(), []
        while after.compare(plan.range.end) is Ordering.BEFORE:
            piece = planned(source, after, max_rows=size)
            got += values(source, piece)
            after = piece.range.end
        assert got == ["v0", "v1", "v2", "v3", "v4"]
    source.close()


def test_an_open_transaction_is_waited_for(logs: Logs) -> None:
    from confluent_kafka import Producer

    topic = logs.create(logs.name())
    logs.write(topic, numbered(2))
    producer = Producer({"bootstrap.servers": logs.servers, "transactional.id": logs.name("tx")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(30)
    logs.write(topic, numbered(2, 2))
    source = logs.open(topics=(topic,), start="earliest")
    plan = planned(source, source.start_offset())
    assert values(source, plan) == ["v0", "v1"]
    assert source.plan(plan.range.end, IMPATIENT) is None
    producer.commit_transaction(30)
    logs.until(lambda: source.lag(plan.range.end).bytes != 0, "the transaction's end")
    after = planned(source, plan.range.end)
    assert values(source, after) == ["open", "v2", "v3"]
    source.close()


def test_partitions_and_topics_that_appear_later_are_read_from_their_start(logs: Logs) -> None:
    stem = logs.name()
    first = logs.create(f"{stem}.a")
    logs.write(first, numbered(3))
    source = logs.open(topics=(f"{stem}.*",), exclude_topics=("re:.*[.]no",), start="latest")
    begin = source.start_offset()
    assert source.plan(begin, IMPATIENT) is None
    logs.grow(first, 2)
    logs.write(first, [{"value": "new partition", "partition": 1}])
    for name in ("b", "no"):
        logs.write(logs.create(f"{stem}.{name}"), [{"value": f"new topic {name}"}])
    logs.until(lambda: len(source.latest_offset().positions) == 2, "both topics")  # type: ignore[attr-defined]
    found, after = [], begin
    while (plan := source.plan(after, IMPATIENT)) is not None:
        found += values(source, plan)
        after = plan.range.end
    assert sorted(found) == ["new partition", "new topic b"]
    source.close()


def test_what_retention_took_is_a_gap(logs: Logs) -> None:
    topic = logs.create(logs.name())
    logs.write(topic, numbered(10))
    asking = logs.open(topics=(topic,), start="earliest")
    begin = asking.start_offset()
    logs.cut(topic, 0, 4)
    with pytest.raises(OffsetPurgedError, match=r"records 0 to 3 were deleted") as refused:
        asking.plan(begin, IMPATIENT)
    assert refused.value.missing is not None
    assert refused.value.missing.end.positions == {topic: {0: 4}}  # type: ignore[attr-defined]
    with pytest.raises(OffsetPurgedError):
        asking.lag(begin)
    assert [f.code for f in asking.preflight(begin) if f.level is Level.ERROR] == ["source_offset_purged"]
    assert values(asking, planned(asking, refused.value.missing.end)) == [f"v{n}" for n in range(4, 10)]
    for policy, expected in (("earliest", 4), ("latest", 10)):
        source = logs.open(topics=(topic,), on_gap=policy)
        plan = planned(source, begin)
        assert (plan.empty, plan.rows, plan.range.start) == (True, 0, begin)
        assert "records 0 to 3 were deleted" in plan.passed
        assert plan.range.end.positions == {topic: {0: expected}}  # type: ignore[attr-defined]
        assert source.reopen(plan.range).passed
        assert rows_of(source, plan) == []
        following = source.plan(plan.range.end, IMPATIENT)
        assert (following is None) == (policy == "latest")
        source.close()
    asking.close()


def test_a_planned_range_that_retention_takes_is_named_when_reopened_and_when_read(logs: Logs) -> None:
    topic = logs.create(logs.name())
    logs.write(topic, numbered(10))
    source = logs.open(topics=(topic,), start="earliest", on_gap="earliest")
    plan = planned(source, source.start_offset(), max_rows=5)
    logs.cut(topic, 0, 3)
    with pytest.raises(OffsetPurgedError, match="of the planned range"):
        source.reopen(plan.range)
    with pytest.raises(OffsetPurgedError, match="no longer in the log"):
        rows_of(source, plan)
    source.close()


def test_a_topic_made_anew_is_told_by_its_id(logs: Logs) -> None:
    topic = logs.create(logs.name(), 2)
    logs.write(topic, [{"value": f"old {n}", "partition": n % 2} for n in range(10)])
    source = logs.open(topics=(topic,), start="earliest")
    plan = planned(source, source.start_offset())
    assert len(rows_of(source, plan)) == 10
    logs.delete(topic)
    assert source.plan(plan.range.end, IMPATIENT) is None  # it may come back: nothing is decided while it is gone
    logs.create(topic)
    logs.write(topic, [{"value": f"new {n}"} for n in range(20)])
    with pytest.raises(OffsetPurgedError, match="the topic was made anew") as refused:
        source.plan(plan.range.end, IMPATIENT)
    passed = refused.value.missing
    assert passed is not None
    assert passed.end.compare(passed.start) is Ordering.AFTER
    assert values(source, planned(source, passed.end)) == [f"new {n}" for n in range(20)]
    by_itself = logs.open(topics=(topic,), on_gap="earliest")
    jump = planned(by_itself, plan.range.end)
    assert jump.passed
    assert values(by_itself, planned(by_itself, jump.range.end)) == [f"new {n}" for n in range(20)]
    source.close()
    by_itself.close()


def test_a_log_cut_back_behind_the_checkpoint_is_named(logs: Logs) -> None:
    topic = logs.create(logs.name())
    logs.write(topic, numbered(5))
    source = logs.open(topics=(topic,), start="earliest")
    plan = planned(source, source.start_offset())
    end = plan.range.end
    assert isinstance(end, KafkaOffsets)
    ahead = replace(end, positions={topic: {0: 9}})
    with pytest.raises(OffsetPurgedError, match=r"cut back to 5, behind offset 9") as refused:
        source.plan(ahead, IMPATIENT)
    assert refused.value.missing is not None
    assert refused.value.missing.end.compare(ahead) is Ordering.AFTER
    assert refused.value.missing.end.positions == {topic: {0: 5}}  # type: ignore[attr-defined]
    source.close()


def test_start_from_a_group_from_offsets_and_from_a_time(logs: Logs) -> None:
    topic = logs.create(logs.name(), 2)
    logs.write(topic, [{"value": f"v{n}", "partition": n % 2, "timestamp": 10_000 + n} for n in range(10)])
    group = logs.name("g")
    consumer = Consumer({"bootstrap.servers": logs.servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 1, 3)], asynchronous=False)
    consumer.close()
    starts = {
        f"group:{group}": {0: 0, 1: 3},
        f"offsets:{topic}:0:4": {0: 4, 1: 0},
        datetime.fromtimestamp(10.005, UTC).isoformat(): {0: 3, 1: 2},
        "latest": {0: 5, 1: 5},
    }
    for start, expected in starts.items():
        source = logs.open(topics=(topic,), start=start)
        assert source.start_offset().positions == {topic: expected}, start  # type: ignore[attr-defined]
        source.close()
    for start in (f"group:{group}-none", f"offsets:{topic}:0:11", "offsets:elsewhere:0:1"):
        with pytest.raises(OffsetInvalidError):
            logs.open(topics=(topic,), start=start).start_offset()


def test_bytes_bound_a_batch_and_no_partition_waits_for_another(logs: Logs) -> None:
    topic = logs.create(logs.name(), 3)
    logs.write(topic, [{"value": b"x" * 988, "partition": 0} for _ in range(200)])
    logs.write(topic, [{"value": b"x" * 988, "partition": p} for p in (1, 2, 2)])
    source = logs.open(topics=(topic,), start="earliest")
    plan = planned(source, source.start_offset(), max_bytes=20_000)
    assert plan.more
    assert plan.range.end.positions == {topic: {0: 17, 1: 1, 2: 2}}  # type: ignore[attr-defined]
    assert len(rows_of(source, plan)) == 20
    source.close()


def test_unreachable_brokers_are_named() -> None:
    source = Logs("127.0.0.1:1").open(topics=("t",), timeout=timedelta(seconds=1.0))
    with pytest.raises(SourceUnavailableError, match=r"127\.0\.0\.1:1"):
        source.latest_offset()
    (finding,) = source.preflight(None)
    assert (finding.level, finding.code) == (Level.ERROR, "source_unavailable")
    source.close()


def test_many_partitions_are_planned_by_a_few_requests(logs: Logs) -> None:
    partitions = int(os.environ.get("DATABUS_TEST_PARTITIONS", "100"))
    stem = logs.name("many")
    for number in range(partitions // 100):
        logs.create(f"{stem}.{number:02}", 100)
    logs.write(f"{stem}.00", [{"value": "one", "partition": 42}])
    source = logs.open(topics=(f"{stem}.*",), start="earliest")
    begin = source.start_offset()
    used = time.process_time()
    plan = planned(source, begin)
    used = time.process_time() - used
    log.info("%d partitions planned in %.2f CPU-s", partitions, used)
    assert values(source, plan) == ["one"]
    source.close()
