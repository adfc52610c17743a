"""Transactions in the direct lane without servers: what all slots write together, regrouped as a consumer does it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from databus import Batching, Flow, Kafka, KafkaTopics, Mock, MysqlBinlog, NotNull, Split
from databus.core.batches.receipts import WriteReceipt
from databus.core.errors import ConfigError
from databus.core.errors.sink import SinkSettingError
from databus.core.state.plan import Plan, SinkPlan
from databus.runtime.direct.row_checks import image_marks
from databus.runtime.direct.row_counts import Taker
from databus.runtime.direct.task import DirectTask
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.tally import MessageTally
from databus.sinks.kafka.transactions import planned_topics
from databus.sources.mock.source import MockSource
from tests.regrouped import Regrouper

TOPIC = "cdc.transactions"
TABLES = ("shop.orders", "shop.people", "shop.log")


class Keeping:
    """Writer that keeps what it is given, and counts it as Kafka's does."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.tally = MessageTally("kafka", {})

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        for batch in rows:
            assert self.tally.accept(batch).num_rows == batch.num_rows
            self.tally.reports(batch)
            self.batches.append(batch)
        return self.tally.receipt(slot, 1)


def slots_of(flow: Flow, slots: int, partitions: int = 5) -> list[tuple[Keeping, Any]]:
    """Return what the writer of each slot was given of a mock flow, and what its task counted."""
    (sink,) = flow.sinks
    assert isinstance(sink, Kafka)
    source = MockSource(flow.source)  # type: ignore[arg-type] # it is a mock's
    planned = source.plan(source.start_offset(), Batching(max_rows=10_000))
    assert planned is not None
    topics = {f"cdc.{table}": partitions for table in TABLES} | {TOPIC: 1}
    pinned = SinkPlan(slots, (0,) * slots, topics)
    plan = Plan("test", flow.name, 1, planned.range, {"kafka": pinned}, "spec", datetime(2026, 11, 27, tzinfo=UTC))
    encoder = KafkaEncoder(sink, plan, sink.message_format()).of_tables(planned.tables)
    takers, splits = (Taker(sink.routes, frozenset("cud")),), tuple(source.splits(planned, 3))
    found = []
    for slot in range(slots):
        writer = Keeping()
        task = DirectTask(flow, planned, splits, {}, image_marks(flow, planned), takers, 0, True, encoder, writer)
        found.append((writer, task.write(slot)))
    return found


def flow_of(checks: tuple[Any, ...] = (), **options: Any) -> Flow:
    return Flow(
        name="f",
        source=Mock(tables=TABLES, rows=900, rows_per_transaction=7, null_ratio=0.3),
        checks=checks,
        sinks=(Kafka(conn_id="k", transaction_topic=TOPIC, slots=4, **options),),
    )


def regrouped(found: list[tuple[Keeping, Any]]) -> Regrouper:
    consumer = Regrouper(TOPIC)
    for writer, _ in reversed(found):  # rows of other slots come first
        for row in (row for batch in writer.batches for row in batch.to_pylist()):
            headers = [("event_id", row["event_id"])]
            headers += [(k.partition(":")[2], v) for k, v in row.items() if k.startswith("header:") and v is not None]
            consumer.take(row["topic"], headers, json.loads(row["value"]))
    return consumer


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"types": "debezium"},
        {"envelope": "row", "headers": ("event_id", "table", "transaction", "total_order", "data_collection_order")},
    ],
    ids=["iso", "debezium", "headers"],
)
def test_a_consumer_regroups_all_transactions_over_slots_and_partitions(options: dict[str, Any]) -> None:
    flow = flow_of(**options)
    found = slots_of(flow, 4)
    consumer = regrouped(found)

    assert len(consumer.transactions) == -(-900 // 7)
    assert consumer.incomplete() == []
    consumer.require_orders()
    assert sum(len(each.events) for each in consumer.transactions.values()) == 900
    assert sum(seen.given for _, (_, seen) in found) == 900
    assert sum(sum(receipt.rows.values()) for _, (receipt, _) in found) == 900
    assert sum(receipt.written for _, (receipt, _) in found) == 900 + 90 + 2 * len(consumer.transactions)


def test_boundaries_stand_around_the_rows_of_their_slot() -> None:
    (writer, _), *_others = slots_of(flow_of(), 4)
    rows = [row for batch in writer.batches for row in batch.to_pylist()]
    places = [(row["log"], row["place"], row["ordinal"], row["part"]) for row in rows]

    assert places == sorted(places)
    open_id = None
    for row in rows:
        value = json.loads(row["value"])
        if row["topic"] == TOPIC:
            assert (row["partition"], json.loads(row["key"])) == (0, {"id": value["id"]})
            assert open_id == (None if value["status"] == "BEGIN" else value["id"])
            open_id = value["id"] if value["status"] == "BEGIN" else None
        else:
            assert value["transaction"]["id"] == open_id


def test_held_rows_are_told_and_not_counted() -> None:
    flow = flow_of(checks=(NotNull("status"),))
    found = slots_of(flow, 3)
    consumer = regrouped(found)

    held = {row.event_id for row in found[0][1][1].held}
    assert held
    assert consumer.incomplete() == []
    consumer.require_orders()
    told = {name: each.end.get("quarantined", 0) for name, each in consumer.transactions.items()}
    assert sum(told.values()) == len(held)
    events = sum(len(each.events) for each in consumer.transactions.values())
    assert events == 900 - len(held)


def test_tables_of_other_routes_are_not_counted() -> None:
    consumer = regrouped(slots_of(flow_of(routes=("shop.people",)), 2))
    assert consumer.incomplete() == []
    tables = {name for each in consumer.transactions.values() for name, *_ in each.events.values()}
    assert tables == {"shop.people"}


def test_an_end_that_is_too_large_stops_the_batch() -> None:
    (writer, _), *_ = slots_of(flow_of(), 1)
    tally = MessageTally("kafka", {TOPIC: 150})
    (first, *_) = writer.batches
    with pytest.raises(SinkSettingError, match=r"the end of the transaction at mock\.000001:1 names so many tables"):
        tally.accept(first)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "avro", "registry_conn_id": "r"}, 'transaction_topic has format="json"'),
        ({"envelope": "maxwell"}, 'transaction_topic has format="json"'),
        ({"topic": TOPIC}, "transaction_topic is a topic of its own"),
        ({"transaction_topic": "t.{table}"}, "it may use {flow} alone"),
        (
            {"transaction_topic": "", "headers": ("event_id", "total_order")},
            "headers total_order need transaction_topic",
        ),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Kafka(**{"conn_id": "k", "transaction_topic": TOPIC, **options})


