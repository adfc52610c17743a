"""A run tells of a primary key that changes."""

from __future__ import annotations

import pytest

from databus import Elasticsearch, Flow, Kafka, MysqlBinlog
from databus.core.offsets import BinlogOffset, KafkaOffsets, OffsetRange
from databus.core.plan import SourcePlan
from databus.core.tables import TableSchema
from databus.runtime.changed_keys import ChangedKeys
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
