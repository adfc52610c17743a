"""Specs written with former names and with today's names; the stored form of each is in golden.json."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from databus import (
    AcceptedValues,
    AlertWhen,
    Batching,
    Console,
    Decodable,
    DropColumns,
    Elasticsearch,
    Email,
    Expectations,
    Filter,
    Flow,
    Freshness,
    Hash,
    HashPartition,
    InRange,
    Kafka,
    KafkaTopics,
    Mask,
    Memory,
    MirrorTopics,
    Mock,
    ModuloPartition,
    MysqlBinlog,
    Noop,
    Notifier,
    NotNull,
    Project,
    RangePartition,
    RenameColumns,
    Route,
    Schema,
    Volume,
    Webhook,
)


def s(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


PLAIN: dict[str, Callable[[], Any]] = {
    "accepted": lambda: AcceptedValues("status", ("new", "paid")),
    "decodable": lambda: Decodable("a"),
    "not_null": lambda: NotNull("a", severity="fail"),
    "in_range": lambda: InRange("a", minimum=1, maximum=2.5),
    "schema": lambda: Schema("a.b", {"a": "bigint"}),
    "volume": lambda: Volume(minimum_rows=1),
    "drop": lambda: DropColumns("a"),
    "filter": lambda: Filter("a > 1"),
    "hash": lambda: Hash("a"),
    "mask": lambda: Mask("a"),
    "project": lambda: Project("a"),
    "rename": lambda: RenameColumns({"a": "b"}),
    "route": lambda: Route({"a": "b"}),
    "console": Console,
    "memory": Memory,
    "noop": Noop,
    "elasticsearch": lambda: Elasticsearch(conn_id="es", index="a"),
    "email": lambda: Email(to="a@b.c"),
    "notifier": lambda: Notifier(path="a.b"),
    "mock": lambda: Mock(rows=10, rows_per_second=2.5),
    "kafka": lambda: Kafka(conn_id="k"),
    "kafka_topics": lambda: KafkaTopics(conn_id="k", topics=("a",)),
    "mirror_topics": lambda: MirrorTopics(conn_id="k", source_conn_id="e"),
    "mysql": lambda: MysqlBinlog(
        conn_id="m",
        tables=("a.b",),
        row_filters=(
            RangePartition(tables=("a.b",), column="x", lower=1, upper=5),
            ModuloPartition(tables=("a.b",), column="x", modulus=2, remainders=(1,)),
            HashPartition(tables=("a.b",), partitions=2, keep=(0,)),
        ),
        snapshot="never",
    ),
    "webhook": lambda: Webhook(conn_id="w"),
    "when": AlertWhen,
    "freshness": lambda: Freshness(s(300)),
    "flow": lambda: Flow(name="f", source=Mock(rows=1), sinks=(Noop(),)),
    "flow_expects": lambda: Flow(
        name="f",
        source=Mock(rows=1),
        sinks=(Noop(),),
        expectations=Expectations({"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "a"}}),
    ),
}
"""Specs that are written the same as before."""

RENAMED: dict[str, tuple[type, dict[str, Any], dict[str, Any]]] = {
    "kafka_timeout": (Kafka, {"conn_id": "k", "timeout_s": 5}, {"conn_id": "k", "timeout": s(5)}),
    "kafka_topics_timeout": (
        KafkaTopics,
        {"conn_id": "k", "topics": ("a",), "timeout_s": 2.25},
        {"conn_id": "k", "topics": ("a",), "timeout": s(2.25)},
    ),
    "mirror_heartbeat": (
        MirrorTopics,
        {"conn_id": "k", "source_conn_id": "e", "heartbeat_s": 10, "timeout_s": 7},
        {"conn_id": "k", "source_conn_id": "e", "heartbeat": s(10), "timeout": s(7)},
    ),
    "mysql_headroom": (
        MysqlBinlog,
        {"conn_id": "m", "tables": ("a.b",), "snapshot": "never", "headroom_s": 60},
        {"conn_id": "m", "tables": ("a.b",), "snapshot": "never", "headroom": s(60)},
    ),
    "mysql_large_values": (
        MysqlBinlog,
        {"conn_id": "m", "tables": ("a.b",), "snapshot": "never", "claim_over_bytes": 2048},
        {"conn_id": "m", "tables": ("a.b",), "snapshot": "never", "large_values_over_bytes": 2048},
    ),
    "mirror_large_values": (
        MirrorTopics,
        {"conn_id": "k", "source_conn_id": "e", "too_large": "claim"},
        {"conn_id": "k", "source_conn_id": "e", "too_large": "large_value"},
    ),
    "webhook_timeout": (Webhook, {"conn_id": "w", "timeout_s": 2.5}, {"conn_id": "w", "timeout": s(2.5)}),
    "freshness_age": (Freshness, {"max_age_s": 12.125}, {"max_age": s(12.125)}),
    "when_all": (
        AlertWhen,
        {
            "lag_seconds": 60, "hold_seconds": 1.5, "headroom_seconds": 3600, "quarantine_minutes": 0.7,
            "no_run_minutes": 33.333, "run_minutes": 0.02, "remind_hours": 0.1,
        },
        {
            "lag": s(60), "hold": s(1.5), "headroom": timedelta(hours=1), "quarantine_within": s(42),
            "no_run": timedelta(minutes=33.333), "run_time": s(1.2), "remind": timedelta(minutes=6),
        },
    ),
    "when_none": (
        AlertWhen,
        {"lag_seconds": None, "no_run_minutes": None, "run_minutes": None, "remind_hours": None},
        {"lag": None, "no_run": None, "run_time": None, "remind": None},
    ),
    "flow_all": (
        Flow,
        {
            "name": "f", "source": Mock(rows=1), "sinks": (Kafka(conn_id="k"), Noop()), "sink_outage_seconds": 2,
            "zookeeper": "zk", "on_zookeeper_loss": "continue", "zookeeper_loss_seconds": 0.001,
        },
        {
            "name": "f", "source": Mock(rows=1), "sinks": (Kafka(conn_id="k"), Noop()), "sink_outage": s(2),
            "zookeeper_conn_id": "zk", "on_zookeeper_loss": "continue", "zookeeper_loss": s(0.001),
        },
    ),
}  # fmt: skip
"""Name → (class, options under former names, the same under today's)."""

BATCHING = ({"max_seconds": 0.3, "dispatch_seconds": 1e9}, {"max_wait": s(0.3), "dispatch_time": s(1e9)})

MIRROR_OLD: dict[str, Any] = {
    "name": "m", "source": "east", "target": "west", "topics": ("a.*", "b"), "two_way": "back",
    "max_bytes_per_s": 20_000,
    "timeout_s": 7.0, "heartbeat_s": 10, "slots": 2, "zookeeper": "zk", "sink_outage_seconds": 3,
    "policy": "prefix", "compression": "zstd", "groups": ("g",), "exclude_topics": ("x",), "description": "d",
    "consumer": {}, "too_large": "claim",
    "topic_config": {"retention.ms": "1"}, "renames": {"b": "c"}, "on_gap": "latest", "chunk_rows": 5,
    "batching": Batching(max_rows=9),
}  # fmt: skip
MIRROR_NEW: dict[str, Any] = {
    **{k: v for k, v in MIRROR_OLD.items() if not k.endswith("_s") or k == "max_bytes_per_s"},
    "source_conn_id": "east", "target_conn_id": "west", "timeout": s(7), "heartbeat": s(10), "zookeeper_conn_id": "zk",
    "sink_outage": s(3), "too_large": "large_value",
}  # fmt: skip
for _gone in ("source", "target", "zookeeper", "sink_outage_seconds"):
    del MIRROR_NEW[_gone]
MIRRORS: dict[str, dict[str, Any]] = {
    "mirror_plain": {"name": "m", "topics": "t"},
    "mirror_ring": {"name": "m", "topics": ("t",), "origin": True},
    "mirror_mesh": {
        "name": "m",
        "topics": ("t",),
        "forward": False,
        "follow_settings": True,
        "on_missing_topic": "fail",
    },
}
