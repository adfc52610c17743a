"""Headers of records: a set by choice, and those of CloudEvents, as columns beside `encoding.COLUMNS`.

A sink with the two default headers has no such columns: its writer makes them of `event_id` and `ts_ms`. CloudEvents'
are those of its Kafka protocol binding 1.0.2, "Binary Content Mode": attributes as headers with the prefix `ce_`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from databus.core.events import BEGIN, END, TABLE_ORDER, TOTAL_ORDER, Op
from databus.core.state.plan import Plan
from databus.sinks.envelope import connector, transaction_id

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.sinks.kafka.message_options import MessageOptions

Header = Literal[
    "event_id", "ts_ms", "op", "table", "gtid", "position", "server_id", "flow", "batch", "traceparent",
    "transaction", "total_order", "data_collection_order",
]  # fmt: skip
HEADERS: tuple[str, ...] = get_args(Header)
DEFAULT: tuple[Header, ...] = ("event_id", "ts_ms")

ORDERS = frozenset({TOTAL_ORDER, TABLE_ORDER})
"""Headers of a row's order in its transaction, which is counted for sinks with a topic of transactions alone."""

PREFIX = "header:"
"""Begins the names of columns that hold headers; a null is a header that the record does not have."""

_CLOCK = ((3_600_000, 24), (60_000, 60), (1_000, 60), (1, 1_000))
"""Milliseconds of hour, minute, second and millisecond, and how many of each there are."""

CLOUD_EVENT = "ce_"
"""Begins the names of CloudEvents' headers, which a tombstone does not have: it is no event."""

CONTENT_TYPES = {
    "json": "application/json",
    "avro": "application/vnd.confluent.avro",
    "json_schema": "application/vnd.confluent.json",
    "protobuf": "application/vnd.confluent.protobuf",
}
"""Format of a record's value → its media type; those of Confluent's wire format begin with the id of the schema."""

KINDS: Mapping[str, str] = {
    Op.CREATE: "create", Op.UPDATE: "update", Op.DELETE: "delete", Op.READ: "read", Op.TRUNCATE: "truncate",
    Op.DDL: "schema_change", BEGIN: "transaction_begin", END: "transaction_end",
}  # fmt: skip
"""Operation, or boundary of a transaction, → last part of `ce_type`."""


def has_columns(spec: MessageOptions) -> bool:
    """Return whether a sink's headers are others than the two by default."""
    return spec.cloudevents or tuple(spec.headers) != DEFAULT or spec.envelope == "outbox"


