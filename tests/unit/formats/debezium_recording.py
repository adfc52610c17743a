"""Recording of a log and of the messages that a real Debezium made of it, beside those of our encoder.

A recording is a folder: `log.NNNNNN` is the server's log file, packed; `messages.json` has for each variant and table
the keys and values that Debezium sent, in their order.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch, TableEvent, Transactions
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import Plan, SinkPlan
from databus.ops.decode.files import decode_files
from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.spec import Kafka
from tests.unit.formats.debezium_tables import DATABASE, TABLES, VARIANTS

KEPT = Path(__file__).parents[2] / "fixtures" / "debezium"
PREFIX = "recorded"
Message = tuple[Any, Any]
"""Key and value, parsed; None where there is none."""

DIFFERENT_SOURCE = ("version", "ts_us", "ts_ns", "pos", "row", "thread")
"""Fields of `source` that differ, each for a reason that docs/reference/messages.md gives."""


class Number(str):
    """Number with a point or an exponent, as it is written."""

    __slots__ = ()


def prefix_of(variant: str) -> str:
    """Return the connector's `topic.prefix`."""
    return f"{PREFIX}_{variant}"


class Recording:
    """Recording, read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        packed = (folder / "messages.json.gz").read_bytes()
        self.debezium: Mapping[str, Mapping[str, list[Message]]] = json.loads(
            gzip.decompress(packed), parse_float=Number
        )

    def ours(self, variant: str) -> dict[str, list[Message]]:
        """Return the messages that our encoder makes of the log, by table."""
        sink = Kafka(conn_id="k", types="debezium", topic_prefix=prefix_of(variant), **VARIANTS[variant])  # type: ignore[arg-type]
        found: dict[str, list[Message]] = {table: [] for table in TABLES}
        items = list(self._decoded())
        plan = _plan()
        encoder = KafkaEncoder(sink, plan, sink.message_format()).of_tables([item.schema for item, _ in items])
        for item, transactions in items:
            for rows in emit(item, transactions, "server", json_form({}, values=encoder.values)):
                routed = rows.append_column("route", pa.array([item.schema.full_name] * rows.num_rows))
                for row in encoder.encode(routed, 0).select(["key", "value", "tombstone"]).to_pylist():
                    key = _parsed(row["key"])
                    found[item.schema.table].append((key, _parsed(row["value"])))
                    if row["tombstone"]:
                        found[item.schema.table].append((key, None))
        return found

    def _decoded(self) -> Iterator[tuple[TableBatch, Transactions]]:
        taken = _Taken()
        (packed,) = self._folder.glob("*.[0-9]*.gz")
        with TemporaryDirectory() as folder:
            path = Path(folder) / packed.name.removesuffix(".gz")
            path.write_bytes(gzip.decompress(packed.read_bytes()))
            decode_files([path], (), taken)
        for item, transactions in taken.items:
            if isinstance(item, TableBatch) and item.schema.database == DATABASE and item.schema.table in TABLES:
                yield item, transactions


class _Taken:
    def __init__(self) -> None:
        self.items: list[tuple[TableBatch | TableEvent, Transactions]] = []

    def write(self, item: TableBatch | TableEvent, transactions: Transactions) -> None:
        self.items.append((item, transactions))

    def close(self) -> None:
        pass


def _plan() -> Plan:
    offsets = OffsetRange(BinlogOffset("log.000001", 4), BinlogOffset("log.000001", 9))
    topics = {f"cdc.{DATABASE}.{table}": 1 for table in TABLES}
    sinks = {"kafka": SinkPlan(partitions=topics)}
    return Plan("test", "the_flow", 1, offsets, sinks, "hash", datetime(2026, 5, 3, tzinfo=UTC))


def _parsed(text: bytes | None) -> Any:
    return None if text is None else json.loads(text, parse_float=Number)


def differences(ours: list[Message], theirs: list[Message]) -> Iterator[str]:
    """Yield the path and both sides of all that differs between messages, but for `DIFFERENT_SOURCE`."""
    if len(ours) != len(theirs):
        yield f"{len(ours)} messages of ours, {len(theirs)} of Debezium's"
    for number, ((key, value), (other_key, other)) in enumerate(zip(ours, theirs, strict=False)):
        yield from _between(f"{number}.key", key, other_key)
        yield from _between(f"{number}.value", value, other)


def _between(path: str, ours: Any, theirs: Any) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in [*theirs, *(name for name in ours if name not in theirs)]:
            left_out = path.endswith(".source") and name in (*DIFFERENT_SOURCE, "event_id", "flags")
            left_out |= path.endswith((".value", ".payload")) and name in ("ts_ms", "ts_us", "ts_ns")
            if not left_out:
                yield from _between(f"{path}.{name}", ours.get(name, "(absent)"), theirs.get(name, "(absent)"))
    elif isinstance(ours, list) and isinstance(theirs, list) and path.endswith("fields"):
        named = {field.get("field"): field for field in ours}
        for field in theirs:
            yield from _between(f"{path}.{field['field']}", named.pop(field["field"], "(absent)"), field)
        for name in named:
            yield f"{path}.{name}: of ours alone"
    elif not _equal(ours, theirs):
        yield f"{path}: {ours!r}, Debezium {theirs!r}"


def _equal(ours: Any, theirs: Any) -> bool:
    """Compare values; floating-point numbers, which are kept as texts, by the double they are."""
    if isinstance(ours, Number) and isinstance(theirs, Number):
        return float(ours) == float(theirs)
    return type(ours) is type(theirs) and bool(ours == theirs)
