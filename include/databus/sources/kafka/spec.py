"""Kafka topics as a source: what a flow writes down."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from pydantic import Field, field_validator, model_validator

from databus.core.connections import ConnectionSource
from databus.core.flow_specs import FlowContext, SourceSpec
from databus.core.packages import require
from databus.core.stored_options import SECOND, ZERO, Duration, StoredOption
from databus.kafka.client_settings import LibrdkafkaSettings, allowed
from databus.kafka.selection import HEARTBEATS, REGEX_PREFIX, is_name, matches, selects_topic
from databus.schema_registry.settings import CONN_TYPES, KINDS

if TYPE_CHECKING:
    from databus.core.protocols.source import Source
    from databus.core.tables.schemas import TableSchema

GROUP_PREFIX = "group:"
OFFSETS_PREFIX = "offsets:"
FIELD_TYPES = re.compile(r"^(bigint|double|string|boolean|json|decimal\(\d{1,2},\d{1,2}\))$")
RECORD_COLUMNS = ("key", "value", "headers", "timestamp", "timestamp_type", "partition", "offset")
_OFFSET = re.compile(r"^(?P<topic>[A-Za-z0-9._-]+):(?P<partition>\d+):(?P<offset>\d+)$")

OnGap = Literal["fail", "earliest", "latest"]
OnMissingTopic = Literal["fail", "wait"]
Format = Literal["bytes", "string", "json", "avro", "json_schema", "protobuf"]
REGISTRY_FORMATS = tuple(KINDS)
_FAULTS = {"bytes": (), "string": ("undecodable",), "json": ("undecodable",)}
_REGISTRY_FAULTS = ("unframed", "schema_unknown", "undecodable")


class KafkaTopics(SourceSpec):
    """Records of topics, each partition in order; only committed ones, and none twice.

    A record is a row of the table CLUSTER.TOPIC with the columns key, value, headers (JSON: a list of [name, value]),
    timestamp (ms since the epoch), timestamp_type ("create" or "append"), partition and offset, and those of `fields`.
    Partitions and topics that appear later are read from their beginning. A source transaction may be cut in two by the
    end of a batch, as it is by its partitions for any Kafka reader.

    Attributes:
        conn_id: connection of type kafka, e.g. "kafka_east"; its extra holds librdkafka settings, at least
            bootstrap.servers.
        topics: what is read: "orders", fnmatch patterns "shop.*", or "re:" and a regular expression over the name.
            Kafka's and Databus' own topics are read only when named literally.
        exclude_topics: patterns of the same form that are left out, e.g. ("*.tmp",); default none.
        start: where a flow without a checkpoint begins: "latest" (default), "earliest", a time (ISO 8601; UTC without a
            zone), "group:NAME" (what that consumer group has committed; partitions that it has not are read from their
            beginning), or "offsets:TOPIC:PARTITION:NEXT,…" (the others from their beginning).
        on_gap: what is done when records between the checkpoint and the log are gone (retention, truncation, a topic
            made anew). "fail" (default) stops and asks for a decision; "earliest" goes on with the first record that is
            left, "latest" with the next one written. Each writes the gap down.
        isolation: "read_committed" (default) reads up to the last stable offset; "read_uncommitted" also what is
            aborted later.
        key_format: "string" (default), "bytes" (base64 in JSON), "json" (checked), or what a schema registry describes,
            in Confluent's wire format, as JSON: "avro", "json_schema" (checked against the schema), "protobuf". A value
            that is not of the format stands as base64 with a flag: "undecodable", "unframed" (no wire format),
            "schema_unknown" (not in the registry, or of another format).
        value_format: the same of the value; default "string". Each value is read with the schema it names: the row's
            shape stays the same when the schema changes.
        registry_conn_id: connection of the schema registry, of type http or schema_registry: address, login, password,
            and in its extra the path where the API begins and settings of confluent-kafka's SchemaRegistryClient. E.g.
            "registry"; default "", none.
        on_undecodable: what is done with a record whose key or value is not of its format: "deliver" it flagged, hold
            it back in the "quarantine", or "fail" before anything of the batch is dispatched. "auto" (default) is
            "quarantine" for formats of the registry and "deliver" for the others.
        fields: of values (not of the formats bytes and string), path in dots → type (bigint, double, string, boolean,
            decimal(p,s), json): columns of their own, for transforms and checks. NULL where the value lacks them or
            they are of another type. E.g. {"order.id": "bigint"}; default none.
        identity: "key" (default): records of a key are states of one thing, a record without a value deletes it, one
            without a key is a thing of its own; "offset": each record is a thing of its own, and none deletes.
        raw: records go on as they are, byte for byte, to a sink that takes them so (a mirror's); needs
            identity="offset". Default False.
        leave_out: of raw records, leave out those that came from this site before (header `databus.origin`), "*" those
            that came from any. E.g. "kafka_west"; default "", none.
        cluster: database part of the tables' names, e.g. "east"; default "", the conn_id without dots.
        timeout: time that an operation waits for the brokers before it fails as unavailable, e.g.
            timedelta(seconds=10); default 30 seconds.
        consumer: further librdkafka consumer settings that tune it (`kafka/librdkafka_names.py`); what the guarantee
            rests on is refused, and so are unknown names. E.g. {"fetch.max.bytes": 1_000_000}; default none.
        on_missing_topic: "fail" (default) refuses to begin with a topic that is named without wildcards and is not
            there; "wait" is for topics that come later. A pattern that matches nothing is a warning under both.
    """

    kind: ClassVar[str] = "kafka"
    noun: ClassVar[str] = "topic"
    patterns_wait: ClassVar[bool] = True
    without_effect: ClassVar[frozenset[str]] = frozenset({"start", "on_gap", "on_missing_topic", "timeout", "consumer"})
    direct: ClassVar[bool] = True
    ranged: ClassVar[bool] = True
    login_in_splits: ClassVar[bool] = True
    places: ClassVar[tuple[str, ...]] = (
        "offsets:TOPIC:PARTITION:NEXT,… (offsets:orders:0:1200)",
        "group:NAME (group:billing)",
    )

    conn_id: str
    topics: tuple[str, ...] = Field(min_length=1)
    exclude_topics: tuple[str, ...] = ()
    start: str = "latest"
    on_gap: OnGap = "fail"
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    key_format: Format = "string"
    value_format: Format = "string"
    registry_conn_id: str = ""
    on_undecodable: Literal["auto", "deliver", "quarantine", "fail"] = "auto"
    fields: Mapping[str, str] = Field(default_factory=dict)
    identity: Literal["key", "offset"] = "key"
    raw: bool = False
    leave_out: str = ""
    cluster: str = ""
    timeout: Duration = Field(timedelta(seconds=30), gt=ZERO)
    consumer: LibrdkafkaSettings = Field(default_factory=dict)
    on_missing_topic: OnMissingTopic = "fail"

    timeout_s: ClassVar = StoredOption[float]("timeout", SECOND)

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain JSON; what came later is left out where it says nothing, and keeps hashes."""
        told = super().to_json()
        return {name: value for name, value in told.items() if (name, value) != ("on_missing_topic", "fail")}

    def alike(self) -> tuple[KafkaTopics, ...]:
        """Return it under the other policies at which a flow stops: whoever decides can finish the plan in flight."""
        mine = self.on_gap, self.on_missing_topic
        pairs = product(get_args(OnGap), get_args(OnMissingTopic))
        return tuple(
            self.model_copy(update={"on_gap": gap, "on_missing_topic": missing})
            for gap, missing in pairs
            if (gap, missing) != mine
        )

    @field_validator("topics", "exclude_topics")
    @classmethod
    def _patterns_are_valid(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern[len(REGEX_PREFIX) :] if pattern.startswith(REGEX_PREFIX) else "")
            except re.error as error:
                raise ValueError(f"topic pattern {pattern!r} is not a regular expression: {error}") from None
            if not pattern:
                raise ValueError("a topic pattern is empty")
        return patterns

    @field_validator("start", mode="before")
    @classmethod
    def _start_is_known(cls, value: object) -> str:
        if isinstance(value, datetime):
            return utc(value).isoformat()
        text = str(value)
        if text in ("latest", "earliest") or (text.startswith(GROUP_PREFIX) and len(text) > len(GROUP_PREFIX)):
            return text
        try:
            if text.startswith(OFFSETS_PREFIX):
                named_offsets(text)
            else:
                datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"start {text!r} is none of latest, earliest, group:NAME, offsets:TOPIC:PARTITION:NEXT,…, "
                "an ISO 8601 time"
            ) from None
        return text

    @field_validator("fields")
    @classmethod
    def _fields_are_known(cls, fields: Mapping[str, str]) -> Mapping[str, str]:
        for name, kind in fields.items():
            if name in RECORD_COLUMNS:
                raise ValueError(f"field {name!r} has the name of a record's own column")
            if not FIELD_TYPES.match(kind):
                raise ValueError(
                    f"field {name}: unknown type {kind!r}; known: bigint, double, string, boolean, json, decimal(p,s)"
                )
        return fields

    @field_validator("cluster")
    @classmethod
    def _cluster_has_no_dots(cls, value: str) -> str:
        if "." in value:
            raise ValueError(f"cluster {value!r} must not hold a dot: it is the first part of CLUSTER.TOPIC")
        return value

    @field_validator("consumer")
    @classmethod
    def _guarantee_is_kept(cls, value: LibrdkafkaSettings) -> LibrdkafkaSettings:
        return allowed(value, "consumer")

    @model_validator(mode="after")
    def _fields_have_values(self) -> KafkaTopics:
        if self.fields and self.value_format in ("bytes", "string"):
            raise ValueError(
                'fields are taken out of documents: they need value_format="json", "avro", "json_schema" or "protobuf"'
            )
        return self

    @model_validator(mode="after")
    def _registry_is_known(self) -> KafkaTopics:
        formats = self.registry_formats()
        if formats and self.raw:
            raise ValueError(f"raw records are not decoded: {formats[0]} cannot be asked for")
        if formats and not self.registry_conn_id:
            raise ValueError(f"{formats[0]} needs registry_conn_id, the connection of the schema registry")
        if self.registry_conn_id and not formats:
            raise ValueError(f"registry_conn_id is of no use without a format of {', '.join(REGISTRY_FORMATS)}")
        return self

    @model_validator(mode="after")
    def _raw_records_have_places(self) -> KafkaTopics:
        if self.raw and self.identity != "offset":
            raise ValueError('raw=True needs identity="offset": nothing looks into the keys')
        if self.leave_out and not self.raw:
            raise ValueError("leave_out needs raw=True")
        return self

    @property
    def database(self) -> str:
        """The database part of its tables' names."""
        return self.cluster or self.conn_id.replace(".", "_")

    def wants(self, topic: str, *, internal: bool = False) -> bool:
        """Return whether a topic is read; `internal` says that it is Kafka's own."""
        return selects_topic(self.topics, self.exclude_topics, topic, internal=internal)

    def named(self) -> tuple[str, ...]:
        """Return the topics that are named and not only matched."""
        return tuple(topic for topic in self.topics if is_name(topic))

    def unmatched(self, there: Collection[str]) -> tuple[str, ...]:
        """Return the names and patterns that none of the topics which are read matches.

        The topic of heartbeats that a mirror reads is made by its first run.
        """
        return tuple(
            pattern
            for pattern in self.topics
            if not any(matches(pattern, topic) for topic in there)
            and not (self.raw and pattern == HEARTBEATS)
            and (not is_name(pattern) or self.wants(pattern))
        )

    def names_one(self, pattern: str) -> bool:
        """Return whether a pattern is a topic's name."""
        return is_name(pattern)

    def rotates(self, name: str) -> bool:
        """Return whether a topic is read because of a pattern alone."""
        return name not in self.topics and self.wants(name)

    def means(self, pattern: str, table: TableSchema) -> bool:
        """Return whether a pattern means the topic of a table."""
        return matches(pattern, table.table)

    @property
    def tables_may_come_later(self) -> bool:
        """Return whether named topics that are not there yet are waited for."""
        return self.on_missing_topic == "wait"

    def open(self, connections: ConnectionSource, context: FlowContext) -> Source:
        """Resolve the connection; brokers are contacted by the first call that needs them."""
        require(self.extras(), f"source {self.kind}")
        from databus.sources.kafka.source import KafkaTopicsSource

        registry = connections.get(self.registry_conn_id) if self.registry_conn_id else None
        return KafkaTopicsSource(self, connections.get(self.conn_id), context, registry)

    def begins_at_head(self) -> bool:
        """Return whether it begins at "latest"."""
        return self.start == "latest"

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return the cluster's connection, then the schema registry's where there is one."""
        registry = ((self.registry_conn_id, CONN_TYPES),) if self.registry_conn_id else ()
        return ((self.conn_id, "kafka"), *registry)

    def extras(self) -> tuple[str, ...]:
        """Return the client's, and the schema registry's where a format asks for one."""
        return ("kafka", "registry") if self.registry_conn_id else ("kafka",)

    def registry_formats(self) -> tuple[str, ...]:
        """Return which formats of keys and values a schema registry describes, each once."""
        return tuple(dict.fromkeys(f for f in (self.key_format, self.value_format) if f in REGISTRY_FORMATS))

    def undecodable(self) -> tuple[tuple[str, str, str], ...]:
        """Return (column, reason, what is done) of keys and values that are not of their format."""
        found = []
        for column, form in (("key", self.key_format), ("value", self.value_format)):
            auto = "quarantine" if form in REGISTRY_FORMATS else "deliver"
            action = auto if self.on_undecodable == "auto" else self.on_undecodable
            if action != "deliver" and not self.raw:
                found += [(column, reason, action) for reason in _FAULTS.get(form, _REGISTRY_FAULTS)]
        return tuple(found)

    def datasets(self) -> tuple[str, ...]:
        """Return the topic patterns."""
        return self.topics

    def label(self) -> str:
        """Return kind and topics."""
        return f"{self.kind} {', '.join(self.topics)}"


def utc(when: datetime) -> datetime:
    """Return an aware time in UTC; one without a zone is UTC."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def named_offsets(text: str) -> dict[tuple[str, int], int]:
    """Read "offsets:TOPIC:PARTITION:NEXT,…".

    Raises:
        ValueError: it is not of that form.
    """
    found: dict[tuple[str, int], int] = {}
    for item in text.removeprefix(OFFSETS_PREFIX).split(","):
        match = _OFFSET.match(item.strip())
        if match is None:
            raise ValueError(f"{item!r} is not TOPIC:PARTITION:NEXT")
        found[match["topic"], int(match["partition"])] = int(match["offset"])
    return found
