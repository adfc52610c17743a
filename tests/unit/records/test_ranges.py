"""Ranges of batches: what a report leaves, what a migration fills in, what look-ups find among them."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from databus.core.batches.receipts import WriteReceipt
from databus.core.positions.gtid import MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, OffsetRange
from databus.core.state.plan import Plan, SinkPlan
from databus.core.trace import log_number
from databus.records import tables as t
from databus.records.provenance import Provenance
from databus.records.ranges import OUTPUT, SOURCE, ranges_of_batch
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from tests.contract.record_samples import NOON, report
from tests.contract.records_v1 import insert_batch, statements

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def moved(batch: int, start: BinlogOffset, end: BinlogOffset, first: int = 0, mode: str = "live"):
    plan = Plan("test", "orders", batch, OffsetRange(start, end), {"kafka": SinkPlan()}, "spec",
                NOON + timedelta(seconds=batch), mode)  # fmt: skip
    outputs = {"cdc.orders[0]": {"first_offset": first, "last_offset": first + 8, "records": 9}}
    receipt = WriteReceipt("kafka", 0, batch, 9, {"shop.orders": 9}, (), outputs)
    return replace(report(batch), plan=plan, receipts=(receipt,), code_version="9.9")


def place(file: int, pos: int, transactions: int, timeline: int = 0) -> BinlogOffset:
    return BinlogOffset(f"bin.{file:06d}", pos, f"{UUID}:1-{transactions}", "mysql", UUID, timeline)


@pytest.fixture
def recorded(store, reader):
    """Twenty batches over two files, ten transactions each; batches 5 and 6 are moved again by batch 21."""
    at = [place(1 + i // 10, 100 + 1000 * (i % 10), 1 + 10 * i) for i in range(21)]
    recorder = SqlRecorder(store)
    for i in range(20):
        recorder.record(moved(i + 1, at[i], at[i + 1], i * 10))
    recorder.record(moved(21, at[4], at[6], 300, "replay"))
    return Provenance(reader)


STREAM = f"{UUID}/0/bin"


def test_an_offset_and_a_place_lead_to_the_batches_that_moved_them(recorded):
    assert [b.batch for b in recorded.wrote("orders", "cdc.orders[0]", 50)] == [6]
    assert recorded.wrote("orders", "cdc.orders[0]", 59) == []  # a control record
    assert recorded.wrote("orders", "cdc.orders[1]", 50) == []
    assert recorded.wrote("other", "cdc.orders[0]", 50) == []
    found = recorded.read("orders", STREAM, log_number(1, 5100))
    assert [(b.batch, b.mode, b.code_version) for b in found] == [(5, "live", "9.9"), (21, "replay", "9.9")]
    # The start is exclusive, the end inclusive.
    assert [b.batch for b in recorded.read("orders", STREAM, log_number(1, 4100))] == [4]
    assert [b.batch for b in recorded.read("orders", STREAM, log_number(1, 4101))] == [5, 21]
    assert [b.batch for b in recorded.read("orders", STREAM, log_number(2, 50))] == [10]
    assert recorded.read("orders", STREAM, log_number(1, 100)) == []


def test_streams_and_bounds(recorded):
    assert recorded.streams("orders", SOURCE) == [STREAM]
    assert recorded.streams("orders", OUTPUT) == ["cdc.orders[0]"]
    assert recorded.bounds("orders", SOURCE, STREAM) == (log_number(1, 100), log_number(3, 100))
    assert recorded.bounds("orders", OUTPUT, "none[0]") is None
    assert recorded.flows() == ["orders"]
    assert recorded.outputs("orders") == {"kafka": {"cdc.orders[0]"}}


@pytest.mark.parametrize(("number", "batch"), [(2, 1), (11, 1), (12, 2), (101, 10), (102, 11), (201, 20), (202, None)])
def test_a_gtid_is_found_by_halving(recorded, number, batch):
    wanted = MysqlGtidSet.parse(f"{UUID}:{number}")
    upto = recorded.first_where("orders", STREAM, lambda end: MysqlGtidSet.parse(end.gtids).contains(wanted))
    if batch is None:
        assert upto is None
        return
    found = recorded.read("orders", STREAM, upto)
    assert batch in [b.batch for b in found]


def test_after_a_failover_the_range_is_of_the_new_log():
    old, new = place(7, 500, 10), BinlogOffset("new.000002", 900, f"{UUID}:1-20", "mysql", "b" * 8, 1)
    (row,) = ranges_of_batch(old.to_json(), new.to_json(), [{}])
    assert row == {"side": SOURCE, "stream": "bbbbbbbb/1/new", "after": 0, "upto": log_number(2, 900)}


def test_offsets_of_kafka_are_ranges_too():
    start, end = KafkaOffsets({"a": {0: 5, 1: 7}}), KafkaOffsets({"a": {0: 9, 1: 7}, "b": {2: 3}})
    found = ranges_of_batch(start.to_json(), end.to_json(), [{"c[0]": {"records": 3}}, {"c[1]": {"first_offset": -1,
                                                              "last_offset": -1}}])  # fmt: skip
    assert [(r["side"], r["stream"], r["after"], r["upto"]) for r in found] == [
        (SOURCE, "a[0]", 4, 8), (SOURCE, "b[2]", -1, 2),
    ]  # fmt: skip


def test_a_report_that_is_replaced_leaves_one_set_of_ranges(store):
    SqlRecorder(store).record(report())
    SqlRecorder(store).record(report())
    with store.transaction() as connection:
        sides = connection.execute(sa.select(t.ranges.c.side).order_by(t.ranges.c.side)).scalars().all()
    assert sides == [OUTPUT, SOURCE]


def test_what_was_recorded_before_is_found_too(tmp_path):
    file = tmp_path / "records.db"
    with sqlite3.connect(file) as connection:
        for statement in [*statements("sqlite"), *insert_batch()]:
            connection.execute(statement)
    connection.close()
    with RecordStore(f"sqlite:///{file}") as store, store.transaction() as connection:
        rows = connection.execute(sa.select(t.ranges.c.flow, t.ranges.c.side, t.ranges.c.stream)).all()  # type: ignore[attr-defined]
    assert ("orders", SOURCE) in {(row.flow, row.side) for row in rows}


def test_look_ups_use_the_index(recorded, reader):
    """However many batches there are, a look-up reads the index, never the table or its rows one by one."""
    asked: list[str] = []
    with reader.snapshot():
        connection = reader._connection
    connection.set_trace_callback(lambda told: asked.append(told) if "databus_ranges" in told else None)
    recorded.wrote("orders", "cdc.orders[0]", 50)
    recorded.streams("orders", SOURCE)
    recorded.bounds("orders", SOURCE, STREAM)
    recorded.first_where("orders", STREAM, lambda _: True)
    connection.set_trace_callback(None)
    assert len(asked) >= 6
    for statement in asked:
        plan = " ".join(str(row) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}"))
        assert "SEARCH databus_ranges USING COVERING INDEX ix_databus_ranges_place" in plan, statement
        assert "SCAN databus_ranges" not in plan
