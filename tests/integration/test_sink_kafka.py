"""The Kafka sink on a real broker: the shared contract, records and topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pydantic import SecretStr

from databus.core.connections import Connection
from databus.core.errors import RecordRejectedError, SinkSettingError
from databus.core.findings import Level
from databus.core.flow_specs import FlowContext, Profile
from databus.core.settings import Settings
from databus.core.state.plan import Plan
from databus.sinks.kafka import Kafka
from databus.sinks.kafka.markers import MARKER_TOPIC
from databus.sinks.kafka.sink import KafkaSink
from databus.sinks.kafka.writer import KafkaSlotWriter
from databus.testing.contract.sink import ORDERS, ContractChange, SinkContract, inserts, source_plan
from tests.integration.kafka_target import (
    DEADLINE_S,
    KafkaAdapter,
    event_id,
    forget_kept,
    wait_until,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def adapter(servers: str) -> Iterator[KafkaAdapter]:
    with closing(KafkaAdapter(servers)) as adapter:
        yield adapter


class TestContract(SinkContract):
    """The suite that every sink passes."""


class TestRecords:
    def test_a_delete_is_followed_by_a_tombstone(self, servers: str) -> None:
        adapter = KafkaAdapter(servers, tombstones=True)
        sink = adapter.make_sink()
        receipt = adapter.write(sink, adapter.plan(sink, 1, 0), [*inserts([1], 1400), ContractChange("d", 1, 0, 1500)])
        assert [m.value() is None for m in adapter.messages()] == [False, False, True]
        assert (receipt.written, receipt.rows) == (3, {"shop.orders": 2})
        assert receipt.outputs == {f"{adapter.topic}[0]": {"first_offset": 0, "last_offset": 2, "records": 3}}

    def test_offsets_in_the_receipt_are_the_broker_s(self, servers: str) -> None:
        adapter = KafkaAdapter(servers, partitions=4)
        sink = adapter.make_sink()
        adapter.write(sink, adapter.plan(sink, 1, 0), inserts(range(33), 1500))
        receipt = adapter.write(sink, adapter.plan(sink, 2, 1), inserts(range(50, 90), 2500))
        mine = [m for m in adapter.messages() if ":2500:" in event_id(m)]
        for partition in range(4):
            offsets = [m.offset() for m in mine if m.partition() == partition]
            facts = {"first_offset": offsets[0], "last_offset": offsets[-1], "records": len(offsets)}
            assert receipt.outputs[f"{adapter.topic}[{partition}]"] == facts

    def test_a_record_larger_than_the_topic_takes_is_rejected_alone(self, servers: str) -> None:
        adapter = KafkaAdapter(servers, topic_config={"max.message.bytes": "2000"})
        sink = adapter.make_sink()
        plan = adapter.plan(sink, 1, 0)
        batches = adapter.encode([*inserts([1], 1400), *inserts([2], 1450), *inserts([3], 1500)], plan)
        big = b'{"op":"c","after":{"v":"' + b"x" * 3000 + b'"}}'
        column = pa.array([big, batches[0]["value"][1].as_py()], pa.binary())
        batches[0] = batches[0].set_column(batches[0].schema.get_field_index("value"), "value", column)
        receipt = adapter.settled(sink.writer(plan).write(batches, 0))
        assert [json.loads(m.key())["id"] for m in adapter.messages()] == [2, 3]
        assert receipt.rows == {"shop.orders": 2}
        (rejected,) = receipt.rejected
        assert (rejected.key, rejected.table, rejected.stage) == ('{"id":1}', "shop.orders", "kafka")
        assert rejected.cause.startswith("record_too_large")
        assert rejected.position == "mysql-bin.000001:1400"
        assert rejected.payload == big.decode()
        again = sink.writer(plan).write(batches, 0)
        assert again.duplicate
        assert again.rejected == receipt.rejected

    def test_a_record_too_large_stops_its_transaction_where_it_is_to_and_what_is_written_was_judged(
        self, servers: str
    ) -> None:
        adapter = KafkaAdapter(servers, topic_config={"max.message.bytes": "2000"}, chunk_rows=2)
        strict, lenient = adapter.make_sink(on_reject="fail"), adapter.make_sink()
        plan = adapter.plan(strict, 1, 0)
        batches = adapter.encode(inserts(range(1, 7), 1400), plan)
        big = pa.array([b"small", b"x" * 3000, b"small"], pa.binary())
        batches[1] = batches[1].set_column(batches[1].schema.get_field_index("value"), "value", big)
        for _ in range(2):
            with pytest.raises(RecordRejectedError, match=r"refused 1 row of shop\.orders: 1 × record_too_large") as no:
                strict.writer(plan).write(batches, 0)
            assert "xxx" not in str(no.value)
            assert "mysql-bin.000001:1400" in no.value.message  # its event id
            # The chunk of rows 5 and 6 is not to be seen, and none behind it; the two before it are.
            assert [json.loads(m.key())["id"] for m in adapter.messages()] == [1, 2, 3, 4]
        receipt = adapter.settled(lenient.writer(plan).write(batches, 0))
        assert [json.loads(m.key())["id"] for m in adapter.messages()] == [1, 2, 3, 4, 6]
        assert len(receipt.rejected) == 1
        again = strict.writer(plan).write(batches, 0)  # killed before its commit, and the setting is back
        assert (again.duplicate, again.rejected) == (True, receipt.rejected)
        replay = strict.writer(replace(plan, flow=f"{plan.flow}.quarantine"))
        assert isinstance(replay, KafkaSlotWriter)
        assert not replay.fails  # it holds the row back again

    def test_records_close_to_the_limit_pass(self, servers: str) -> None:
        adapter = KafkaAdapter(servers, topic_config={"max.message.bytes": "2000"}, compression="none")
        sink = adapter.make_sink()
        plan = adapter.plan(sink, 1, 0)
        (first, second) = adapter.encode([*inserts(range(60), 1400)], plan)
        bodies = pa.array([b"y" * (1700 + n) for n in range(30)], pa.binary())
        large = first.set_column(first.schema.get_field_index("value"), "value", bodies)
        receipt = adapter.settled(sink.writer(plan).write([large, second], 0))
        assert len(adapter.delivered()) + len(receipt.rejected) == 60
        assert receipt.written >= 30

    def test_every_slot_commits_a_marker(self, servers: str) -> None:
        adapter = KafkaAdapter(servers, partitions=4, slots=2)
        sink = adapter.make_sink()
        plan = adapter.plan(sink, 1, 0)
        changes = inserts(range(0, 20, 2), 1500)  # partitions 0 and 2: slot 0 only
        adapter.write(sink, plan, changes, slot=0)
        adapter.write(sink, plan, [], slot=1)
        markers = sink.markers()
        assert [(m.batch, m.hash, m.last) for m in markers if m] == [(1, plan.hash, True)] * 2
        assert sink.prepare(source_plan(1500, 2000), [(ORDERS, "shop.orders")]).prev == (1, 1)

    @pytest.mark.parametrize("kept", [2, 1], ids=["all slots known", "forgotten by an older version"])
    def test_slots_lowered_and_raised_again_go_on(self, servers: str, kept: int) -> None:
        adapter = KafkaAdapter(servers, partitions=4)
        known: tuple[int, ...] = ()
        for batch, slots in enumerate((2, 1, 2, 1, 2), 1):
            sink = adapter.make_sink(slots=slots)
            drafted = adapter.plan(sink, batch, 0)
            pinned = sink.prepare(source_plan(500, 1000), [(ORDERS, "shop.orders")]).following(known, batch - 1)
            plan = replace(drafted, sinks={"kafka": pinned})
            forget_kept()
            for slot in range(slots):
                rows = [c for c in inserts(range(batch * 10, batch * 10 + 8), 1500) if c.id % 4 % slots == slot]
                adapter.write(sink, plan, rows, slot=slot)
            known = pinned.marks_after(batch)[: max(slots, kept)]
        assert len(adapter.delivered()) == 5 * 8

    @pytest.mark.parametrize("profile", ["exactly_once", "at_least_once"])
    def test_a_topic_that_grows_between_batches_is_written_by_the_same_worker(
        self, servers: str, profile: Profile
    ) -> None:
        """The producer that is kept knows fewer partitions than the next batch was planned for."""
        adapter = KafkaAdapter(servers, partitions=2, slots=2, profile=profile)
        admin, written = AdminClient({"bootstrap.servers": servers}), 0
        for batch, count in enumerate((2, 5, 9, 14, 20), 1):
            sink = adapter.make_sink()
            if batch > 1:
                admin.create_partitions([NewPartitions(adapter.topic, count)])[adapter.topic].result()

            def planned(sink: KafkaSink = sink, batch: int = batch) -> Plan:
                return adapter.plan(sink, batch, batch - 1)

            wait_until(lambda: planned().sinks[adapter.name].partitions[adapter.topic] == count, "all partitions")  # noqa: B023
            plan = planned()
            changes = inserts(range(written, written := written + 60), 1000 * batch)
            for slot in range(2):
                sink.writer(plan).write(
                    (b for b in adapter.encode([c for c in changes if c.id % count % 2 == slot], plan)), slot
                )
        if profile == "exactly_once":
            wait_until(lambda: len(adapter.messages()) == written, "end of the last transaction")
        assert sorted(json.loads(m.key())["id"] for m in adapter.messages()) == list(range(written))

    def test_the_marker_stays_small_with_many_partitions(self, servers: str) -> None:
        adapter = KafkaAdapter(servers, partitions=60)
        sink = adapter.make_sink()
        plan, changes = adapter.plan(sink, 1, 0), inserts(range(120), 1500)
        first = adapter.write(sink, plan, changes)
        assert len(first.outputs) == 60
        marker = sink.markers()[0]
        assert marker is not None
        assert marker.outputs is None
        again = adapter.write(sink, plan, changes)
        assert again.duplicate
        assert (again.rows, again.written) == (first.rows, first.written)
        assert again.outputs[f"{adapter.topic}[0]"] == {"records": 2}


class TestTopics:
    def test_missing_topics_are_made_as_asked(self, servers: str) -> None:
        adapter = KafkaAdapter(servers, partitions=3, topic_config={"cleanup.policy": "compact"})
        sink = adapter.make_sink()
        pinned = sink.prepare(source_plan(500, 1000), [(ORDERS, "shop.orders")])
        assert pinned.partitions == {adapter.topic: 3}
        assert sink.topics.metadata().topics[MARKER_TOPIC].error is None

    def test_an_existing_topic_keeps_its_partitions(self, servers: str) -> None:
        adapter = KafkaAdapter(servers, partitions=2)
        adapter.make_sink().prepare(source_plan(500, 1000), [(ORDERS, "shop.orders")])
        other = adapter._open({"bootstrap.servers": servers}, partitions=7)
        assert other.prepare(source_plan(500, 1000), [(ORDERS, "shop.orders")]).partitions == {adapter.topic: 2}

    def test_one_that_cannot_be_created_is_named(self, servers: str) -> None:
        adapter = KafkaAdapter(servers, replication_factor=9)
        KafkaAdapter(servers).make_sink().prepare(source_plan(500, 1000), [])  # so that the marker topic exists
        sink = adapter.make_sink()
        with pytest.raises(SinkSettingError, match="topic cannot be created") as caught:
            sink.prepare(source_plan(500, 1000), [(ORDERS, "shop.orders")])
        assert adapter.topic in str(caught.value)
        errors = [f for f in sink.preflight() if f.level is Level.ERROR]
        assert [(f.code, adapter.topic in f.subject) for f in errors] == [("sink_setting", True)]

    def test_preflight_changes_nothing(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        messages = [f.message for f in sink.preflight()]
        assert any("can be created" in m for m in messages)
        admin = AdminClient({"bootstrap.servers": adapter.servers})
        assert adapter.topic not in admin.list_topics(timeout=DEADLINE_S).topics


def test_no_secret_is_shown(servers: str) -> None:
    connection = Connection(
        conn_id="k",
        conn_type="kafka",
        login="bob",
        password=SecretStr("hunter2"),
        extra={"bootstrap.servers": servers, "ssl.key.password": "hunter3"},
    )
    adapter = KafkaAdapter(servers)
    sink = KafkaSink(Kafka(conn_id="k"), connection, FlowContext(adapter.flow, Settings("contract", "", "")))
    text = repr(sink.settings) + repr(sink._producer({}))
    assert "hunter" not in text
    assert servers in text
