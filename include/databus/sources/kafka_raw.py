"""Kafka records as they are, in Arrow: the bytes of a mirror, with the columns by which the path counts rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from databus.core.events import ROW_COLUMNS, Op
from databus.core.tables import TableSchema
from databus.rows.flags import no_flags
from databus.rows.raw_records import HEADERS, ORIGIN, RAW_COLUMNS
from databus.rows.schema import arrow_schema
from databus.sources.kafka_rows import log_name

_SCHEMA = pa.schema([*arrow_schema(pa.binary()), *(pa.field(name, kind) for name, kind in RAW_COLUMNS)])


def raw_batch(
    schema: TableSchema, partition: int, messages: Sequence[Message], server: str, leave_out: str
) -> pa.RecordBatch:
    """Return messages of one partition as `ROW_COLUMNS` without images and `RAW_COLUMNS`.

    Args:
        schema: the topic.
        partition: partition number.
        messages: in order of their offsets.
        server: id of the cluster.
        leave_out: records that came from this site count as filtered, "*" from any; "" for none.
    """
    n = len(messages)
    offsets = np.fromiter((m.offset() for m in messages), np.int64, n)
    stamps = np.fromiter((m.timestamp()[1] for m in messages), np.int64, n)
    headers: list[Any] = [m.headers() for m in messages]
    file = log_name(schema.table, partition)
    name = pa.scalar(f"{server}:{file}")
    columns: dict[str, pa.Array] = {
        "op": _ops(headers, leave_out),
        "database": _same(schema.database, n),
        "table": _same(schema.table, n),
        "schema_id": pa.array(np.full(n, schema.schema_id, np.int32)),
        "key": pa.nulls(n, pa.binary()),
        "key_hash": pa.array(np.zeros(n, np.int32)),
        "before": pa.nulls(n, pa.binary()),
        "after": pa.nulls(n, pa.binary()),
        "file": _same(file, n),
        "position": pa.array(offsets),
        "gtid": _same("", n),
        "ordinal": pa.array(np.zeros(n, np.int64)),
        "part": pa.array(np.zeros(n, np.int16)),
        "event_id": pc.binary_join_element_wise(name, pa.array(offsets).cast(pa.string()), "0", "0", ":"),
        "ts_ms": pa.array(np.maximum(stamps, 0)),
        "server_id": pa.array(np.zeros(n, np.int64)),
        "statement": pa.nulls(n, pa.string()),
        "flags": no_flags(n),
        "record_partition": pa.array(np.full(n, partition, np.int32)),
        "record_key": pa.array([m.key() for m in messages], pa.binary()),
        "record_value": pa.array([m.value() for m in messages], pa.binary()),
        "record_headers": _headers(headers),
        "record_ms": pa.array(stamps),
    }
    return pa.RecordBatch.from_arrays([columns[field.name] for field in _SCHEMA], schema=_SCHEMA)


def _same(value: str, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), n)


def _ops(headers: Sequence[Any], leave_out: str) -> pa.Array:
    if not leave_out or not any(headers):
        return _same(Op.CREATE.value, len(headers))
    mark = (ORIGIN, leave_out.encode())

    def out(of: Any) -> bool:
        return mark in of or (leave_out == "*" and any(name == ORIGIN for name, _ in of))

    return pa.array([Op.FILTERED.value if of and out(of) else Op.CREATE.value for of in headers])


def _headers(headers: Sequence[Any]) -> pa.Array:
    if not any(headers):
        return pa.nulls(len(headers), HEADERS)
    return pa.array([[{"name": name, "value": value} for name, value in of] if of else None for of in headers], HEADERS)


assert len(_SCHEMA) == len(ROW_COLUMNS) + len(RAW_COLUMNS)  # noqa: S101 - no name stands twice
