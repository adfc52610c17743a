"""One change followed both ways on real servers; a consumer of our own and the server's own words are the oracle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from databus import Batching, Kafka
from databus.core.trace import (
    TraceExpiredError,
    TraceLimitError,
    TraceLogPurgedError,
    TraceNotRecordedError,
)
from databus.ops.runs.lineage_events import recorded_lineage
from databus.ops.trace.follow import trace
from databus.ops.trace.journey import Journey, lines
from databus.ops.trace.query import recognise
from databus.sinks.kafka.tracing import topic_reader as tracing
from tests.integration.commands import Commands
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld
from tests.integration.shop_flow import Shop

pytestmark = pytest.mark.integration

TABLES = ("shop.customers", "shop.orders", "shop.order_items")


@dataclass(frozen=True)
class Record:
    """A record as any consumer sees it."""

    topic: str
    partition: int
    offset: int
    key: str | None
    value: dict[str, Any] | None
    event_id: str

    @property
    def place(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"


def records_of(world: OneProcessWorld, prefix: str) -> list[Record]:
    """Read all committed records of topics, partition by partition."""
    consumer = Consumer({
        "bootstrap.servers": world.sandbox.address("kafka"), "group.id": "oracle", "enable.partition.eof": True,
        "isolation.level": "read_committed", "enable.auto.commit": False, "auto.offset.reset": "earliest",
    })  # fmt: skip
    found: list[Record] = []
    try:
        topics = consumer.list_topics(timeout=30).topics
        left = {(t, p) for t, known in topics.items() if t.startswith(prefix) for p in known.partitions}
        consumer.assign([TopicPartition(t, p, 0) for t, p in left])
        while left:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is not None:
                left.discard((message.topic(), message.partition()))
                continue
            value, key = message.value(), message.key()
            found.append(Record(
                message.topic(), message.partition(), message.offset(), None if key is None else key.decode(),
                None if value is None else json.loads(value), dict(message.headers())["event_id"].decode(),
            ))  # fmt: skip
    finally:
        consumer.close()
    return found


@dataclass
class Traced:
    """A flow that has run, and what a consumer finds of it."""

    world: OneProcessWorld
    shop: Shop
    records: list[Record]

    def __call__(self, what: str, table: str = "") -> list[Journey]:
        return trace(recognise(what), [self.shop.flow], (self.world.connections, self.world.settings), table)

    def one(self, what: str) -> Journey:
        (journey,) = self(what)
        return journey

    def sql(self, statement: str) -> list[Any]:
        with self.shop.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


def places(journey: Journey) -> list[str]:
    return sorted(sighting.place for sighting in journey.sightings)


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    home = Path(os.environ.get("DATABUS_TEST_WORLD") or tmp_path_factory.mktemp("trace"))
    return OneProcessWorld(started("zookeeper", "kafka", "mysql"), home)


@pytest.fixture(scope="module", params=["debezium", "row"])
def traced(world: OneProcessWorld, request: pytest.FixtureRequest) -> Traced:
    """A flow of several batches that takes three of the shop's four tables."""
    name = f"trace_{request.param}"
    sink = Kafka(
        conn_id="kafka_east", topic=f"{name}.{{table}}", slots=2, partitions=3, routes=TABLES, envelope=request.param
    )
    shop = Shop(world, name)
    shop.flow = shop.flow.model_copy(
        update={"checks": (), "sinks": (sink,), "batching": Batching(max_rows=40, max_wait=timedelta(seconds=0.1))}
    )
    shop.writer.run(80)
    world.run(shop.flow)
    return Traced(world, shop, records_of(world, f"{name}."))


