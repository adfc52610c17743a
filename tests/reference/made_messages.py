"""Messages of the written log, as the decoder and the sink's own encoder make them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.table_batch import INSERT, TableBatch, TableEvent, Transactions
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import Plan, SinkPlan
from databus.ops.decode.files import decode_files
from databus.rows.emit import emit, emit_events
from databus.rows.image_form import ImageForm, json_form
from databus.runtime.direct.transaction_orders import TransactionOrders
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.produce import hand_over
from databus.sinks.kafka.spec import Kafka
from databus.sinks.kafka.transactions import encoded_boundaries
from databus.sources.mysql.snapshot.chunk_form import EXCEPTIONS, ChunkHead, batch_of
from databus.sources.mysql.snapshot.chunk_split import ChunkAddress, ChunkSplit
from databus.testing.table_batches import Image
from tests.reference.written_log import log_bytes

SERVER = "11111111-2222-3333-4444-555555555555"
"""Identity of the server, which its log does not hold."""
CLOCK = datetime(2026, 5, 3, 10, 20, 31, tzinfo=UTC)
LOG_NAME = "mysql-bin.000002"


@dataclass(frozen=True)
class Message:
    """Kafka record, before it is sent.

    Attributes:
        topic: name.
        key: UTF-8, None without.
        headers: name → text.
        value: UTF-8, None of a tombstone.
    """

    topic: str
    key: str | None
    headers: Mapping[str, str]
    value: str | None

    def shown(self) -> str:
        """Return it in four lines, the value as it is but for line breaks between members of the first level."""
        lines = [f"topic    {self.topic}", f"key      {self.key or '(none)'}"]
        lines += [f"headers  {', '.join(f'{name}={text}' for name, text in self.headers.items())}"]
        return "\n".join([*lines, f"value    {_spread(self.value)}"])


def _spread(value: str | None) -> str:
    if value is None:
        return "(none)"
    parts = json.loads(value, parse_float=_Digits)
    return "{" + ",\n          ".join(f'"{name}": {_json(part)}' for name, part in parts.items()) + "}"


class _Digits(float):
    """Number with the digits that it was written with."""

    def __new__(cls, text: str) -> _Digits:
        made = super().__new__(cls, text)
        made.text = text  # type: ignore[attr-defined]
        return made

    def __repr__(self) -> str:
        return str(self.text)  # type: ignore[attr-defined]


def _json(value: Any) -> str:
    if isinstance(value, _Digits):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_json(part)}" for name, part in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


class _Taken:
    """Output of decoded files that keeps what it is given."""

    def __init__(self) -> None:
        self.items: list[tuple[TableBatch | TableEvent, Transactions]] = []

    def write(self, item: TableBatch | TableEvent, transactions: Transactions) -> None:
        self.items.append((item, transactions))

    def close(self) -> None:
        pass


@cache
def decoded() -> tuple[tuple[TableBatch | TableEvent, Transactions], ...]:
    """Return what the log holds, in its order."""
    taken = _Taken()
    with TemporaryDirectory() as folder:
        path = Path(folder) / LOG_NAME
        path.write_bytes(log_bytes())
        decode_files([path], (), taken)
    return tuple(taken.items)


class _Collected:
    """Stands where a producer stands, and keeps what is given to it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def produce(self, topic: str, value: bytes | None, key: bytes | None, *more: Any) -> None:
        headers = dict(more[-1])
        self.messages.append(
            Message(topic, key.decode() if key else None, headers, None if value is None else bytes(value).decode())
        )

    def poll(self, timeout_s: float) -> None:
        pass


def messages(table: str, *, snapshot: bool = False, **options: Any) -> list[Message]:
    """Return the records of one table of the log, in its order.

    Args:
        table: without its database.
        snapshot: whether inserts are delivered as rows that a snapshot read.
        options: of the sink.
    """
    sink = Kafka(conn_id="kafka_east", ddl=not options, **options)
    collected = _Collected()
    values = None if (form := sink.message_format()) is None else form.values
    schemas = [item.schema for item, _ in decoded() if isinstance(item, TableBatch)]
    for rows in _rows(table, snapshot, json_form({}, values=values), statements=sink.ddl and not snapshot):
        topics = {f"cdc.shop.{table}": 1, "cdc.shop._ddl": 1}
        names = pa.array([f"shop.{table}"] * rows.num_rows)
        rows = rows.append_column("route", names)  # noqa: PLW2901 - without a Route transform it is the table's name
        encoder = KafkaEncoder(sink, plan(SinkPlan(partitions=topics)), form).of_tables(schemas)
        hand_over(collected, encoder.encode(rows, 0), {})
    return collected.messages


def boundaries(table: str) -> list[Message]:
    """Return the records of the topic of transactions for the update of the key of a table's row."""
    sink = Kafka(conn_id="kafka_east", transaction_topic="cdc.transactions")
    orders, collected = TransactionOrders(), _Collected()
    for rows in _rows(table, False, json_form({}), statements=False):
        everything = np.ones(rows.num_rows, np.bool_)
        orders.numbered(rows, everything, ~everything)
    found = [each for each in orders.end() if each.id.endswith(":4")]
    hand_over(collected, encoded_boundaries(found, sink, plan(SinkPlan(partitions={"cdc.transactions": 1}))), {})
    return collected.messages


def plan(sink: SinkPlan) -> Plan:
    """Return a plan over the whole log."""
    offsets = [BinlogOffset(LOG_NAME, at) for at in (4, 9_999)]
    return Plan("default", "orders_to_kafka", 7, OffsetRange(*offsets), {"kafka": sink}, "hash", CLOCK)


def _rows(table: str, snapshot: bool, form: ImageForm, *, statements: bool) -> Iterator[pa.RecordBatch]:
    for item, transactions in decoded():
        if isinstance(item, TableEvent):
            if item.table == table and statements:
                yield from emit_events([item], transactions, SERVER, form)
        elif item.schema.table == table and not snapshot:
            yield from emit(item, transactions, SERVER, form)
        elif item.schema.table == table and (item.op == INSERT).any():
            yield from emit(*_as_read(item), "", form)


def _as_read(inserted: TableBatch) -> tuple[TableBatch, Transactions]:
    """Return the first inserted row as the reader of chunk files gives it, with what it has for a transaction."""
    head = ChunkHead(inserted.schema, 1, 0, int(CLOCK.timestamp() * 1000))
    image = inserted.images.slice(int(inserted.after_row[inserted.op == INSERT][0]), 1)
    stored = image.append_column(EXCEPTIONS, pa.nulls(1, pa.string()))
    split = ChunkSplit((), LOG_NAME, 157, (inserted.schema,))
    return batch_of(stored, head, 0), split._transactions(head, ChunkAddress("", "", 1, 0))


def images(table: str, **options: Any) -> list[Image]:
    """Return the after-images of a table's inserts."""
    found = messages(table, **options)
    return [json.loads(m.value or "null", parse_float=_Digits)["after"] for m in found if m.value]


def as_json(value: Any) -> str:
    """Return a member of an image as JSON, numbers with their digits."""
    return _json(value)