def header_arrays(rows: pa.RecordBatch, spec: MessageOptions, plan: Plan) -> dict[str, pa.Array]:
    """Return the headers of rows (`ROW_COLUMNS`) as columns, in their order; nothing for the two by default."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not has_columns(spec):
        return {}
    n = rows.num_rows

    def text(name: str) -> Any:
        return rows[name].cast(pa.string())

    from databus.formats.row_runs import gtids, transaction_ids

    def order(name: str) -> Any:
        return text(name) if name in rows.schema.names else pa.nulls(n, pa.string())

    def joined(first: Any, second: Any, by: str) -> Any:
        return pc.binary_join_element_wise(first, second, by)

    made: dict[str, Callable[[], Any]] = {
        "event_id": lambda: text("event_id"),
        "ts_ms": lambda: text("ts_ms"),
        "op": lambda: text("op"),
        "table": lambda: joined(text("database"), text("table"), "."),
        "gtid": lambda: gtids(rows),
        "position": lambda: joined(text("log"), text("place"), ":"),
        "server_id": lambda: text("server_id"),
        "flow": lambda: pa.repeat(pa.scalar(plan.live_flow), n),
        "batch": lambda: pa.repeat(pa.scalar(str(plan.batch)), n),
        "traceparent": lambda: _trace_parents(text("event_id")),
        "transaction": lambda: transaction_ids(rows),
        **{name: partial(order, name) for name in ORDERS},
    }
    found = {f"{PREFIX}{name}": made[name]() for name in spec.headers}
    if spec.cloudevents:
        fixed = _fixed(spec, plan)
        ops = rows["op"].dictionary_encode()
        kinds = pa.array([_type(plan, op) for op in ops.dictionary.to_pylist()], pa.string()).take(ops.indices)
        # Seconds of a column of milliseconds have three digits behind the point.
        times = pc.strftime(rows["ts_ms"].cast(pa.timestamp("ms", "UTC")), "%Y-%m-%dT%H:%M:%SZ")
        found |= {f"{PREFIX}{name}": pa.repeat(pa.scalar(value), n) for name, value in fixed.items()}
        found |= {
            f"{PREFIX}ce_id": text("event_id"),
            f"{PREFIX}ce_type": kinds,
            f"{PREFIX}ce_time": times,
            f"{PREFIX}ce_subject": joined(text("database"), text("table"), "."),
        }
    return found


def _trace_parents(event_ids: pa.StringArray) -> pa.StringArray:
    """Return `traceparent` (W3C's Trace Context): a trace for each transaction of the source, a parent for each change.

    Both are made from the event id, so that every attempt gives the same. No span was recorded: it is not sampled.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    traces = pc.replace_substring_regex(event_ids, _OF_CHANGE, "").dictionary_encode()
    of_trace = [hashlib.sha256(each.encode()).hexdigest()[:_TRACE_DIGITS] for each in traces.dictionary.to_pylist()]
    parents = [hashlib.sha256(each.encode()).hexdigest()[:_PARENT_DIGITS] for each in event_ids.to_pylist()]
    made = pa.array(of_trace, pa.string()).take(traces.indices)
    return pc.binary_join_element_wise("00", made, pa.array(parents, pa.string()), "00", "-")


_OF_CHANGE = r":([0-9]+:[0-9]+(\.[0-9]+)?|begin|end)$"
"""End of an event id that says the change in its transaction: its ordinal, which half of it, which copy; of a boundary
of the transaction, which."""
_TRACE_DIGITS, _PARENT_DIGITS = 32, 16


def header_columns(spec: MessageOptions, plan: Plan, columns: Container[str] = ()) -> list[Any]:
    """Return the same as Spark Columns over `ROW_COLUMNS` and those of orders, where `columns` names them."""
    from pyspark.sql import functions as f

    if not has_columns(spec):
        return []
    table = f.when(f.col("database").isNotNull(), f.concat_ws(".", "database", "table"))
    made = {
        "event_id": f.col("event_id"),
        "ts_ms": f.col("ts_ms").cast("string"),
        "op": f.col("op"),
        "table": table,
        "gtid": f.when(f.col("transaction") != "", f.col("transaction")),
        "position": f.concat_ws(":", f.col("log"), f.col("place").cast("string")),
        "server_id": f.col("server_id").cast("string"),
        "flow": f.lit(plan.live_flow),
        "batch": f.lit(str(plan.batch)),
        "traceparent": f.concat_ws(
            "-",
            f.lit("00"),
            f.substring(f.sha2(f.regexp_replace("event_id", _OF_CHANGE, ""), 256), 1, _TRACE_DIGITS),
            f.substring(f.sha2("event_id", 256), 1, _PARENT_DIGITS),
            f.lit("00"),
        ),
        "transaction": transaction_id(),
        **{name: f.col(name).cast("string") if name in columns else f.lit(None).cast("string") for name in ORDERS},
    }
    found = [made[name].alias(f"{PREFIX}{name}") for name in spec.headers]
    if spec.cloudevents:
        kind = f.lit(None).cast("string")
        for op in KINDS:
            kind = f.when(f.col("op") == str(op), _type(plan, op)).otherwise(kind)
        day = f.date_add(f.lit("1970-01-01").cast("date"), f.floor(f.col("ts_ms") / 86_400_000).cast("int"))
        ms = f.pmod(f.col("ts_ms"), f.lit(86_400_000))
        parts = (f.pmod(f.floor(ms / unit), f.lit(of)) for unit, of in _CLOCK)
        time = f.format_string(
            "%sT%02d:%02d:%02d.%03dZ", day.cast("string"), *parts
        )  # in UTC, whatever the session's zone is
        found += [f.lit(value).alias(f"{PREFIX}{name}") for name, value in _fixed(spec, plan).items()]
        found += [
            f.col("event_id").alias(f"{PREFIX}ce_id"),
            kind.alias(f"{PREFIX}ce_type"),
            time.alias(f"{PREFIX}ce_time"),
            table.alias(f"{PREFIX}ce_subject"),
        ]
    return found


def header_bytes(batch: pa.RecordBatch) -> Any:
    """Return int64[n], an upper bound of what the columns of headers add to each record; 0 without any."""
    import numpy as np
    import pyarrow.compute as pc

    names = [name for name in batch.schema.names if name.startswith(PREFIX)]
    around = sum(len(name) - len(PREFIX) + _AROUND for name in names)
    sizes = (np.asarray(pc.fill_null(pc.binary_length(batch[name]), 0)).astype(np.int64) for name in names)
    return sum(sizes, np.full(batch.num_rows, around, np.int64))


_AROUND = 6
"""Bytes of the two lengths of a header, at most."""


def header_lists(batch: pa.RecordBatch) -> list[list[tuple[str, str]]] | None:
    """Return each record's headers, None where the batch has no columns of them."""
    names = [name for name in batch.schema.names if name.startswith(PREFIX)]
    if not names:
        return None
    short = [name.removeprefix(PREFIX) for name in names]
    columns = (batch[name].to_pylist() for name in names)
    return [
        [(name, value) for name, value in zip(short, values, strict=True) if value is not None]
        for values in zip(*columns, strict=True)
    ]


def of_tombstone(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers of the tombstone behind a delete with these."""
    return [header for header in headers if not header[0].startswith(CLOUD_EVENT) and header[0] != "content-type"]


def _fixed(spec: MessageOptions, plan: Plan) -> Mapping[str, str]:
    return {
        "ce_specversion": "1.0",
        "ce_source": f"/databus/{plan.live_flow}",
        "content-type": CONTENT_TYPES[spec.content_format],
    }


def _type(plan: Plan, op: str) -> str:
    return f"databus.{connector(plan)}.{KINDS[op]}"
