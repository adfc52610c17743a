"""Messages of the reference's written log in a format of its own, as the direct lane makes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from databus.binlog.decoding.table_batch import TableEvent
from databus.core.state.plan import SinkPlan
from databus.core.tables.schemas import TableSchema
from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.spec import Kafka
from databus.testing.table_batches import Image, batch, transactions
from tests.reference.made_messages import SERVER, decoded, plan


def encoded(table: str, **options: Any) -> Iterator[pa.RecordBatch]:
    """Yield what a sink with these options makes of a table of the log."""
    sink = Kafka(conn_id="k", **options)
    encoder = KafkaEncoder(sink, plan(SinkPlan(partitions={f"cdc.shop.{table}": 1})), sink.message_format())
    items = [(item, log) for item, log in decoded() if not isinstance(item, TableEvent) and item.schema.table == table]
    encoder = encoder.of_tables([item.schema for item, _ in items])
    for item, log in items:
        for rows in emit(item, log, SERVER, json_form({}, values=encoder.values)):
            routed = rows.append_column("route", pa.array([item.schema.full_name] * rows.num_rows))
            yield encoder.encode(routed, 0)


def made(
    schema: TableSchema, changes: Sequence[tuple[Image | None, Image | None]], **options: Any
) -> list[tuple[str | None, dict[str, Any]]]:
    """Return key and value of the messages of changes (before, after) of a table, the value parsed."""
    sink = Kafka(conn_id="k", **options)
    pinned = SinkPlan(partitions={f"cdc.{schema.full_name}": 1})
    encoder = KafkaEncoder(sink, plan(pinned), sink.message_format()).of_tables([schema])
    found = []
    for rows in emit(batch(schema, changes), transactions(), SERVER, json_form({}, values=encoder.values)):
        routed = rows.append_column("route", pa.array([schema.full_name] * rows.num_rows))
        found += encoder.encode(routed, 0).select(["key", "value"]).to_pylist()
    return [(None if row["key"] is None else row["key"].decode(), json.loads(row["value"])) for row in found]


def messages(table: str, **options: Any) -> list[tuple[str | None, dict[str, Any]]]:
    """Return key and value of each message, the value parsed."""
    found = [row for batch in encoded(table, **options) for row in batch.select(["key", "value"]).to_pylist()]
    return [(None if row["key"] is None else row["key"].decode(), json.loads(row["value"])) for row in found]
