"""A mirror: a flow from topics of one Kafka cluster to the same topics of another, byte for byte, exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from databus.core.batching import Batching
from databus.core.errors import ConfigError
from databus.core.flow import Flow
from databus.core.spec import caller
from databus.sinks.kafka_mirror.spec import MirrorTopics
from databus.sources.kafka_topics import KafkaTopics

_OF_FLOW = frozenset(Flow.model_fields) - {"name", "source", "sinks", "transforms", "checks", "lane"}
_OF_SOURCE = frozenset({"exclude_topics", "start", "on_gap", "consumer", "timeout_s"})
_OF_SINK = frozenset(
    {
        "slots",
        "compression",
        "replication_factor",
        "topic_config",
        "producer",
        "grow",
        "groups",
        "copy_settings",
        "follow_settings",
        "configs",
        "exclude_configs",
        "sync_acls",
        "chunk_rows",
    }
)
_BATCHING = Batching(max_rows=500_000, max_bytes=512 << 20)


def Mirror(  # noqa: N802, PLR0913 - it stands where flows are written down, and reads like the specs in them
    *,
    name: str,
    source: str,
    target: str,
    topics: tuple[str, ...] | str,
    policy: str = "identity",
    renames: Mapping[str, str] | None = None,
    two_way: str = "",
    **options: Any,
) -> Flow:
    """Return the flow that mirrors topics; resolves no connection.

    Key, value, headers, timestamp, partition and order stay as they are; records of aborted transactions do not
    appear. Topics are made with the source's partition count and settings and grow with it. All that is done with a
    flow is done with it: run, pause, rewind, skip, lag, ledger.

    Args:
        name: flow name.
        source: connection of the cluster to read.
        target: connection of the cluster to write.
        topics: names, fnmatch patterns, or "re:" and regular expressions (see `KafkaTopics`).
        policy: "identity" keeps the topics' names, "prefix" puts the source's connection and a dot before them.
        renames: source topic → target topic, for single ones.
        two_way: name of the mirror in the other direction, where there is one: each record is then marked with the
            header `databus.origin`, and what came from the target before does not go back.
        **options: options of a flow (batching, description, zookeeper, …), of the source (exclude_topics, start,
            on_gap, consumer) and of the target (slots, compression, replication_factor, topic_config, producer, grow,
            groups, copy_settings, follow_settings, configs, exclude_configs, sync_acls), and timeout_s for both. Of
            a two-way mirror follow_settings is False unless given: two that follow each other undo every change.

    Raises:
        ConfigError: an option is not what it should be.
    """
    if policy not in ("identity", "prefix"):
        raise ConfigError(f"{caller()}: Mirror: policy={policy!r} is unknown", hint="Known: identity, prefix.")
    if source == target:
        raise ConfigError(
            f"{caller()}: Mirror: source and target are both {source!r}: a loop",
            hint="Name the connections of two clusters.",
            code="mirror_loop",
        )
    known = _OF_FLOW | _OF_SOURCE | _OF_SINK
    if unknown := sorted(options.keys() - known):
        raise ConfigError(
            f"{caller()}: Mirror: unknown option {', '.join(unknown)}",
            hint=f"Mirror takes: name, source, target, topics, policy, renames, two_way, {', '.join(sorted(known))}.",
        )
    read = KafkaTopics(
        **{"start": "earliest", **{k: options[k] for k in _OF_SOURCE & options.keys()}},
        conn_id=source,
        topics=(topics,) if isinstance(topics, str) else topics,
        raw=True,
        identity="offset",
        key_format="bytes",
        value_format="bytes",
        leave_out=target if two_way else "",
    )
    write = MirrorTopics(
        **{
            "chunk_rows": 10_000_000,
            "follow_settings": not two_way,
            **{k: options[k] for k in _OF_SINK & options.keys()},
        },
        topics=read.topics,
        exclude_topics=read.exclude_topics,
        conn_id=target,
        source_conn_id=source,
        prefix=f"{source}." if policy == "prefix" else "",
        renames=renames or {},
        origin=source if two_way else "",
        partner=two_way,
        name="mirror",
    )
    of_flow = {k: options[k] for k in _OF_FLOW & options.keys()}
    return Flow(**{"batching": _BATCHING, **of_flow}, name=name, source=read, sinks=(write,))
