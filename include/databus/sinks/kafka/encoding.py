"""Rows → the columns that a slot's writer takes, as Spark Columns. Pure, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from databus.core.events import BEGIN, END, Op
from databus.core.state.plan import Plan
from databus.rows.frames.transactions import COLLECTIONS
from databus.sinks import envelope
from databus.sinks.kafka.headers import header_columns
from databus.sinks.kafka.spec import Kafka
from databus.sinks.kafka.topics.names import DDL_TABLE, ILLEGAL, template_parts
from databus.sinks.kafka.transactions import boundary_key, boundary_value, transaction_member, transaction_topic

_AS_READ = ("event_id", "ts_ms", "database", "table", "log", "place", "ordinal", "part")

COLUMNS = ("topic", "partition", "slot", "key", "value", "tombstone", *_AS_READ)
"""Columns of the encoded rows: topic string, partition int (NULL for a topic outside the plan), slot int, key and value
binary, tombstone boolean (a record without a value follows), the others as in `ROW_COLUMNS`; columns of headers may
follow."""

CANONICAL_KEY = "canonical_key"
"""Column beside them where keys have another form: the canonical ones, by which the quarantine knows rows."""


def encode(rows: Any, spec: Kafka, plan: Plan) -> Any:
    """Return the DataFrame with `COLUMNS`; only `pyspark.sql.functions` is used (classic and Connect)."""
    from pyspark.sql import functions as f

    pinned = plan.sinks[spec.sink_name]
    columns = rows.columns if spec.transaction_topic else ()  # a question to the server, with Spark Connect
    transaction = transaction_member(columns) if spec.transaction_topic else None
    value = envelope.debezium(plan, transaction=transaction) if spec.envelope == "debezium" else envelope.row()
    deleted = f.col("op") == f.lit(Op.DELETE.value)
    encoded = rows.withColumn("topic", topic_column(spec.topic, plan.flow)).withColumn(
        "partition", partition_column(pinned.partitions)
    )
    key, topic = f.col("key"), f.col("topic")
    if COLLECTIONS in columns:
        boundary = f.col("op").isin(BEGIN, END)
        topic = f.when(boundary, transaction_topic(spec, plan.flow)).otherwise(topic)
        key = f.when(boundary, boundary_key()).otherwise(key)
        value = f.when(boundary, boundary_value()).otherwise(value)
    return encoded.select(
        topic.alias("topic"),
        "partition",
        f.coalesce(f.pmod(f.col("partition"), f.lit(pinned.slots)), f.lit(0)).cast("int").alias("slot"),
        key.alias("key"),
        value.cast("binary").alias("value"),
        (deleted & f.col("key").isNotNull() if spec.tombstones else f.lit(False)).alias("tombstone"),
        *_AS_READ,
        *header_columns(spec, plan, columns),
    )


def topic_column(template: str, flow: str) -> Any:
    """Return the topic as a Column; the same names as `topic_names.topic_of`."""
    from pyspark.sql import functions as f

    route, table = f.col("route"), f.col("table")
    fields = {
        "database": f.col("database"),
        "table": f.when(table == "", DDL_TABLE).otherwise(table),
        "route": f.when(table == "", f.concat(route, f.lit(DDL_TABLE))).otherwise(route),
        "flow": f.lit(flow),
    }
    parts = [fields[text] if is_field else f.lit(text) for is_field, text in template_parts(template)]
    return f.regexp_replace(f.concat(*parts), ILLEGAL, "_")


def partition_column(partitions: Mapping[str, int]) -> Any:
    """Return `key_hash % partitions of the topic` as a Column.

    Rows without a key go to partition 0 of any topic; a keyed row of a topic outside the plan gets NULL, which the
    writer refuses.
    """
    from pyspark.sql import functions as f

    by_count: dict[int, list[str]] = {}
    for topic, number in partitions.items():
        by_count.setdefault(number, []).append(topic)
    count = f.lit(None).cast("int")
    for number, topics in sorted(by_count.items()):
        count = f.when(f.col("topic").isin(topics), f.lit(number)).otherwise(count)
    return f.when(f.col("key").isNull(), f.lit(0)).otherwise(f.pmod(f.col("key_hash"), count)).cast("int")
