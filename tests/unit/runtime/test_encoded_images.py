"""A task whose encoder takes images in a form of its own: what a check holds back is JSON all the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from databus import Flow, Mock, NotNull
from databus.core.batches.receipts import WriteReceipt
from databus.core.errors.sink import SinkSettingError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.rows.avro.schemas import shape_in
from databus.rows.emit import emit
from databus.rows.image_form import ImageForm
from databus.rows.wire.shapes import wire_head
from databus.runtime.direct.row_checks import image_marks
from databus.runtime.direct.row_counts import Taker
from databus.runtime.direct.task import DirectTask
from databus.sinks.kafka.registered.avro import AvroEncoder
from databus.sinks.kafka.spec import Kafka
from databus.sources.split_rows import SplitRows
from databus.testing.table_batches import batch, table, transactions

SCHEMA = table("shop.orders", {"id": "int", "note": "text"})
RANGE = OffsetRange(BinlogOffset("log.000001", 4), BinlogOffset("log.000001", 900))
SINK = Kafka(conn_id="k", format="avro", registry_conn_id="r")
PLANNED = SourcePlan(RANGE, (SCHEMA,), 3, 100)


class OneBatch(SplitRows):
    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        rows = [(None, {"id": 1, "note": "a"}), (None, {"id": 2, "note": None}), (None, {"id": 3, "note": "c"})]
        yield from emit(batch(SCHEMA, rows), transactions(), "srv", form)


class OnlyText:
    def read_text(self, *_: Any) -> Iterator[pa.RecordBatch]:
        yield from OneBatch().read_text({})


class Keeping:
    """Writer that keeps what it is given."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        self.values = [value for encoded in rows for value in encoded["value"].to_pylist()]
        return WriteReceipt("kafka", slot, 1, len(self.values))


def task(splits: tuple[Any, ...], writer: Any) -> DirectTask:
    flow = Flow(name="f", source=Mock(rows=3), checks=(NotNull("note"),), sinks=(SINK,))
    pinned = SinkPlan(
        partitions={"cdc.shop.orders": 1},
        schemas={0: RegisteredSchemas("cdc.shop.orders", 7, shape_in(SCHEMA, None).form, 5)},
    )
    plan = Plan("test", "f", 1, RANGE, {"kafka": pinned}, "spec", datetime(2026, 11, 27, tzinfo=UTC))
    takers = (Taker(("*",), frozenset("cudr")),)
    marks = image_marks(flow, PLANNED)
    return DirectTask(flow, PLANNED, splits, {}, marks, takers, 0, True, AvroEncoder(SINK, plan), writer)


def test_rows_that_a_check_holds_back_are_json() -> None:
    writer = Keeping()
    _, seen = task((OneBatch(),), writer).write(0)

    assert [value[:5] for value in writer.values] == [wire_head(7)] * 2
    assert seen.given == 2
    assert [(row.key, json.loads(row.payload)["after"]) for row in seen.held] == [('{"id":2}', {"id": 2, "note": None})]
    assert seen.read["0_quarantined"] == 1


def test_a_source_that_gives_text_only_is_named() -> None:
    with pytest.raises(SinkSettingError, match="sink kafka: source mock gives JSON only"):
        task((OnlyText(),), Keeping()).write(0)
