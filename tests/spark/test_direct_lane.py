"""The direct lane against the lane through Spark: the same rows, the same columns for the writer, the same counts."""

# ruff: noqa: DTZ001 - DATETIME has no zone
from __future__ import annotations

import datetime as dt
import json
import random
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, ClassVar

import jsonschema
import pyarrow as pa
import pytest

from databus import AcceptedValues, DropColumns, Flow, InRange, NotNull, Project, RenameColumns, Route, __version__
from databus.binlog.decoding.table_batch import TableBatch, TableEvent
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.receipts import RejectedRow
from databus.core.batches.report import BatchReport
from databus.core.connections import Connection
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.settings import Settings
from databus.core.state.plan import Plan, SinkPlan
from databus.core.times import SystemClock
from databus.rows.emit import emit, emit_events
from databus.rows.image_form import VARIANT_FORM, ImageForm, json_form
from databus.runtime.batch import run_batch
from databus.runtime.context import RunIdentity, Services, open_session
from databus.runtime.direct.lane import may_be_direct
from databus.sinks import envelope
from databus.sinks.kafka import Kafka
from databus.sinks.kafka.encoding import COLUMNS
from databus.sinks.kafka.headers import HEADERS
from databus.sinks.kafka.sink import KafkaSink
from databus.sinks.memory import Memory, clear, records
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints
from databus.testing.table_batches import Unrepresentable, batch, table, transactions

pytestmark = pytest.mark.spark

CLOUD_EVENT = ("ce_specversion", "ce_source", "content-type", "ce_id", "ce_type", "ce_time", "ce_subject")
CLOCK = dt.datetime(2026, 11, 21, 3, 4, 5, 678000, tzinfo=dt.UTC)
TYPES = {
    "id": "bigint", "t": "tinyint", "u32": "int unsigned", "u64": "bigint unsigned", "bits": "bit(64)", "y": "year",
    "money": "decimal(12,2)", "small": "decimal(9,9)", "wide": "decimal(38,10)", "f": "float", "d": "double",
    "day": "date", "at": "datetime(6)", "zone": "timestamp(3)", "took": "time(2)", 'te"xt é': "text", "doc": "json",
    "kind": "enum", "b": "blob",
}  # fmt: skip


def value(kind: str, r: random.Random) -> Any:
    """Return a random value of a column type, edges included."""
    name, digits = kind.split("(", maxsplit=1)[0], kind.partition("(")[2].rstrip(")")
    if name == "decimal":
        precision, scale = map(int, digits.split(","))
        number = r.choice([0, 1, 10**precision - 1, r.randrange(10 ** r.randint(1, precision))])
        return Decimal(f"{r.choice('+-')}{number}e-{scale}")
    if name in ("float", "double"):
        number = r.choice(
            [0.0, -0.0, 1.0, 1e20, 2.5e-7, r.uniform(-1e6, 1e6), r.gauss(0, 1) * 10 ** r.randint(-300, 300)]
        )
        number = max(min(number, 3e38), -3e38) if name == "float" else number
        return struct.unpack("<f", struct.pack("<f", number))[0] if name == "float" else number
    moment = dt.datetime(1970, 1, 2) + dt.timedelta(seconds=r.randrange(2 * 10**9), microseconds=r.randrange(10**6))
    alphabet = 'aé🚚"\\\n\t\x00\x7f/Ж '
    makers: dict[str, Any] = {
        "bigint": lambda: r.choice([-(2**63), 2**63 - 1, 0, r.randrange(10**6)]),
        "tinyint": lambda: r.randint(-128, 127),
        "int unsigned": lambda: r.choice([0, 2**32 - 1]),
        "bigint unsigned": lambda: r.choice([0, 2**63, 2**64 - 1, r.getrandbits(64)]),
        "bit": lambda: r.getrandbits(64),
        "year": lambda: r.choice([0, 1901, 2155]),
        "date": lambda: r.choice([moment.date(), dt.date(1, 1, 1), Unrepresentable("0000-00-00")]),
        "datetime": lambda: r.choice([moment, dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),
        "timestamp": lambda: moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=dt.UTC),
        "time": lambda: dt.timedelta(milliseconds=10 * r.randint(-302039999, 302039999)),
        "text": lambda: r.choice(
            ["".join(r.choice(alphabet) for _ in range(r.choice([0, 3, 300]))), Unrepresentable(b"\xff\x00a")]
        ),
        "json": lambda: json.dumps({"k": [r.random(), None, 'é"']}, ensure_ascii=False),
        "enum": lambda: r.choice(["", "new", "größe"]),
        "blob": lambda: r.randbytes(r.choice([0, 1, 2, 3, 200])),
    }
    return makers[name]()


def image(r: random.Random, **fixed: Any) -> dict[str, Any]:
    """Return a row image: some columns absent, some NULL."""
    random_part = {
        name: None if r.random() < 0.15 else value(kind, r) for name, kind in TYPES.items() if r.random() > 0.1
    }
    return {**random_part, **fixed}


