"""CPU of two ways to encode in Spark's lane: Columns in the JVM, or images as text and the direct lane's encoder.

`python -m databus.bench.decoding.one_encoder kafka --rows 200000`, from a checkout; no server is needed. Both ways take
turns in one Spark session, behind one Filter; what the writer would be given is counted and dropped. The third way,
`variants`, brings the columns to Python and writes nothing: the least that a writer of VARIANT bytes would cost.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from databus.core.connections import Connection
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.protocols.optional_sink import DirectEncoder
from databus.core.settings import Settings
from databus.core.state.plan import Plan, SinkPlan
from databus.rows.emit import emit
from databus.rows.frames.changes import FrameChanges
from databus.rows.image_form import VARIANT_FORM
from databus.runtime.spark.session import classic_session
from databus.sinks.elasticsearch.sink import ElasticsearchSink
from databus.sinks.elasticsearch.spec import Elasticsearch
from databus.sinks.kafka.sink import KafkaSink
from databus.sinks.kafka.spec import Kafka
from databus.testing.table_batches import batch, table, transactions
from databus.transforms.filter import Filter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_PIECE = 10_000
"""Different rows; they are read again until there are enough."""
_COLUMNS = {
    "id": "bigint", "customer_id": "int unsigned", "amount": "decimal(12,2)", "score": "double", "code": "varchar",
    "title": "varchar", "body": "text", "created_at": "datetime(6)", "updated_at": "timestamp(3)", "attrs": "json",
    "status": "enum", "flag": "tinyint",
}  # fmt: skip
_READ = {
    "kafka": (
        "op", "database", "table", "schema_id", "key", "key_hash", "log", "place", "transaction", "ordinal", "part",
        "event_id", "ts_ms", "server_id", "statement", "flags", "route",
    ),
    "elasticsearch": (
        "op", "database", "table", "key", "key_hash", "log", "place", "ordinal", "part", "event_id", "statement",
        "flags", "absent", "other_key", "route",
    ),
}  # fmt: skip
"""Columns that the direct lane's encoder reads beside the images."""
_COUNTED = "rows bigint, bytes bigint"


def _image(number: int, r: random.Random, more: int = 0) -> dict[str, Any]:
    """Return a row like those of `databus.bench.orders`."""
    return {
        "id": number,
        "customer_id": 1 + number * 7919 % 4_000_000,
        "amount": Decimal(number * 104_729 % 1_000_000_000 + more) / 100,
        "score": None if number % 17 == 0 else number * 1.000123 / 3,
        "code": f"ORD-{number:010X}-{r.getrandbits(64):016x}",
        "title": None if number % 23 == 0 else f"Заказ №{number} " + "item " * (5 + number % 12),
        "body": None if number % 29 == 0 else f"{r.getrandbits(640):0160x}",
        "created_at": dt.datetime(2024, 1, 1) + dt.timedelta(seconds=number * 7, microseconds=123_456),  # noqa: DTZ001
        "updated_at": dt.datetime(2024, 6, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=number, milliseconds=123),
        "attrs": None if number % 31 == 0 else json.dumps({"k": number, "src": "web", "tags": ["a", "b", number % 9]}),
        "status": "paid",
        "flag": number % 2,
    }


