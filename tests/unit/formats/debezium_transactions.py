"""Recording of a real Debezium's transaction metadata over a log, beside what the direct lane makes of the same log."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from databus import Flow, MysqlBinlog
from databus.binlog.decoding.table_batch import TableBatch, TableEvent, Transactions
from databus.core.batches.receipts import WriteReceipt
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.ops.decode.files import decode_files
from databus.rows.emit import emit
from databus.rows.image_form import ImageForm
from databus.runtime.direct.row_counts import Taker
from databus.runtime.direct.task import DirectTask
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.spec import Kafka
from databus.sources.split_rows import SplitRows

KEPT = Path(__file__).parents[2] / "fixtures" / "debezium_transactions"
DATABASE = "dbt"
TABLES = ("apples", "pears", "last")
"""Tables that are captured; "last" ends the recording."""

VARIANTS: dict[str, dict[str, object]] = {"plain": {}, "schemas": {"schemas": True}}

SCRIPT = (
    "CREATE TABLE apples (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE pears (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE plums (id INT PRIMARY KEY, v INT)",
    "INSERT INTO apples VALUES (1, 1)",
    "BEGIN",
    "INSERT INTO apples VALUES (2, 2), (3, 3)",
    "INSERT INTO pears VALUES (1, 1)",
    "INSERT INTO plums VALUES (1, 1)",
    "UPDATE apples SET v = v + 1",
    "INSERT INTO pears VALUES (2, 2)",
    "DELETE FROM apples WHERE id = 2",
    "COMMIT",
    "INSERT INTO plums VALUES (2, 2)",
    "BEGIN",
    "INSERT INTO plums VALUES (3, 3)",
    "UPDATE pears SET id = 9 WHERE id = 1",
    "UPDATE pears SET v = 5",
    "COMMIT",
    "BEGIN",
    "INSERT INTO apples VALUES (7, 7)",
    "ROLLBACK",
    "BEGIN",
    "INSERT INTO apples VALUES (8, 8)",
    "SAVEPOINT s",
    "INSERT INTO pears VALUES (8, 8)",
    "ROLLBACK TO s",
    "INSERT INTO apples VALUES (9, 9)",
    "COMMIT",
    "CREATE TABLE last (id INT PRIMARY KEY)",
    "INSERT INTO last VALUES (1)",
)
"""Statements in their order. Those of plums are not captured."""

Messages = dict[str, list[tuple[Any, Any]]]
"""Topic without the prefix → keys and values, parsed; None where there is none."""


def prefix_of(variant: str) -> str:
    """Return the connector's `topic.prefix`."""
    return f"transactions_{variant}"


@dataclass(frozen=True)
class _LogRows(SplitRows):
    items: tuple[tuple[TableBatch, Transactions], ...]

    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        pieces = [rows for item, log in self.items for rows in emit(item, log, "server", form)]
        order = [(name, "ascending") for name in ("place", "ordinal", "part")]
        yield from pa.Table.from_batches(pieces).sort_by(order).combine_chunks().to_batches(max_chunksize=3)


class _Kept:
    def __init__(self, prefix: str) -> None:
        self.prefix, self.found = prefix, dict[str, list[tuple[Any, Any]]]()

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        for row in (row for batch in rows for row in batch.to_pylist()):
            of = self.found.setdefault(row["topic"].removeprefix(f"{self.prefix}."), [])
            of.append((_parsed(row["key"]), _parsed(row["value"])))
            if row["tombstone"]:
                of.append((_parsed(row["key"]), None))
        return WriteReceipt("kafka", slot, 1, sum(map(len, self.found.values())))


class _Taken:
    def __init__(self) -> None:
        self.items: list[tuple[TableBatch | TableEvent, Transactions]] = []

    def write(self, item: TableBatch | TableEvent, transactions: Transactions) -> None:
        self.items.append((item, transactions))

    def close(self) -> None:
        pass