def test_a_source_without_transactions_is_refused() -> None:
    sink = Kafka(conn_id="k", transaction_topic=TOPIC)
    with pytest.raises(ConfigError, match=r"sink kafka: transaction_topic .* source kafka has none"):
        Flow(name="f", source=KafkaTopics(conn_id="k", topics=("t",)), sinks=(sink,))


def test_copies_of_rows_are_refused_beside_counts_of_them() -> None:
    split = Split({"big": "amount > 1000", "all": "true"})
    sink, source = (
        Kafka(conn_id="k", topic="cdc.{route}", transaction_topic=TOPIC),
        MysqlBinlog(conn_id="m", tables=("s.o",)),
    )
    with pytest.raises(ConfigError, match=r"sink kafka: transaction_topic counts .* makes several of one"):
        Flow(name="f", source=source, transforms=(split,), sinks=(sink,))


def test_rows_that_go_to_the_topic_of_transactions_are_refused() -> None:
    sink = Kafka(conn_id="k", topic="cdc.{route}", transaction_topic="cdc.{flow}.t")
    assert planned_topics(sink, {"cdc.shop.orders": "cdc.shop.orders"}, "f") == {
        "cdc.shop.orders": "cdc.shop.orders",
        "cdc.f.t": "cdc.f.t",
    }
    with pytest.raises(SinkSettingError, match=r"would share topic .cdc\.f\.t."):
        planned_topics(sink, {"cdc.f.t": "cdc.f.t"}, "f")


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        ({"topic": "b.{table}", "transaction_topic": "{flow}.t"}, "sinks a and b would both write the boundaries of"),
        ({"topic": "f.t"}, "rows of sink b and the boundaries"),
    ],
)
def test_a_topic_of_transactions_is_of_one_sink_alone(topics: dict[str, str], said: str) -> None:
    source, first = MysqlBinlog(conn_id="m", tables=("s.o",)), Kafka(name="a", conn_id="k", transaction_topic="f.t")
    with pytest.raises(ConfigError, match=said):
        Flow(name="f", source=source, sinks=(first, Kafka(name="b", conn_id="k", **topics)))
    Flow(name="f", source=source, sinks=(first, Kafka(name="b", conn_id="other", **topics)))
    Flow(name="f", source=source, sinks=(first, Kafka(name="b", conn_id="k", transaction_topic="f.u")))


@pytest.mark.parametrize("name", ["..", "t" * 250, "t{flow!r}", "t{flow:>9}", "t{{flow}}"])
def test_what_is_no_name_of_a_topic_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="transaction_topic"):
        Kafka(conn_id="k", transaction_topic=name)


def test_what_stands_beside_a_flow_has_a_topic_beside_it() -> None:
    sink = Kafka(conn_id="k", transaction_topic="cdc.{flow}.t")
    assert sink.beside("f", ".replay").transaction_topic == "cdc.f.t.replay"
    assert Kafka(conn_id="k").beside("f", ".replay").transaction_topic == ""
    assert "transaction_topic" not in Kafka(conn_id="k").to_json()