def _frame(spark: Any, rows: int, folder: Path) -> DataFrame:
    """Return rows behind one Filter that all of them pass: 6 of 10 inserts, 3 updates, 1 delete."""
    import pyarrow as pa

    r = random.Random(3)  # noqa: S311 - the same rows in every run
    changes: list[tuple[Any, Any]] = []
    for number in range(_PIECE):
        before, after = _image(number, r), _image(number, r, 100)
        changes.append(((None, after), (before, after), (before, None))[(number % 10 > 5) + (number % 10 > 8)])
    orders = table("bench.orders", _COLUMNS)
    piece = batch(orders, changes, transactions=sorted(r.randrange(100) for _ in changes), ordinals=range(_PIECE))
    made = spark.createDataFrame(
        pa.Table.from_batches(list(emit(piece, transactions(101, gtid=True), "srv", VARIANT_FORM)))
    )
    made.coalesce(1).write.parquet(str(folder / "rows"))
    read = spark.read.schema(made.schema).parquet(*[str(folder / "rows")] * (rows // _PIECE))
    return Filter("customer_id >= 0").apply(FrameChanges.of(read, [orders])).materialized().rows.where("NOT filtered")  # type: ignore[attr-defined]


def _opened(kind: str) -> tuple[Any, Plan]:
    """Return a sink of one slot and a plan for it."""
    offsets = OffsetRange(BinlogOffset("mysql-bin.000001", 4), BinlogOffset("mysql-bin.000001", 900))
    pinned = SinkPlan(1, (0,), {"cdc.bench.orders": 6})
    plan = Plan("bench", "bench", 1, offsets, {kind: pinned}, "spec", dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    if kind == "kafka":
        nobody = Connection(conn_id="k", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
        return KafkaSink(Kafka(conn_id="k"), nobody, FlowContext("bench", Settings("bench", "", ""))), plan
    return ElasticsearchSink(Elasticsearch(conn_id="s"), Connection(conn_id="s", conn_type="opensearch"), "bench"), plan


def _counter(encoder: DirectEncoder | None = None) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task that counts rows and bytes, encoded before where an encoder is given."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        rows = size = 0
        for piece in batches:
            encoded = piece
            if encoder is not None:
                for image in ("before", "after"):
                    place = encoded.schema.get_field_index(image)
                    encoded = encoded.set_column(place, image, encoded.column(place).cast(pa.binary()))
                encoded = encoder.encode(encoded, 0)
            rows, size = rows + encoded.num_rows, size + encoded.nbytes
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64()), "bytes": pa.array([size], pa.int64())})

    return run


def _ways(kind: str, frame: DataFrame) -> dict[str, Callable[[], DataFrame]]:
    """Return the ways to encode, by name."""
    from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

    sink, plan = _opened(kind)
    read, slot = _READ[kind], F.lit(0).alias("slot")
    texts = [F.to_json(image).alias(image) for image in ("before", "after")]
    counter, encoder = _counter(), _counter(sink.encoder(plan))
    return {
        "columns": lambda: sink.encode(frame, plan).coalesce(1).mapInArrow(counter, _COUNTED),
        "one": lambda: frame.select(slot, *read, *texts).coalesce(1).mapInArrow(encoder, _COUNTED),
        "variants": lambda: frame.select(slot, *read, "before", "after").coalesce(1).mapInArrow(counter, _COUNTED),
    }


def _cpu() -> float:
    """Return the CPU seconds of this process's descendants, the JVM and Spark's Python workers."""
    import psutil

    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


def main(arguments: list[str]) -> None:
    """Print a line a run, and the median of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(_READ))
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    found: dict[str, list[float]] = {}
    spark = classic_session("local[1]", {"spark.driver.memory": "3g", "spark.driver.host": "127.0.0.1"})
    with tempfile.TemporaryDirectory(prefix="databus-bench-") as folder:
        ways = list(_ways(options.kind, _frame(spark, options.rows, Path(folder))).items())
        for turn in range(options.rounds + 1):
            for name, way in ways if turn % 2 else reversed(ways):
                before = _cpu()
                (counted,) = way().collect()
                used = (_cpu() - before) / options.rows * 1e6
                sys.stdout.write(f"{'warm-up ' if not turn else ''}{name} {counted['rows']} rows {used:.1f} us/row\n")
                if turn:
                    found.setdefault(name, []).append(used)
    for name, figures in found.items():
        low, middle, high = min(figures), statistics.median(figures), max(figures)
        sys.stdout.write(f"{name}: {middle:.1f} us/row of CPU, {low:.1f} to {high:.1f}\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
