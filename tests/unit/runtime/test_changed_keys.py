"""A run tells of a primary key that changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databus import Elasticsearch, Flow, Kafka, MysqlBinlog
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import MovedColumns, TableSchema
from databus.runtime.tables.changed_keys import ChangedKeys
from databus.testing.table_batches import table

NAMES = {"id": "int", "b": "int"}
FLOW = Flow(name="f", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=(Kafka(conn_id="k", topic="t"),))
BY_ID, BY_B = table("shop.pk", NAMES), table("shop.pk", NAMES, ("b",), schema_id=1)


def planned(*tables: TableSchema) -> SourcePlan:
    return SourcePlan(OffsetRange(BinlogOffset("bin.000001", 4), BinlogOffset("bin.000001", 900)), tables, 1, 1)


@pytest.mark.parametrize("ranges", [[(BY_ID, BY_B)], [(BY_ID,), (BY_B,), (BY_B,)]])
def test_a_key_that_changes_is_told_once(
    ranges: list[tuple[TableSchema, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    keys = ChangedKeys()
    for tables in ranges:
        keys.tell(FLOW, planned(*tables))
    (record,) = caplog.records
    assert "flow f: the primary key of shop.pk is (b) in (bin.000001:4" in record.getMessage()
    assert "was (id)" in record.getMessage()
    assert "in a compacted topic" in record.getMessage()


def test_without_topics_none_is_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    ChangedKeys().tell(FLOW.model_copy(update={"sinks": (Elasticsearch(conn_id="e"),)}), planned(BY_ID, BY_B))
    assert [record.getMessage().rpartition("was ")[2] for record in caplog.records] == [
        "(id): its rows have other keys from there on"
    ]


def test_a_topic_has_two_keys_at_any_time(caplog: pytest.LogCaptureFixture) -> None:
    moved = OffsetRange(KafkaOffsets({"t": {0: 0}}), KafkaOffsets({"t": {0: 9}}))
    ChangedKeys().tell(FLOW, SourcePlan(moved, (BY_ID, BY_B), 1, 1))
    assert caplog.records == []


EXCHANGED = MovedColumns("shop.pk", (("id", "b"), ("b", "id")), "bin.000001", 500, 1, ((0, 1),))


@pytest.mark.parametrize("apart", [True, False])
def test_another_column_under_the_name_of_the_key_is_told_once(
    caplog: pytest.LogCaptureFixture, *, apart: bool
) -> None:
    """Also where the statement lies in a range without rows, and where the definition is the same before and behind."""
    keys, both = ChangedKeys(), planned(BY_ID)
    if apart:
        keys.tell(FLOW, both)
        keys.tell(FLOW, replace(planned(), columns_moved=(replace(EXCHANGED, rows=0, first=()),)))
        keys.tell(FLOW, both)
    else:
        keys.tell(FLOW, replace(both, rows=2, rows_before=(0,), columns_moved=(EXCHANGED,)))
    keys.tell(FLOW, both)
    (record,) = caplog.records
    assert "is (id) in" in record.getMessage()
    assert "these were other columns before, now (b)" in record.getMessage()


def test_a_key_column_that_only_gets_another_name_is_another_key_of_records(caplog: pytest.LogCaptureFixture) -> None:
    """They name it; other columns say nothing."""
    keys = ChangedKeys()
    keys.tell(FLOW, planned(BY_ID))
    beside = MovedColumns("shop.pk", (("b", "c"), ("note", "")))
    keys.tell(FLOW, replace(planned(BY_ID), columns_moved=(replace(beside, first=((0, 0),)),)))
    assert caplog.records == []
    renamed = replace(planned(table("shop.pk", {"pk": "int"}, ("pk",))), columns_moved=(
        MovedColumns("shop.pk", (("id", "pk"),), first=((0, 0),)),
    ))  # fmt: skip
    keys.tell(FLOW, renamed)
    assert "is (pk) in" in caplog.text
    assert "was (id)" in caplog.text
