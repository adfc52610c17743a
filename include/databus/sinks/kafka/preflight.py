"""Kafka preflight before the first batch: nothing is changed, topics are only validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from databus.core.amounts import counted
from databus.core.errors.sink import SinkError
from databus.core.findings import Finding, Level
from databus.core.tables.schemas import TableSchema
from databus.sinks.kafka.markers import MARKER_TOPIC
from databus.sinks.kafka.session import TRANSACTION_TIMEOUT_MS
from databus.sinks.kafka.spec import Kafka
from databus.sinks.kafka.topics.cluster_topics import Topics
from databus.sinks.kafka.topics.names import topic_of
from databus.sinks.kafka.transactions import topic_settings, transaction_topic

PROMISES = {
    "exactly_once": "exactly_once: each row once for read_committed consumers, through kills and zombies",
    "at_least_once": "at_least_once: each row, in order; a batch that is tried again is written twice",
    "throughput_first": "throughput_first: only the leader acknowledges: rows may be lost with a broker, or repeated",
}

NO_KEY = "sink_no_primary_key"

_PROBE = TableSchema(-1, "databus", "preflight", ())
_WEEK_MINUTES = 7 * 24 * 60
_INTERNAL = {
    "__transaction_state": "transaction.state.log.replication.factor",
    "__consumer_offsets": "offsets.topic.replication.factor",
}


def probe(spec: Kafka, flow: str, topics: Topics) -> list[Finding]:
    """Return the findings of one sink, an unreachable cluster as the only one."""
    conn = spec.conn_id
    try:
        metadata = topics.metadata()
    except SinkError as error:
        return [Finding.of(f"{conn}: brokers", error)]
    found = [Finding(f"{conn}: brokers", Level.OK, f"{len(metadata.brokers)} reachable at {topics.settings.servers}")]
    found.append(Finding(f"{conn}: profile", Level.OK, PROMISES[spec.profile]))
    found += _topics(spec, flow, topics, metadata)
    if spec.profile == "exactly_once":
        found += _brokers(conn, topics, metadata)
    return found


def keyless(spec: Kafka, flow: str, topics: Topics, outputs: Sequence[tuple[TableSchema, str]]) -> list[Finding]:
    """Return a finding for each table without a primary key whose topic is compacted, or would be made so.

    Args:
        spec: the sink.
        flow: flow name.
        topics: the cluster's topics.
        outputs: (table, route) of each table whose rows the sink takes.

    Raises:
        SinkError: the cluster does not answer, or does not show the settings of its topics.
    """
    named = {}
    for table, route in outputs:
        if not table.primary_key:
            with suppress(SinkError):  # no valid name: told elsewhere
                named[table.full_name] = topic_of(spec.topic, table, route, flow)
    there = sorted(set(named.values()) & topics.partitions().keys()) if named else []
    settings = topics.configs(ConfigResource.Type.TOPIC, there) if there else {}
    return [
        Finding(
            f"{spec.conn_id}: topic {topic}", Level.WARN,
            f"table {table} has no primary key: unless a unique index of NOT NULL columns stands for it, its records "
            "have no key, and brokers refuse those in a compacted topic",
            f"Give {table} a primary key, send it to a topic that is not compacted, or leave it out of the sink's "
            "`routes`.",
            NO_KEY,
        )
        for table, topic in named.items()
        if "compact" in settings.get(topic, spec.topic_config).get("cleanup.policy", "")
    ]  # fmt: skip


def _topics(spec: Kafka, flow: str, topics: Topics, metadata: Any) -> Iterator[Finding]:
    wanted = {MARKER_TOPIC: MARKER_TOPIC} if spec.profile == "exactly_once" else {}
    if topic := transaction_topic(spec, flow):
        wanted[topic] = spec.transaction_topic
    try:
        wanted[topic_of(spec.topic, _PROBE, _PROBE.full_name, flow)] = spec.topic
    except SinkError as error:
        yield Finding.of(f"{spec.conn_id}: topic {spec.topic}", error)
    for name, shown in wanted.items():
        subject = f"{spec.conn_id}: topic {shown}"
        known = metadata.topics.get(name)
        if known is not None and known.error is None:
            yield Finding(subject, Level.OK, f"exists with {counted(len(known.partitions), 'partition')}")
            if name != MARKER_TOPIC:
                limit = topics.max_message_bytes([name])[name]
                yield Finding(
                    f"{subject}: max.message.bytes", Level.OK, f"larger records than {limit} bytes are quarantined"
                )
            continue
        config = {} if name == MARKER_TOPIC else topic_settings(spec, name, flow)
        try:
            topics.create(NewTopic(name, spec.partitions, spec.replication_factor, config=config), validate_only=True)
        except SinkError as error:
            yield Finding.of(subject, error)
        else:
            yield Finding(subject, Level.OK, "does not exist yet and can be created")


def _brokers(conn: str, topics: Topics, metadata: Any) -> Iterator[Finding]:
    try:
        config = topics.configs(ConfigResource.Type.BROKER, [str(min(metadata.brokers))])
    except SinkError as error:
        yield Finding(
            f"{conn}: broker settings",
            Level.WARN,
            f"cannot be read: {error.message}",
            "Allow DescribeConfigs on the cluster, or check the retention and transaction settings by hand.",
        )
        return
    settings = next(iter(config.values()))
    yield _transactions(conn, settings, metadata)
    yield _retention(conn, settings)


def _transactions(conn: str, settings: Mapping[str, str], metadata: Any) -> Finding:
    subject = f"{conn}: transactions"
    allowed = int(settings.get("transaction.max.timeout.ms") or TRANSACTION_TIMEOUT_MS)
    if allowed < TRANSACTION_TIMEOUT_MS:
        return Finding(
            subject,
            Level.ERROR,
            f"transaction.max.timeout.ms is {allowed}",
            f"Set transaction.max.timeout.ms to {TRANSACTION_TIMEOUT_MS} or more on the brokers.",
            "sink_setting",
        )
    for topic, setting in _INTERNAL.items():
        needed = int(settings.get(setting) or 1)
        if topic not in metadata.topics and needed > len(metadata.brokers):
            return Finding(
                subject,
                Level.ERROR,
                f"{topic} cannot be created: {setting} is {needed} with {len(metadata.brokers)} brokers",
                f"Set {setting} to {len(metadata.brokers)} on the brokers, or start more of them.",
                "sink_setting",
            )
    return Finding(subject, Level.OK, f"available, at most {allowed} ms each")


def _retention(conn: str, settings: Mapping[str, str]) -> Finding:
    minutes = int(settings.get("offsets.retention.minutes") or _WEEK_MINUTES)
    subject = f"{conn}: offsets.retention.minutes"
    text = f"the markers of a flow that stands still expire after {minutes / 1440:.1f} days"
    if minutes < _WEEK_MINUTES:
        return Finding(
            subject, Level.WARN, text, "Set offsets.retention.minutes to 10080 (a week) or more on the brokers."
        )
    return Finding(subject, Level.OK, text)