def changes(r: random.Random, rows: int) -> list[tuple[Any, Any]]:
    """Return inserts, updates (some of the key), deletes."""
    found: list[tuple[Any, Any]] = []
    for _ in range(rows):
        key = r.randrange(-5, 40)
        before, after = image(r, id=key), image(r, id=key if r.random() < 0.7 else key + 1)
        found.append(r.choice([(None, after), (before, after), (before, None)]))
    return found


STATEMENTS = (
    TableEvent("t", "shop", "types", "TRUNCATE types", 6, 0),
    TableEvent("m", "shop", "", "CREATE DATABASE 'x' -- \"é\"", 6, 1),
    TableEvent("m", "shop", "new", "CREATE TABLE new (id INT)", 7, 0),
)


def emitted(
    batches: list[TableBatch], statements: tuple[TableEvent, ...], form: ImageForm, *, gtid: bool
) -> list[pa.RecordBatch]:
    log = transactions(8, gtid=gtid)
    pieces = [piece for b in batches for piece in emit(b, log, "srv", form)]
    return [*pieces, *emit_events(statements, log, "srv", form)]


def plan(slots: int, **partitions: int) -> Plan:
    offsets = OffsetRange(BinlogOffset("mysql-bin.000001", 4), BinlogOffset("mysql-bin.000001", 900))
    pinned = SinkPlan(slots, (0,) * slots, {name.replace("__", "."): count for name, count in partitions.items()})
    return Plan("test", "the_flow", 7, offsets, {"kafka": pinned}, "spec", CLOCK)


def loaded(text: bytes | None) -> Any:
    return None if text is None else json.loads(text, parse_float=Decimal)


def by_type(kinds: dict[str, str], row: Any) -> Any:
    """Return a row's JSON with floating-point numbers as the doubles (floats) they stand for."""
    if not isinstance(row, dict):
        return row
    packed = {"float": "<f", "double": "<d"}
    return {
        name: struct.pack(packed[kinds[name]], float(v)) if kinds.get(name) in packed and v is not None else v
        for name, v in row.items()
    }


