"""A mirror: a flow from topics of one Kafka cluster to the same topics of another, byte for byte, exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from inspect import signature
from typing import Any, Literal

from databus.core.alerts.alert import AlertSpec
from databus.core.batching import Batching
from databus.core.errors.config import ConfigError
from databus.core.flow import Flow, Mode
from databus.core.former_names import accepts_former, caller, value_of_former
from databus.core.spec import problems_as_of
from databus.core.stored_options import HOUR, SECOND, StoredOption
from databus.kafka.client_settings import LibrdkafkaSettings
from databus.kafka.selection import HEARTBEATS
from databus.sinks.kafka.spec import Compression
from databus.sinks.kafka_mirror.spec import NOT_FOLLOWED, MirrorTopics
from databus.sources.kafka.spec import KafkaTopics, OnGap, OnMissingTopic

_BATCHING = Batching(max_rows=500_000, max_bytes=512 << 20)


class Mirror(Flow):
    """Flow that mirrors Kafka topics: `Mirror(name="m", source_conn_id="east", target_conn_id="west", topics="cdc.*")`.

    Key, value, headers, timestamp, partition and order stay as they are; records of aborted transactions do not
    appear. Topics are made with the source's partition count and settings and grow with it. All that is done with a
    flow is done with it: run, pause, rewind, skip, lag, ledger. Building one resolves no connection.

    Args:
        name: flow name, e.g. "mirror_east_to_west".
        source_conn_id: connection of the cluster to read, e.g. "kafka_east".
        target_conn_id: connection of the cluster to write, e.g. "kafka_west".
        topics: names, fnmatch patterns, or "re:" and regular expressions (see `KafkaTopics`), e.g. ("cdc.*",).
        policy: "identity" (default) keeps the topics' names, "prefix" puts the source's connection and a dot before
            them.
        renames: source topic → target topic, for single ones, e.g. {"orders": "orders.east"}; default none.
        two_way: name of the mirror in the other direction, where there is one, e.g. "mirror_west_to_east": each record
            is then marked with the header `databus.origin`, and what came from the target before does not go back.
            Default "", a mirror in one direction.
        origin: the same without a partner, for rings of sites: in each of their mirrors. Default False.
        forward: False carries only records that were born at the source, so that in a mesh, where each site mirrors to
            each other one, none comes twice; in each of its mirrors. It marks records as `origin` does. Default True.
        max_bytes_per_s: most bytes that a run moves in a second, over all its slots, by the sampled size of records; it
            works in batches of about a second then. Default None, no bound. E.g. `max_bytes_per_s=10_000_000`.
        exclude_topics: patterns of topics that are left out, e.g. ("cdc.private.*",); default none.
        start: where a mirror without a checkpoint begins, see `KafkaTopics`; default "earliest".
        on_gap: policy for records that are gone before they were read: "fail" (default), "earliest" or "latest".
        on_missing_topic: "fail" refuses to begin without a named topic, "wait" is for topics that come later. Default
            "fail", and "wait" with two_way or origin: the topics come from the other side.
        consumer: further librdkafka consumer settings, e.g. {"fetch.max.bytes": 1_000_000}; default none.
        slots: number of parallel writers, 1 to 64; default 1.
        compression: compression.type of the producer: "none", "gzip", "snappy", "lz4" (default) or "zstd".
        replication_factor: of topics that it makes; default -1, the broker's own.
        topic_config: settings of topics that it makes, e.g. {"retention.ms": "86400000"}; default those of the source.
        producer: further librdkafka producer settings, e.g. {"linger.ms": 20}; default none.
        chunk_rows: records in one Kafka transaction at most; default 10,000,000.
        grow: whether partitions are added to a topic that has fewer than the source's; default True.
        groups: patterns of consumer groups whose offsets are translated, e.g. ("billing-*",); default all, () none.
        copy_settings: whether topics are made with the settings that the source's have of their own; default True.
        follow_settings: whether topics that are there follow those settings. Default True, and False with two_way: two
            mirrors that follow each other undo every change.
        configs: patterns of the settings that are copied and followed, e.g. ("retention.*",); default all.
        exclude_configs: patterns of those that are not; default those that belong to a cluster, as in MirrorMaker 2.
        sync_acls: whether access rules of topics are added on the target, for reading only; default False.
        too_large: policy for a record that is larger than its topic takes: "quarantine" (default),
            "large_value" or "fail".
        heartbeat: time between two heartbeats that a run writes, e.g. timedelta(seconds=10); default None, none.
        timeout: time that an operation waits for the brokers of either side; default 30 seconds.
        batching: bounds of a micro-batch; default `Batching(max_rows=500_000, max_bytes=512 << 20)`.
        expectations: of Great Expectations, see `Flow`; default none.
        sink_outage: see `Flow`; a mirror has one sink, which never leaves. Default 30 seconds.
        zookeeper_conn_id: connection of the checkpoint store; default "zookeeper_default".
        on_zookeeper_loss: "stop" (default) or "continue", see `Flow`.
        zookeeper_loss: longest time that it runs without ZooKeeper, with "continue"; default one hour.
        zookeeper_loss_batches: most batches that it runs without ZooKeeper; default 10,000.
        mode: "live", "standard" (default) or "economy", see `Flow`.
        description: one line for lists and the UI, e.g. "orders to the west"; default "".
        alerts: channels and at most one `AlertWhen`, see `Flow`; default none.

    Raises:
        ConfigError: an option is not what it should be.
    """

    @accepts_former(
        "Mirror",
        source="source_conn_id",
        target="target_conn_id",
        zookeeper="zookeeper_conn_id",
        timeout_s=StoredOption("timeout", SECOND),
        heartbeat_s=StoredOption("heartbeat", SECOND),
        sink_outage_seconds=StoredOption("sink_outage", SECOND),
        zookeeper_loss_seconds=StoredOption("zookeeper_loss", SECOND),
    )
    def __init__(  # noqa: PLR0913 - one parameter per option
        self,
        *,
        name: str,
        source_conn_id: str,
        target_conn_id: str,
        topics: tuple[str, ...] | str,
        policy: Literal["identity", "prefix"] = "identity",
        renames: Mapping[str, str] | None = None,
        two_way: str = "",
        origin: bool = False,
        forward: bool = True,
        max_bytes_per_s: int | None = None,
        exclude_topics: tuple[str, ...] = (),
        start: str = "earliest",
        on_gap: OnGap = "fail",
        on_missing_topic: OnMissingTopic | None = None,
        consumer: LibrdkafkaSettings | None = None,
        slots: int = 1,
        compression: Compression = "lz4",
        replication_factor: int = -1,
        topic_config: Mapping[str, str] | None = None,
        producer: LibrdkafkaSettings | None = None,
        chunk_rows: int = 10_000_000,
        grow: bool = True,
        groups: tuple[str, ...] = ("*",),
        copy_settings: bool = True,
        follow_settings: bool | None = None,
        configs: tuple[str, ...] = ("*",),
        exclude_configs: tuple[str, ...] = NOT_FOLLOWED,
        sync_acls: bool = False,
        too_large: Literal["quarantine", "large_value", "fail"] = "quarantine",
        heartbeat: timedelta | None = None,
        timeout: timedelta = timedelta(seconds=30),
        batching: Batching = _BATCHING,
        expectations: Any = (),
        sink_outage: timedelta = timedelta(seconds=30),
        zookeeper_conn_id: str = "zookeeper_default",
        on_zookeeper_loss: Literal["stop", "continue"] = "stop",
        zookeeper_loss: timedelta = HOUR,
        zookeeper_loss_batches: int = 10_000,
        mode: Mode = "standard",
        description: str = "",
        alerts: tuple[AlertSpec, ...] = (),
    ) -> None:
        _check(policy, source_conn_id, target_conn_id)
        names, renamed = (topics,) if isinstance(topics, str) else topics, dict(renames or {})
        if heartbeat is not None:
            # As with MirrorMaker 2 they bear the source's name on the target, whatever the policy.
            names, renamed = (*names, HEARTBEATS), {HEARTBEATS: f"{source_conn_id}.{HEARTBEATS}", **renamed}
        marked = origin or bool(two_way) or not forward
        with problems_as_of(type(self), {"conn_id": "source_conn_id"}):
            read = KafkaTopics(
                conn_id=source_conn_id,
                topics=names,
                exclude_topics=exclude_topics,
                start=start,
                on_gap=on_gap,
                on_missing_topic=on_missing_topic or ("wait" if two_way or origin else "fail"),
                consumer=consumer or {},
                timeout=timeout,
                raw=True,
                identity="offset",
                key_format="bytes",
                value_format="bytes",
                leave_out="*" if not forward else target_conn_id if marked else "",
            )
        too_large = value_of_former("Mirror", "too_large", too_large, MirrorTopics.former_values["too_large"])
        with problems_as_of(type(self), {"conn_id": "target_conn_id", "partner": "two_way"}):
            write = MirrorTopics(
                name="mirror",
                conn_id=target_conn_id,
                source_conn_id=source_conn_id,
                topics=read.topics,
                exclude_topics=read.exclude_topics,
                prefix=f"{source_conn_id}." if policy == "prefix" else "",
                renames=renamed,
                origin=source_conn_id if marked else "",
                partner=two_way,
                max_bytes_per_s=max_bytes_per_s,
                slots=slots,
                compression=compression,
                replication_factor=replication_factor,
                topic_config=topic_config or {},
                producer=producer or {},
                chunk_rows=chunk_rows,
                grow=grow,
                groups=groups,
                copy_settings=copy_settings,
                follow_settings=not two_way if follow_settings is None else follow_settings,
                configs=configs,
                exclude_configs=exclude_configs,
                sync_acls=sync_acls,
                too_large=too_large,
                heartbeat=heartbeat,
                timeout=timeout,
            )
        if max_bytes_per_s is not None and isinstance(batching, Batching):
            batching = batching.model_copy(update={"max_bytes": min(batching.max_bytes, max_bytes_per_s)})
        super().__init__(
            name=name,
            source=read,
            sinks=(write,),
            batching=batching,
            expectations=expectations,
            sink_outage=sink_outage,
            zookeeper_conn_id=zookeeper_conn_id,
            on_zookeeper_loss=on_zookeeper_loss,
            zookeeper_loss=zookeeper_loss,
            zookeeper_loss_batches=zookeeper_loss_batches,
            mode=mode,
            description=description,
            alerts=alerts,
        )

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names of a mirror's own options: source and sink are made of them."""
        return tuple(name for name in signature(cls.__init__).parameters if name != "self")

    @classmethod
    def from_stored(cls, options: Mapping[str, Any]) -> Any:
        """Return the flow of stored options: what is stored of a mirror is its source and its sink."""
        return Flow.from_stored(options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flow) and self.to_json() == other.to_json()

    __hash__ = Flow.__hash__


def _check(policy: str, source_conn_id: str, target_conn_id: str) -> None:
    if policy not in ("identity", "prefix"):
        raise ConfigError(f"{caller()}: Mirror: policy={policy!r} is unknown", hint="Known: identity, prefix.")
    if source_conn_id == target_conn_id:
        raise ConfigError(
            f"{caller()}: Mirror: source and target are both {source_conn_id!r}: a loop",
            hint="Name the connections of two clusters.",
            code="mirror_loop",
        )
