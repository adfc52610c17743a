"""Boundaries of transactions on a topic of their own, as rows of `encoding.COLUMNS` for the first slot's writer."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from databus.core.errors.sink import SinkSettingError
from databus.core.events import TABLE_ORDER, TOTAL_ORDER
from databus.core.transactions import TransactionBoundary
from databus.rows.frames.transactions import COLLECTIONS, HELD
from databus.sinks.envelope import transaction_id
from databus.sinks.kafka.topics.names import ILLEGAL

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.core.state.plan import Plan
    from databus.sinks.kafka.spec import Kafka

BOUNDARY_SLOT = 0
"""Slot that writes all boundaries: they stand in partition 0 of their topic, in the order of the log."""


def transaction_topic(spec: Kafka, flow: str) -> str:
    """Return the name of the topic, "" without one."""
    return re.sub(ILLEGAL, "_", spec.transaction_topic.replace("{flow}", flow))


def planned_topics(spec: Kafka, names: Mapping[str, str], flow: str) -> dict[str, str]:
    """Return the topics of a plan (topic → exact name) with the topic of transactions, if there are any.

    Raises:
        SinkSettingError: rows go to the topic of transactions.
    """
    topic = transaction_topic(spec, flow)
    if topic in names:
        raise SinkSettingError(
            f"flow {flow}, sink {spec.sink_name}: rows and the boundaries of transactions would share topic {topic!r}",
            hint="Give transaction_topic another name.",
        )
    return {**names, topic: topic} if topic else dict(names)


def topic_settings(spec: Kafka, topic: str, flow: str) -> dict[str, str]:
    """Return the settings of a topic that a sink creates; the topic of transactions is never compacted.

    BEGIN and END of a transaction have one key, of which compaction keeps the last.
    """
    settings = dict(spec.topic_config)
    if topic == transaction_topic(spec, flow) and "compact" in settings.get("cleanup.policy", ""):
        settings["cleanup.policy"] = "delete"
    return settings


def made_topics(spec: Kafka, topics: Iterable[str], flow: str) -> list[tuple[str, int]]:
    """Return topics to be made with the partitions they get, 0 for the sink's own number."""
    own = transaction_topic(spec, flow)
    return [(topic, 1 if topic == own else 0) for topic in sorted(topics)]


def encoded_boundaries(boundaries: Sequence[TransactionBoundary], spec: Kafka, plan: Plan) -> pa.RecordBatch:
    """Return boundaries as rows for the writer; database and table are null, which is how it knows them.

    Args:
        boundaries: in the order of the log.
        spec: the sink.
        plan: the batch's plan.
    """
    import pyarrow as pa

    from databus.formats.transaction_metadata import key_text, value_text
    from databus.sinks.kafka.headers import header_arrays

    n = len(boundaries)
    facts = {
        "op": pa.array([each.status for each in boundaries], pa.string()),
        "database": pa.nulls(n, pa.string()),
        "table": pa.nulls(n, pa.string()),
        "log": pa.array([each.log for each in boundaries], pa.string()),
        "place": pa.array([each.place for each in boundaries], pa.int64()),
        "transaction": pa.array([each.transaction for each in boundaries], pa.string()),
        "ordinal": pa.array([each.ordinal for each in boundaries], pa.int64()),
        "part": pa.array([0] * n, pa.int16()),
        "event_id": pa.array([each.event_id for each in boundaries], pa.string()),
        "ts_ms": pa.array([each.ts_ms for each in boundaries], pa.int64()),
        "server_id": pa.array([each.server_id for each in boundaries], pa.int64()),
    }
    rows = pa.RecordBatch.from_arrays(list(facts.values()), names=list(facts))
    columns = {
        "topic": pa.repeat(pa.scalar(transaction_topic(spec, plan.flow)), n),
        "partition": pa.array([0] * n, pa.int32()),
        "slot": pa.array([BOUNDARY_SLOT] * n, pa.int32()),
        "key": pa.array([key_text(each, schemas=spec.schemas) for each in boundaries], pa.binary()),
        "value": pa.array([value_text(each, schemas=spec.schemas) for each in boundaries], pa.binary()),
        "tombstone": pa.array([False] * n, pa.bool_()),
        **{name: facts[name] for name in ("event_id", "ts_ms", "database", "table", "log", "place", "ordinal", "part")},
        **header_arrays(rows, spec, plan),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def transaction_member(columns: Container[str]) -> Any:
    """Return the Column of the envelope's `transaction`: id and orders of the rows that have them, else NULL."""
    from pyspark.sql import functions as f

    if TOTAL_ORDER not in columns:  # of rows that are replayed
        return f.lit(None).cast(f"struct<id: string, {TOTAL_ORDER}: bigint, {TABLE_ORDER}: bigint>")
    block = f.struct(transaction_id().alias("id"), TOTAL_ORDER, TABLE_ORDER)
    return f.when(f.col(TOTAL_ORDER).isNotNull(), block)


def boundary_key() -> Any:
    """Return the Column of a boundary's key, as `key_text` writes it."""
    from pyspark.sql import functions as f

    return f.to_json(f.struct(transaction_id().alias("id"))).cast("binary")


def boundary_value() -> Any:
    """Return the Column of a boundary's value over rows of `with_boundaries`, as `value_text` writes it."""
    from pyspark.sql import functions as f

    counts = f.col(COLLECTIONS)
    total = f.aggregate(counts, f.lit(0).cast("bigint"), lambda so_far, each: so_far + each["event_count"])
    members = (
        f.col("op").alias("status"),
        transaction_id().alias("id"),
        total.alias("event_count"),
        counts.alias("data_collections"),
        f.col("ts_ms"),
    )
    held = f.col(HELD)

    def text(*more: Any) -> Any:
        return f.to_json(f.struct(*members, *more), {"ignoreNullFields": "false"})

    return f.when(held > 0, text(held.alias("quarantined"))).otherwise(text())