@pytest.mark.parametrize("shape", ["debezium", "row"])
@pytest.mark.parametrize("gtid", [True, False])
def test_the_encoders_agree(spark: Any, shape: str, gtid: bool) -> None:
    """Random rows of every type, primary-key updates, statements, two tables and two slots, in both envelopes."""
    from pyspark.sql import functions as f

    seed = random.SystemRandom().getrandbits(32)
    r = random.Random(seed)
    typed, bare = table("shop.types", TYPES), table("shop.bare", {"v": "text"}, (), schema_id=1)
    batches = [
        batch(typed, changes(r, 300), transactions=sorted(r.randrange(6) for _ in range(300)), ordinals=range(300)),
        batch(bare, [(None, {"v": "x"}), ({"v": "x"}, {"v": None}), ({}, None)], transactions=[5, 5, 5]),
    ]
    events = STATEMENTS if shape == "debezium" else ()
    chosen: dict[str, Any] = (
        {"headers": HEADERS, "cloudevents": True, "transaction_topic": "cdc.tx"} if shape == "row" else {}
    )
    spec = Kafka(conn_id="k", envelope=shape, ddl=shape == "debezium", slots=2, **chosen)
    columns = (*COLUMNS, *(f"header:{name}" for name in (*HEADERS, *CLOUD_EVENT))) if chosen else COLUMNS
    pinned = plan(2, cdc__shop__types=6, cdc__shop__bare=3)
    connection = Connection(conn_id="k", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
    sink = KafkaSink(spec, connection, FlowContext("the_flow", Settings("i", "", "")))
    through_spark = pa.Table.from_batches(emitted(batches, events, VARIANT_FORM, gtid=gtid))
    routed = spark.createDataFrame(through_spark).withColumn("route", f.concat_ws(".", "database", "table"))
    expected = {row["event_id"]: row.asDict() for row in sink.encode(routed, pinned).collect()}

    encoder = sink.encoder(pinned)
    found: dict[str, dict[str, Any]] = {}
    for piece in emitted(batches, events, json_form({}), gtid=gtid):
        names = [f"{d}.{t}" for d, t in zip(piece["database"].to_pylist(), piece["table"].to_pylist(), strict=True)]
        rows = piece.append_column("route", pa.array(names))
        for slot in (0, 1):
            encoded = encoder.encode(rows, slot)
            assert tuple(encoded.schema.names) == columns
            assert encoded.validate(full=True) is None
            assert set(encoded["slot"].to_pylist()) <= {slot}
            found.update({row["event_id"]: row for row in encoded.to_pylist()})

    assert found.keys() == expected.keys()
    validator = jsonschema.Draft202012Validator(envelope.schema(shape))
    for name, row in found.items():
        wanted = expected[name]
        assert {k: v for k, v in row.items() if k != "value"} == {
            k: bytes(v) if isinstance(v, bytearray) else v for k, v in wanted.items() if k != "value"
        }, seed
        validator.validate(json.loads(row["value"]))
        ours, theirs = loaded(row["value"]), loaded(wanted["value"])
        if shape == "row":
            assert by_type(TYPES, ours) == by_type(TYPES, theirs), seed
            continue
        for half in ("before", "after"):
            assert by_type(TYPES, ours.pop(half)) == by_type(TYPES, theirs.pop(half)), seed
        assert ours == theirs, seed


class Recorder:
    """Keeps reports, and the rows held back."""

    last: ClassVar[Recorder]

    def __init__(self) -> None:
        self.reports: list[BatchReport] = []
        self.held: list[RejectedRow] = []

    def record(self, *reports: BatchReport) -> None:
        self.reports += reports

    def paged(self, flow: str) -> int:
        return 0

    def page(self, flow: str, entries: Any) -> int:
        return 0

    def quarantine(self, flow: str, batch: int, rows: Any, **_: Any) -> None:
        self.held.extend(rows)


@pytest.fixture
def store() -> Iterator[str]:
    clear("lanes")
    yield "lanes"
    clear("lanes")


def moved(spark: Any, flow: Flow) -> tuple[list[dict[str, Any]], list[BatchReport]]:
    """Run a flow to its end; return what its memory sinks hold and its reports."""
    clear("lanes")
    recorder = Recorder.last = Recorder()
    checkpoints = MemoryCheckpoints()
    services = Services(
        Settings("test", "", ""), EnvironmentConnections({}), checkpoints, None, recorder, SystemClock()
    )
    with open_session(flow, services, spark, RunIdentity("run", "", __version__)) as session:
        lease = checkpoints.claim(flow.name, "run", 0)
        checkpoint = checkpoints.start(flow.name, lease, session.source.start_offset(), "run")
        while run_batch(session, lease, checkpoint) is not None:
            loaded_checkpoint = checkpoints.load(flow.name)
            assert loaded_checkpoint is not None
            checkpoint = loaded_checkpoint
        lease.release()
    return records("lanes"), recorder.reports


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    body = json.loads(record["value"])
    body.pop("ts_ms")
    return {**record, "value": body}


def test_both_lanes_deliver_and_count_the_same(spark: Any, store: str) -> None:
    """Two sinks, and transforms that look at no value; one table keeps most of its columns."""
    kinds = {"customer_id": "bigint", "status": "varchar", "amount": "decimal(12,2)", "weight": "double"}
    flow = Flow(
        name="lanes",
        source=Mock(tables=("shop.orders", "shop.people"), rows=200, rows_per_transaction=200, columns=kinds),
        transforms=(
            DropColumns("amount", tables=("shop.orders",)),
            RenameColumns({"customer_id": "buyer"}),
            Route({"shop.orders": "trade"}),
            Project("id", "buyer", "status", tables=("shop.orders",)),
        ),
        sinks=(Memory(store=store), Memory(name="people", store="people", routes=("shop.people",))),
    )
    assert may_be_direct(flow)
    direct, (ours,) = moved(spark, flow)
    through_spark, (theirs,) = moved(spark, flow.model_copy(update={"lane": "spark"}))

    assert len(direct) >= 200
    assert list(map(comparable, direct)) == list(map(comparable, through_spark))
    assert ours.tables == theirs.tables
    assert [r.to_json() for r in ours.receipts] == [r.to_json() for r in theirs.receipts]


def test_both_lanes_hold_the_same_rows_back(spark: Any, store: str) -> None:
    kinds = {"customer_id": "bigint", "status": "varchar", "amount": "decimal(12,2)", "weight": "double"}
    flow = Flow(
        name="lanes",
        source=Mock(tables=("shop.orders", "shop.people"), rows=300, columns=kinds, null_ratio=0.2, seed=5),
        transforms=(RenameColumns({"customer_id": "buyer"}),),
        checks=(
            NotNull("status"),
            NotNull("weight", severity="warn"),
            InRange("amount", minimum="100", tables=("shop.orders",)),
            InRange("buyer", maximum=10.5, severity="warn"),
            AcceptedValues("status", ("x", "paid"), severity="warn"),
        ),
        sinks=(Memory(store=store), Memory(name="people", store="people", routes=("shop.people",))),
    )
    direct, ours = moved(spark, flow)
    held = Recorder.last.held
    through_spark, theirs = moved(spark, flow.model_copy(update={"lane": "spark"}))

    assert list(map(comparable, direct)) == list(map(comparable, through_spark))
    assert [report.tables for report in ours] == [report.tables for report in theirs]
    assert [report.checks for report in ours] == [report.checks for report in theirs]
    assert [quarantined(row) for row in held] == [quarantined(row) for row in Recorder.last.held]
    assert 0 < len(held) < 300


def quarantined(row: RejectedRow) -> tuple[Any, ...]:
    return (row.event_id, row.table, row.key, row.cause, row.stage, row.position, json.loads(row.payload))


def test_rows_no_sink_takes_are_filtered(spark: Any, store: str) -> None:
    source = Mock(tables=("shop.orders", "shop.people"), rows=400)
    flow = Flow(name="part", source=source, sinks=(Memory(store=store, routes=("shop.people",)),))
    found, (report,) = moved(spark, flow)

    orders, people = report.tables["shop.orders"], report.tables["shop.people"]
    assert (orders.filtered, orders.dispatched) == (orders.read, 0)
    assert people.dispatched == people.read == len(found)
