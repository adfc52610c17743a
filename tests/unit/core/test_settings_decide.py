"""Each setting of flow, sources and sinks either decides what is written, or only how: then a plan outlives its change.

A new field belongs into one of the two lists below.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databus import (
    Batching,
    DropColumns,
    Elasticsearch,
    Flow,
    HashPartition,
    Kafka,
    KafkaTopics,
    MockFault,
    MysqlBinlog,
    SequenceTable,
    SnapshotOptions,
)
from databus.core.flow_specs import SinkSpec, SourceSpec
from databus.core.spec import Spec
from databus.registry import kinds, spec_class
from databus.sinks.console import Console
from databus.sinks.kafka_mirror import MirrorTopics
from databus.sinks.memory import Memory
from databus.sinks.noop import Noop
from databus.sources.mock.spec import Mock

MOST = Kafka(conn_id="k")
SINK = {"name": "other", "routes": ("x.*",), "transforms": (DropColumns("a"),)}
KAFKA_HOW = {"replication_factor": 2, "topic_config": {"retention.ms": "1"}, "compression": "zstd",
             "timeout": timedelta(seconds=5),
             "producer": {"linger.ms": 7}, "on_reject": "fail"}  # fmt: skip
OF_MESSAGES = {"types": "debezium", "schemas": True, "topic_prefix": "x", "decimal": "string", "binary": "hex",
               "bigint_unsigned": "precise", "headers": ("event_id",), "cloudevents": True, "format": "avro",
               "payload": "string", "event_headers": ("type",),
               "registry_conn_id": "x", "transaction_topic": "x"}  # fmt: skip
KAFKA_WHAT = {**SINK, "conn_id": "x", "topic": "x", "envelope": "row", "partitions": 3, "slots": 2, "tombstones": False,
              "ddl": True, "chunk_rows": 5, "profile": "at_least_once", **OF_MESSAGES}  # fmt: skip
NO_PART_OF_A_MIRROR = {"topic", "envelope", "tombstones", "ddl", "partitions", "profile", "transforms", *OF_MESSAGES}
CLASSIFIED: list[tuple[Spec, dict[str, Any], dict[str, Any]]] = [
    (
        MysqlBinlog(conn_id="m", tables=("shop.*",)),
        {"start": "earliest", "headroom": timedelta(minutes=1), "on_missing_table": "wait", "on_partition_ddl": "fail",
         "snapshot": "never", "snapshot_options": SnapshotOptions(threads=2)},
        {"conn_id": "x", "tables": ("x.*",), "exclude_tables": ("shop.a",), "decoder": "library", "flavor": "mariadb",
         "row_filters": (HashPartition(tables=("shop.*",), columns=("id",), partitions=2, keep=(0,)),),
         "large_values_over_bytes": 2048},
    ),
    (
        KafkaTopics(conn_id="k", topics=("t",)),
        {"start": "earliest", "on_gap": "latest", "on_missing_topic": "wait", "timeout": timedelta(seconds=5),
         "consumer": {"fetch.max.bytes": 9}},
        {"conn_id": "x", "topics": ("x",), "exclude_topics": ("a",), "isolation": "read_uncommitted", "raw": True,
         "key_format": "json", "value_format": "avro", "registry_conn_id": "r", "on_undecodable": "fail",
         "fields": {"a": "bigint"}, "identity": "offset", "leave_out": "*", "cluster": "x"},
    ),
    (
        Mock(rows=0),
        {"faults": (MockFault(what="read_fails", at_row=0),)},
        {"tables": ("x.y",), "rows": 1, "rows_per_second": 1.0, "since": datetime(2020, 1, 1, tzinfo=UTC),
         "rows_per_transaction": 2, "columns": {"a": "int"}, "null_ratio": 0.5, "seed": 3, "start": "latest",
         "operations": (1, 1, 0), "keys": 5, "skew": 1.0, "table_skew": 1.0, "phases": ((1.0, 5.0),),
         "sizes": {"status": 9}, "statements": ((0, "ALTER TABLE shop.orders DROP weight"),)},
    ),
    (
        SequenceTable(conn_id="p", table="public.outbox"),
        {"start": "latest", "poll_interval": timedelta(seconds=5), "clean": True},
        {"conn_id": "x", "table": "x.y", "number": "n", "time": "t", "transaction": "x", "columns": ("a",),
         "changes_of": "x.z", "lag_window": timedelta(seconds=5)},
    ),
    (MOST, KAFKA_HOW, KAFKA_WHAT),
    (
        MirrorTopics(conn_id="k", source_conn_id="s"),
        {**KAFKA_HOW, "partner": "back", "grow": False, "groups": (), "copy_settings": False, "follow_settings": False,
         "configs": ("a",), "exclude_configs": ("b",), "sync_acls": True, "max_bytes_per_s": 10_000,
         "heartbeat": timedelta(seconds=5)},
        {**{name: value for name, value in KAFKA_WHAT.items() if name not in NO_PART_OF_A_MIRROR},
         "source_conn_id": "x", "prefix": "x.", "renames": {"a": "b"}, "suffix": ".x",
         "origin": "x", "topics": ("x",), "exclude_topics": ("x",), "too_large": "large_value"},
    ),
    (
        Elasticsearch(conn_id="e"),
        {"partial": "fail", "refresh": True, "bulk_bytes": 9, "max_retries": 1, "on_reject": "fail",
         "on_key_change": "ignore"},
        {**SINK, "conn_id": "x", "index": "x", "types": "dynamic", "mapping": {"properties": {}}, "settings": {"a": 1},
         "gc_deletes": "1d", "soft_deletes": True, "ids": "table_key", "slots": 2, "on_truncate": "fail",
         "profile": "at_least_once"},
    ),
    (Memory(), {}, {**SINK, "store": "x"}),
    (Console(), {}, {**SINK, "limit": 3}),
    (Noop(), {}, SINK),
]  # fmt: skip
NAMES = [type(spec).__name__ for spec, _, _ in CLASSIFIED]
FLOW_HOW = {"batching": Batching(max_rows=5), "sink_outage": timedelta(seconds=1), "zookeeper_conn_id": "x",
            "description": "x",
            "on_zookeeper_loss": "continue", "zookeeper_loss": timedelta(seconds=5),
            "zookeeper_loss_batches": 5, "alerts": (),
            "mode": "live"}  # fmt: skip
FLOW_WHAT = {"name", "source", "transforms", "checks", "expectations", "sinks", "lane"}


def flow_of(spec: Spec) -> Flow:
    if isinstance(spec, SourceSpec):
        return Flow(name="f", source=spec, sinks=(MOST,))
    assert isinstance(spec, SinkSpec)
    return Flow(name="f", source=Mock(rows=0), sinks=(spec,))


def test_every_kind_of_source_and_sink_is_in_the_list() -> None:
    known = {spec_class(group, kind) for group in ("sources", "sinks") for kind in kinds(group)}
    assert {type(spec) for spec, _, _ in CLASSIFIED} == known


@pytest.mark.parametrize(("spec", "how", "what"), CLASSIFIED, ids=NAMES)
def test_every_field_is_classified(spec: Spec, how: dict[str, Any], what: dict[str, Any]) -> None:
    assert not how.keys() & what.keys()
    unused = NO_PART_OF_A_MIRROR if isinstance(spec, MirrorTopics) else set()
    assert how.keys() | what.keys() | unused == type(spec).model_fields.keys()
    assert spec.without_effect == how.keys()


@pytest.mark.parametrize(("spec", "how", "what"), CLASSIFIED, ids=NAMES)
def test_a_plan_outlives_what_says_how_and_nothing_else(spec: Spec, how: dict[str, Any], what: dict[str, Any]) -> None:
    made = flow_of(spec).spec_hash("1")
    for name, value in how.items():
        assert getattr(spec, name) != value
        changed = flow_of(spec.model_copy(update={name: value}))
        assert changed.takes_up(made, "1"), name
        assert flow_of(spec).takes_up(changed.spec_hash("1"), "1"), name
    for name, value in what.items():
        assert getattr(spec, name) != value
        changed = flow_of(spec.model_copy(update={name: value}))
        assert not changed.takes_up(made, "1"), name
        assert not flow_of(spec).takes_up(changed.spec_hash("1"), "1"), name


def test_every_field_of_a_flow_is_classified() -> None:
    assert FLOW_HOW.keys() | FLOW_WHAT == Flow.model_fields.keys()
    flow = flow_of(Mock(rows=0))
    for name, value in FLOW_HOW.items():
        assert flow.model_copy(update={name: value}).takes_up(flow.spec_hash("1"), "1"), name
    for name, value in {"name": "g", "lane": "spark", "source": Mock(rows=9), "sinks": (Noop(),)}.items():
        assert not flow.model_copy(update={name: value}).takes_up(flow.spec_hash("1"), "1"), name


def test_plans_of_an_earlier_databus_are_known() -> None:
    """Their hashes, as `021bfd3` and what followed it wrote them, hold all settings of source and sinks."""
    plain = Flow(name="f", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=(MOST,))
    assert plain.spec_hash("1") == "686682ca382942b4"
    source, sink = (
        plain.source.model_copy(update={"headroom": timedelta(minutes=1)}),
        MOST.model_copy(update={"timeout": timedelta(seconds=5)}),
    )
    tuned = plain.model_copy(update={"source": source, "sinks": (sink,)})
    assert tuned.spec_hash("1") == plain.spec_hash("1")
    assert tuned.takes_up("13f1ba9e9f953488", "1")
    decided = tuned.model_copy(update={"source": source.model_copy(update={"on_partition_ddl": "fail"})})
    assert decided.takes_up("13f1ba9e9f953488", "1")
    assert not plain.takes_up("13f1ba9e9f953488", "1")