def sample(traced: Traced) -> list[Record]:
    """Records of all operations, spread over the topics."""
    rows = [r for r in traced.records if r.value is not None]
    deletes = [r for r in rows if (r.value or {}).get("op", (r.value or {}).get("__op")) == "d"]
    return [*rows[:: max(1, len(rows) // 6)], *deletes[:1]]


def test_a_record_leads_to_its_place_in_the_log_its_batch_and_its_run(traced: Traced) -> None:
    for record in sample(traced):
        journey = traced.one(record.place)
        change = journey.change
        twins = sorted(r.place for r in traced.records if r.event_id == record.event_id)
        assert (change.event_id, change.key, places(journey)) == (record.event_id, record.key, twins)
        assert record.event_id == f"{change.gtid}:{change.ordinal}:{record.event_id.rpartition(':')[2]}"
        (batch,) = journey.batches
        assert batch.start.pos < change.position <= batch.end.pos  # type: ignore[attr-defined]
        assert (batch.run_id, batch.code_version != "", batch.spec_hash != "") == (
            f"run of {traced.shop.name}",
            True,
            True,
        )
        ends = {(row[0], row[4]) for row in traced.sql(f"SHOW BINLOG EVENTS IN '{change.file}'") if row[2] == "Xid"}
        assert (change.file, change.position) in ends  # the server says that a transaction ends there
        if traced.shop.flow.sinks[0].envelope == "debezium":  # type: ignore[attr-defined]
            source = record.value["source"]
            assert (change.file, change.position, change.ordinal) == (source["file"], source["pos"], source["row"])
            assert (change.table, change.op) == (f"{source['db']}.{source['table']}", record.value["op"])


def test_a_place_and_a_gtid_lead_to_all_records_of_their_transaction(traced: Traced) -> None:
    record = max(sample(traced), key=lambda r: sum(o.event_id.split(":")[:2] == r.event_id.split(":")[:2]
                                                   for o in traced.records))  # fmt: skip
    gtid = ":".join(record.event_id.split(":")[:2])
    wanted = {r.event_id for r in traced.records if r.event_id.startswith(f"{gtid}:")}
    change = traced.one(record.place).change
    inside = change.position - 5  # in the last event of the transaction
    for what in (gtid, f"{change.file}:{change.position}", f"{change.file}:{inside}"):
        found = traced(what)
        seen = {j.change.event_id: places(j) for j in found if j.sightings}
        assert set(seen) == wanted, what
        assert seen == {e: sorted(r.place for r in traced.records if r.event_id == e) for e in wanted}
    journey = traced.one(record.event_id)
    assert record.place in places(journey)
    assert journey.change.position == change.position


def test_a_key_leads_to_its_newest_change(traced: Traced) -> None:
    rows = [r for r in traced.records if r.value is not None and r.topic.endswith(".orders")]
    for record in rows[::25]:
        newest = max((r for r in rows if r.key == record.key), key=lambda r: r.offset)
        journey = traced(record.key, "shop.orders")[0]
        assert newest.place in places(journey)
        assert journey.change.event_id == newest.event_id


def test_column_lineage_names_what_a_consumer_sees_and_the_columns_of_the_tables(traced: Traced) -> None:
    """Fields come from records alone, columns from the server; the dropped one is nowhere."""
    lineage = recorded_lineage(
        traced.shop.flow, traced.world.connections, f"run of {traced.shop.name}", traced.world.settings
    )
    assert {dataset.name for dataset in lineage.outputs} == {f"{traced.shop.name}.{t[5:]}" for t in TABLES}
    values = lineage.run_facets["databus"].values  # type: ignore[attr-defined]
    assert values["columns_unknown"] == []
    query = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'shop' AND table_name = "
    for dataset in lineage.outputs:
        table = dataset.name.rpartition(".")[2]
        columns = {row[0] for row in traced.sql(f"{query}'{table}'")} - {"card_number"}
        facet = dataset.facets["columnLineage"]
        assert set(facet.fields) == fields_seen(r for r in traced.records if r.topic == dataset.name)
        for name, made in facet.fields.items():
            (source,) = made.inputFields
            assert (source.namespace, source.name) == (
                f"mysql://{traced.world.sandbox.address('mysql')}",
                f"shop.{table}",
            )
            assert source.field == name.rpartition(".")[2]
            assert [(t.type, t.subtype, t.masking) for t in source.transformations] == [("DIRECT", "IDENTITY", False)]
        assert {made.inputFields[0].field for made in facet.fields.values()} == columns


def fields_seen(records: Iterable[Record]) -> set[str]:
    """Name the fields that hold columns: of the key, and of the images or of the plain row."""
    found: set[str] = set()
    for record in records:
        found |= {f"key.{name}" for name in json.loads(record.key or "{}")}
        value = record.value or {}
        images = {f"{image}.": value[image] or {} for image in ("before", "after") if image in value}
        for prefix, columns in (images or {"": value}).items():
            found |= {prefix + name for name in columns if not name.startswith("__")}
    return found


def test_a_row_that_no_sink_takes_is_told_from_the_log(traced: Traced) -> None:
    events = traced.sql(f"SHOW BINLOG EVENTS IN '{traced.one(traced.records[0].place).change.file}'")
    tables = [row for row in events if row[2] == "Table_map" and "products" in row[5]]
    ends = [row for row in events if row[2] == "Xid" and row[1] > tables[-1][1]]
    found = traced(f"{ends[0][0]}:{ends[0][4]}", "shop.products")
    assert found
    for journey in found:
        assert (journey.change.table, journey.sightings) == ("shop.products", ())
        assert any("no sink shows it" in note for note in journey.notes)


def test_what_cannot_be_followed_is_named(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    first = traced.records[0]
    taken = {r.offset for r in traced.records if (r.topic, r.partition) == (first.topic, first.partition)}
    control = next(o for o in range(min(taken), max(taken) + 2) if o not in taken)
    with pytest.raises(TraceNotRecordedError, match=f"no recorded batch wrote .*:{control};"):
        traced(f"{first.topic}:{first.partition}:{control}")
    with pytest.raises(TraceNotRecordedError, match="it never wrote there"):
        traced("elsewhere:0:5")
    file = traced.one(first.place).change.file
    with pytest.raises(TraceNotRecordedError, match=r"recorded is .*\.\d{6}:\d+ to .*\.\d{6}:\d+ of server"):
        traced(f"{file}:99999999")
    with pytest.raises(TraceNotRecordedError, match="no recorded batch read 3E11FA47"):
        traced("3E11FA47-71CA-11E1-9E33-C80AA9429562:23")
    with pytest.raises(TraceNotRecordedError, match="no sink shows a change of"):
        traced('{"order_id":999999999}')
    monkeypatch.setattr(tracing, "KEY_SEARCH_RECORDS", 1)
    with pytest.raises(TraceLimitError, match=r"no change of .* in the newest 1 records"):
        traced('{"order_id":999999999}')


def test_the_command_prints_the_journey(traced: Traced, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    traced.shop.dag_file(tmp_path)
    commands = Commands(traced.world, tmp_path, monkeypatch)
    record = sample(traced)[0]
    shown = commands.json("trace", record.place)
    (journey,) = shown["journeys"]
    assert (shown["kind"], journey["flow"]) == ("record", traced.shop.name)
    assert journey["change"]["event_id"] == record.event_id
    assert [s["place"] for s in journey["sinks"] if not s["tombstone"]] == [record.place]
    assert journey["batches"][0]["run_id"] == f"run of {traced.shop.name}"
    done = commands("trace", record.event_id, "--flow", traced.shop.name)
    assert f"of 1 flow: {traced.shop.name}" in done.stderr
    text = done.stdout
    for _, told in lines(traced.one(record.place)):
        assert all(part in " ".join(text.split()) for part in told.split())


def test_a_narrowed_range_finds_the_same(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    record = sample(traced)[1]
    change = traced.one(record.place).change
    whole = {j.change.event_id: places(j) for j in traced(f"{change.file}:{change.position}")}
    monkeypatch.setattr(tracing, "NARROW_FROM", 4)
    assert {j.change.event_id: places(j) for j in traced(f"{change.file}:{change.position}")} == whole


def test_what_is_older_than_retention_is_named_with_its_batch(traced: Traced) -> None:
    """Runs last: records are deleted, then the log."""
    record = sample(traced)[0]
    change = traced.one(record.place).change
    admin = AdminClient({"bootstrap.servers": traced.world.sandbox.address("kafka")})
    every = {(r.topic, r.partition) for r in traced.records}
    gone = admin.delete_records([TopicPartition(t, p, -1) for t, p in every])
    for future in gone.values():
        future.result(30)
    with pytest.raises(TraceExpiredError, match=r"is not kept any more.*By the records, batch \d+ of run run of"):
        traced(record.place)
    found = {j.change.event_id: j for j in traced(f"{change.file}:{change.position}")}
    assert found[record.event_id].sightings == ()
    assert any("the batch wrote" in note for note in found[record.event_id].notes)
    if os.environ.get("DATABUS_TEST_WORLD"):
        return
    traced.sql("FLUSH BINARY LOGS")
    newest = str(traced.sql("SHOW BINARY LOGS")[-1][0])
    traced.sql(f"PURGE BINARY LOGS TO '{newest}'")
    with pytest.raises(TraceLogPurgedError, match=r"batch \d+ of run .* but neither a sink nor the log shows it"):
        traced(f"{change.file}:{change.position}")
