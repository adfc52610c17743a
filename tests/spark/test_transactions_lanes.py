"""Transactions in both lanes: the same orders, boundaries and counts, in the same order of records in each slot."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from databus import Flow, MysqlBinlog
from databus.binlog.decoding.table_batch import TableBatch, TableEvent
from databus.core.batches.receipts import WriteReceipt
from databus.core.connections import Connection
from databus.core.flow_specs import FlowContext
from databus.core.settings import Settings
from databus.core.state.plan import SourcePlan
from databus.rows.emit import emit, emit_events
from databus.rows.frames.transactions import with_boundaries
from databus.rows.image_form import ImageForm
from databus.runtime.direct.row_counts import Taker
from databus.runtime.direct.task import DirectTask
from databus.runtime.dispatch import log_order
from databus.sinks.kafka import Kafka
from databus.sinks.kafka.sink import KafkaSink
from databus.sources.split_rows import SplitRows
from databus.testing.table_batches import batch, table, transactions
from tests.spark.test_direct_lane import plan

pytestmark = pytest.mark.spark

SLOTS = 2
ORDERS = table("shop.orders", {"id": "int", "v": "text"})
LOG = table("shop.log", {"v": "text"}, (), schema_id=1)
HEADERS = ("event_id", "table", "op", "transaction", "total_order", "data_collection_order")
FORMS: dict[str, dict[str, Any]] = {
    "debezium": {"ddl": True},
    "row": {"envelope": "row", "headers": HEADERS, "cloudevents": True},
}

Piece = TableBatch | TableEvent


@dataclass(frozen=True)
class LogRows(SplitRows):
    """Split of pieces in the order of the log, the first of them read by a snapshot."""

    pieces: tuple[Piece, ...]
    gtid: bool

    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        log = transactions(12, gtid=self.gtid)
        for piece in self.pieces:
            if isinstance(piece, TableBatch):
                yield from emit(piece, log, "srv", form)
            else:
                yield from emit_events([piece], log, "srv", form)


class Keeping:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        self.rows = [row for part in rows for row in part.to_pylist()]
        return WriteReceipt("kafka", slot, 1, len(self.rows))


def log_of(r: random.Random) -> tuple[Piece, ...]:
    """Return rows of a snapshot, then transactions over two tables, cut into batches at random, and statements."""
    found: list[Piece] = [
        batch(ORDERS, [(None, {"id": i, "v": "r"}) for i in range(3)], transactions=[0] * 3, read=True)
    ]
    for number in range(1, 11):
        if r.random() < 0.2:
            found.append(TableEvent("t", "shop", r.choice(["orders", "log"]), "TRUNCATE x", number, 0))
            continue
        ordinal = 0
        for _ in range(r.randint(1, 4)):
            n = r.randint(1, 4)
            rows = []
            keyed = r.random() < 0.6
            for _ in range(n):
                one, two = ({"id": r.randrange(9), "v": "x"} if keyed else {"v": r.choice("ab")} for _ in range(2))
                rows.append(r.choice([(None, one), (one, two), (one, None)]))
            ordinals = range(ordinal, ordinal + n)
            found.append(
                batch(ORDERS if keyed else LOG, rows, transactions=[number] * n, ordinals=ordinals)  # type: ignore[arg-type] # images
            )
            ordinal += n
    found.append(TableEvent("m", "shop", "", "CREATE DATABASE x", 11, 0))
    return tuple(found)


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    texts = {name: row[name] and bytes(row[name]) for name in ("key", "value")}
    return {**row, **texts, "value": json.loads(texts["value"])}


@pytest.mark.parametrize(("form", "gtid"), [("debezium", True), ("row", False)])
def test_both_lanes_write_the_same_transactions(spark: Any, form: str, gtid: bool) -> None:
    from pyspark.sql import functions as f

    seed = random.SystemRandom().getrandbits(32)
    r = random.Random(seed)
    split = LogRows(log_of(r), gtid)
    spec = Kafka(conn_id="k", slots=SLOTS, transaction_topic="cdc.{flow}.t", **FORMS[form])
    pinned = plan(SLOTS, cdc__shop__orders=5, cdc__shop__log=3, cdc__the_flow__t=1)
    connection = Connection(conn_id="k", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
    sink = KafkaSink(spec, connection, FlowContext("the_flow", Settings("i", "", "")))
    rows = pa.Table.from_batches(list(split.read()))
    ids = [i for i, op in zip(rows["event_id"].to_pylist(), rows["op"].to_pylist(), strict=True) if op in "cud"]
    held = frozenset(r.sample(ids, len(ids) // 4))

    taken = f.col("op").isin(*sink.accepts())
    routed = spark.createDataFrame(rows).withColumn("route", f.concat_ws(".", "database", "table")).where(taken)
    through_spark = sink.encode(with_boundaries(routed, f.col("event_id").isin(*held)), pinned)
    expected = [comparable(row.asDict()) for row in through_spark.sort("slot", *log_order()).collect()]

    flow = Flow(name="the_flow", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=(spec,))
    planned = SourcePlan(pinned.range, (ORDERS, LOG), len(ids), 100)
    found: list[dict[str, Any]] = []
    for slot in range(SLOTS):
        writer, taker = Keeping(), Taker(("*",), sink.accepts())
        task = DirectTask(
            flow, planned, (split,), {}, None, (taker,), 0, False, sink.encoder(pinned), writer, passed=held
        )
        task.write(slot)
        found += map(comparable, writer.rows)

    assert [row["event_id"] for row in found] == [row["event_id"] for row in expected], seed
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == theirs, seed
    assert sum(row["value"].get("quarantined", 0) for row in found if row["database"] is None) == len(held)
