"""A mirror: a flow from topics of one Kafka cluster to the same topics of another, byte for byte, exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from databus.core.batching import Batching
from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.spec import caller
from databus.kafka.selection import HEARTBEATS
from databus.sinks.kafka_mirror.spec import MirrorTopics
from databus.sources.kafka.spec import KafkaTopics

_OF_FLOW = frozenset(Flow.model_fields) - {"name", "source", "sinks", "transforms", "checks", "lane"}
_OF_SOURCE = frozenset({"exclude_topics", "start", "on_gap", "on_missing_topic", "consumer", "timeout_s"})
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
        "too_large",
        "heartbeat_s",
        "chunk_rows",
        "timeout_s",
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
    origin: bool = False,
    forward: bool = True,
    max_bytes_per_s: int | None = None,
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
        origin: the same without a partner, for rings of sites: in each of their mirrors.
        forward: False carries only records that were born at the source, so that in a mesh, where each site mirrors to
            each other one, none comes twice; in each of its mirrors. It marks records as `origin` does.
        max_bytes_per_s: what a run moves at most, over all its slots, by the sampled size of records; it works in
            batches of about a second then. None for no bound.
        **options: options of a flow (batching, description, zookeeper, …), of the source (exclude_topics, start,
            on_gap, on_missing_topic, consumer) and of the target (slots, compression, replication_factor, topic_config,
            producer, grow, groups, copy_settings, follow_settings, configs, exclude_configs, sync_acls, too_large,
            heartbeat_s), and timeout_s for both. Of a two-way mirror follow_settings is False unless given: two that
            follow each other undo every change. With two_way or origin, on_missing_topic is "wait" unless given: the
            topics come from the other side.

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
            hint=f"Mirror takes: name, source, target, topics, policy, renames, two_way, origin, forward, "
            f"max_bytes_per_s, {', '.join(sorted(known))}.",
        )
    names, renamed = (topics,) if isinstance(topics, str) else topics, dict(renames or {})
    if options.get("heartbeat_s") is not None:
        # As with MirrorMaker 2 they bear the source's name on the target, whatever the policy.
        names, renamed = (*names, HEARTBEATS), {HEARTBEATS: f"{source}.{HEARTBEATS}", **renamed}
    marked = origin or bool(two_way) or not forward
    read = KafkaTopics(
        **{
            "start": "earliest",
            "on_missing_topic": "wait" if two_way or origin else "fail",
            **{k: options[k] for k in _OF_SOURCE & options.keys()},
        },
        conn_id=source,
        topics=names,
        raw=True,
        identity="offset",
        key_format="bytes",
        value_format="bytes",
        leave_out="*" if not forward else target if marked else "",
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
        renames=renamed,
        origin=source if marked else "",
        max_bytes_per_s=max_bytes_per_s,
        partner=two_way,
        name="mirror",
    )
    of_flow = {k: options[k] for k in _OF_FLOW & options.keys()}
    batching = of_flow.pop("batching", _BATCHING)
    if max_bytes_per_s is not None and isinstance(batching, Batching):
        batching = batching.model_copy(update={"max_bytes": min(batching.max_bytes, max_bytes_per_s)})
    return Flow(**of_flow, batching=batching, name=name, source=read, sinks=(write,))
