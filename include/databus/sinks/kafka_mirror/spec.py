"""Mirror topics spec: what a mirror says about the topics it writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from databus.core.connections import ConnectionSource
from databus.core.errors.sink import SinkSettingError
from databus.core.flow_specs import FlowContext
from databus.core.packages import require
from databus.core.protocols.sink import Sink
from databus.core.stored_options import SECOND, Duration, StoredOption
from databus.kafka.selection import INTERNAL_TOPICS, selects_topic
from databus.sinks.kafka.message_options import NEW
from databus.sinks.kafka.spec import Kafka

if TYPE_CHECKING:
    from databus.core.tables.schemas import TableSchema
    from databus.sinks.kafka_mirror.topic_sync import MirrorClusters

NOT_FOLLOWED = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.*",
    "unclean.leader.election.enable",
    "min.insync.replicas",
)
"""Settings that belong to the cluster and not to the topic: MirrorMaker 2's default of config.properties.exclude."""

_NAME = re.compile(r"^[A-Za-z0-9._-]{1,249}$")


class MirrorTopics(Kafka):
    """Raw records to the topics they are mirrored to: key, value, headers, timestamp, partition and order as they were.

    A topic of the target is made with the source's partition count and settings, and grows with it. Exceptions to
    equality: the header `databus.origin` where `origin` is set; the target keeps the source's time as CreateTime, also
    of topics whose source stamps at the append; a record of exactly 1970-01-01T00:00:00Z gets the time of its writing
    (librdkafka takes 0 for "now").

    Attributes:
        source_conn_id: connection of the cluster that is mirrored, e.g. "kafka_east".
        prefix: text before each topic's name, e.g. "east."; default "" keeps the names.
        renames: source topic → target topic, instead of the prefix, e.g. {"orders": "orders.east"}; default none.
        suffix: text behind each topic's name, of a replay beside the mirrored ones, e.g. ".replay"; default "".
        origin: name of the source's site, written into the header `databus.origin`, e.g. "east"; default "" writes
            none.
        partner: flow name of the mirror in the other direction, for what consumers have seen of its records, e.g.
            "mirror_west_to_east"; default "", none.
        grow: whether partitions are added to a target topic that has fewer than the source's; else it is refused.
            Default True.
        groups: consumer groups (fnmatch patterns) whose offsets are translated to the target after batches, so that a
            consumer that moves over goes on there, e.g. ("billing-*",); default all, () none. A group with members on
            the target is left alone.
        topics: patterns of the topics that are mirrored, as the source has them, e.g. ("cdc.*",); default all.
        exclude_topics: patterns of those that are not, e.g. ("*.tmp",); default none.
        copy_settings: whether settings that the source's topic has of its own are given to topics that are made;
            default True.
        follow_settings: whether they are given to topics that are there, too, again and again; a setting that the
            source's topic does not have (any more) goes back to the target's default, as with MirrorMaker 2. What
            `topic_config` names stays. Default True.
        configs: patterns of the settings that are copied and followed, e.g. ("retention.*",); default all.
        exclude_configs: patterns of those that are not; default those that belong to a cluster (`NOT_FOLLOWED`).
        sync_acls: whether access rules of the source's topics are added on the target, for reading only: a right to
            write is left out, and a right to everything becomes one to read. None is ever taken away. Default
            False.
        too_large: what is done with a record that is larger than its topic takes on the target: "quarantine" (default)
            holds it back and goes on; "large_value" puts its value into the segment store and a reference in its place,
            with the header `databus.claim`; "fail" stops, with nothing of its batch's transaction to be seen.
        max_bytes_per_s: most bytes that a run moves in a second, over all slots, e.g. 10_000_000; default None, no
            bound.
        heartbeat: time between two heartbeats that a run writes into the source's topic `heartbeats`, as MirrorMaker 2
            does; mirrored like the rest, they show the delay while nothing else is written. E.g. timedelta(seconds=10);
            default None, none.
    """

    kind: ClassVar[str] = "kafka_mirror"
    takes_raw_records: ClassVar[bool] = True
    without_effect: ClassVar[frozenset[str]] = Kafka.without_effect | {
        "partner", "grow", "groups", "copy_settings", "follow_settings", "configs", "exclude_configs", "sync_acls",
        "max_bytes_per_s", "heartbeat",
    }  # fmt: skip
    unused: ClassVar[frozenset[str]] = frozenset(
        {"topic", "envelope", "tombstones", "ddl", "partitions", "profile", "transaction_topic", "transforms", *NEW}
    )
    former_values: ClassVar[Mapping[str, Mapping[str, str]]] = {"too_large": {"claim": "large_value"}}

    source_conn_id: str
    topic: str = "{table}"
    tombstones: bool = False
    prefix: str = ""
    renames: Mapping[str, str] = Field(default_factory=dict)
    suffix: str = ""
    origin: str = ""
    partner: str = ""
    grow: bool = True
    groups: tuple[str, ...] = ("*",)
    topics: tuple[str, ...] = ("*",)
    exclude_topics: tuple[str, ...] = ()
    copy_settings: bool = True
    follow_settings: bool = True
    configs: tuple[str, ...] = ("*",)
    exclude_configs: tuple[str, ...] = NOT_FOLLOWED
    sync_acls: bool = False
    too_large: Literal["quarantine", "large_value", "fail"] = "quarantine"
    max_bytes_per_s: int | None = Field(None, ge=10_000)
    heartbeat: Duration | None = Field(None, ge=SECOND)

    heartbeat_s: ClassVar = StoredOption[float | None]("heartbeat", SECOND)

    @field_validator("prefix", "suffix")
    @classmethod
    def _name_parts_are_of_names(cls, value: str) -> str:
        if value and not _NAME.match(value):
            raise ValueError(f"{value!r} holds what a topic's name may not: letters, digits and ._- are allowed")
        return value

    @model_validator(mode="after")
    def _renames_do_not_clash(self) -> MirrorTopics:
        for name in self.renames.values():
            if not _NAME.match(name):
                raise ValueError(f"{name!r} is no name for a topic")
        twice = sorted({n for n in self.renames.values() if list(self.renames.values()).count(n) > 1})
        if twice:
            raise ValueError(f"renames send two topics to {', '.join(twice)}")
        if self.profile != "exactly_once":
            raise ValueError('a mirror keeps exactly once: profile="exactly_once" is the only one')
        if self.on_reject != "quarantine":
            raise ValueError("a mirror's too_large says what becomes of records that are too large, not on_reject")
        return self

    def wants(self, topic: str) -> bool:
        """Return whether a topic of the source is mirrored."""
        return selects_topic(self.topics, self.exclude_topics, topic, internal=topic in INTERNAL_TOPICS)

    def target(self, topic: str) -> str:
        """Return the name a source topic has on the target."""
        return self.renames.get(topic, f"{self.prefix}{topic}") + self.suffix

    def targets(self, topics: Iterable[str]) -> dict[str, str]:
        """Return source topic → target topic.

        Raises:
            SinkSettingError: two topics would share one on the target.
        """
        found: dict[str, str] = {}
        owners: dict[str, str] = {}
        for topic in sorted(topics):
            found[topic] = name = self.target(topic)
            if owners.setdefault(name, topic) != topic:
                raise SinkSettingError(
                    f"mirror to {self.conn_id}: {owners[name]} and {topic} would both be {name} there",
                    hint="Rename one of them to another name, or exclude it.",
                    code="mirror_rename_clash",
                )
        return found

    def open(self, connections: ConnectionSource, context: FlowContext) -> Sink:
        """Resolve both connections; brokers are contacted by the first call that needs them."""
        require(self.extras(), f"sink {self.sink_name} of kind {self.kind}")
        from databus.sinks.kafka_mirror.sink import MirrorSink

        return MirrorSink(self, connections.get(self.conn_id), connections.get(self.source_conn_id), context)

    def follow(self, connections: ConnectionSource) -> MirrorClusters:
        """Resolve both connections, for what is followed beside the records."""
        require(self.extras(), f"sink {self.sink_name} of kind {self.kind}")
        from databus.sinks.kafka_mirror.topic_sync import MirrorClusters

        return MirrorClusters(self, connections.get(self.source_conn_id), connections.get(self.conn_id))

    def beside(self, flow: str, suffix: str) -> MirrorTopics:  # noqa: ARG002 - no name of its topics holds the flow's
        """Return the sink of a backfill: topics whose names end in the suffix, made as the mirrored ones are."""
        return self.model_copy(update={"suffix": suffix})

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return the target's; the other is the flow's source's, which names it too."""
        return ((self.conn_id, "kafka"),)

    def extras(self) -> tuple[str, ...]:
        """Return the client's."""
        return ("kafka",)

    def datasets(self) -> tuple[str, ...]:
        """Return how names are made."""
        return tuple(name + self.suffix for name in (f"{self.prefix}*", *self.renames.values()))

    def output_of(self, table: TableSchema, route: str, flow: str) -> str | None:  # noqa: ARG002
        """Return None: records are handed on as they are, and no column is looked at."""
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain JSON; what it inherits and a mirror does not use is left out."""
        return {name: value for name, value in super().to_json().items() if name not in self.unused}