class TransactionRecording:
    """Recording, read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        packed = (folder / "messages.json.gz").read_bytes()
        self.debezium: dict[str, Messages] = json.loads(gzip.decompress(packed))

    def ours(self, variant: str) -> Messages:
        """Return what the direct lane writes of the log."""
        prefix = prefix_of(variant)
        sink = Kafka(
            conn_id="k", types="debezium", topic_prefix=prefix, topic=f"{prefix}.{{route}}",
            transaction_topic=f"{prefix}.transaction", **VARIANTS[variant],
        )  # type: ignore[arg-type] # fmt: skip
        items, schemas = self._decoded()
        place = BinlogOffset("log.000001", 4), BinlogOffset("log.000001", 9)
        planned = SourcePlan(OffsetRange(*place), schemas, 100, 100)
        topics = {f"{prefix}.{DATABASE}.{table}": 1 for table in TABLES} | {f"{prefix}.transaction": 1}
        sinks = {"kafka": SinkPlan(partitions=topics)}
        plan = Plan("test", "f", 1, planned.range, sinks, "hash", datetime(2026, 5, 3, tzinfo=UTC))
        flow = Flow(name="f", source=MysqlBinlog(conn_id="m", tables=(f"{DATABASE}.*",)), sinks=(sink,))
        encoder = KafkaEncoder(sink, plan, sink.message_format()).of_tables(schemas)
        writer, taker = _Kept(prefix), Taker(("*",), frozenset("cud"))
        DirectTask(flow, planned, (_LogRows(items),), {}, None, (taker,), 0, False, encoder, writer).write(0)
        return writer.found

    def _decoded(self) -> tuple[tuple[tuple[TableBatch, Transactions], ...], tuple[Any, ...]]:
        taken = _Taken()
        (packed,) = self._folder.glob("*.[0-9]*.gz")
        with TemporaryDirectory() as folder:
            path = Path(folder) / packed.name.removesuffix(".gz")
            path.write_bytes(gzip.decompress(packed.read_bytes()))
            decode_files([path], (), taken)
        numbers: dict[str, int] = {}
        items = []
        for item, transactions in taken.items:
            if isinstance(item, TableBatch) and item.schema.database == DATABASE and item.schema.table in TABLES:
                number = numbers.setdefault(item.schema.table, len(numbers))
                items.append((replace(item, schema=replace(item.schema, schema_id=number)), transactions))
        schemas = {item.schema.schema_id: item.schema for item, _ in items}
        return tuple(items), tuple(schemas.values())


def boundaries(messages: Messages) -> list[tuple[Any, Any]]:
    """Return the messages of the topic of transactions that tell of any row, without what is of the moment.

    Debezium tells of transactions without a captured row as well; its times are those of log events, whole seconds.
    """
    told = [(key, value) for key, value in messages["transaction"]]
    empty = {_payload(v)["id"] for _, v in told if _payload(v)["status"] == "END" and not _payload(v)["event_count"]}
    found = []
    for key, value in told:
        payload = _payload(value)
        if payload["id"] in empty:
            continue
        counts = payload["data_collections"]
        comparable = {
            **payload,
            "ts_ms": payload["ts_ms"] // 1000,
            "data_collections": counts and sorted(counts, key=lambda each: str(each["data_collection"])),
        }
        found.append((_payload(key), comparable))
    return found


def blocks(messages: Messages) -> dict[str, list[Any]]:
    """Return topic → `transaction` of each value in it, None of a tombstone."""
    return {
        topic: [None if value is None else _payload(value)["transaction"] for _, value in found]
        for topic, found in sorted(messages.items())
        if topic != "transaction"
    }


def schemas_of(messages: Messages) -> list[tuple[Any, Any]]:
    """Return the schemas of keys and values in the topic of transactions, without the field that is ours alone."""
    found = []
    for key, value in messages["transaction"]:
        schema = dict(value["schema"])
        schema["fields"] = [field for field in schema["fields"] if field["field"] != "quarantined"]
        if (key["schema"], schema) not in found:
            found.append((key["schema"], schema))
    return found


def _payload(message: Any) -> Any:
    return message["payload"] if set(message) == {"schema", "payload"} else message


def _parsed(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)
