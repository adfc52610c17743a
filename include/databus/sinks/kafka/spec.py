"""Kafka sink's spec, as a flow writes it."""

from __future__ import annotations

import string
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from databus.core.connections import ConnectionSource
from databus.core.flow_specs import FlowContext, OnReject, Profile
from databus.core.packages import require
from databus.core.stored_options import SECOND, ZERO, Duration, StoredOption
from databus.kafka.client_settings import LibrdkafkaSettings, allowed
from databus.schema_registry.settings import CONN_TYPES, RegistrySettings
from databus.sinks.kafka.headers import ORDERS
from databus.sinks.kafka.message_options import MessageOptions
from databus.sinks.kafka.topics.names import MAX_NAME

if TYPE_CHECKING:
    from databus.core.protocols.sink import Sink
    from databus.core.state.plan import SinkPlan
    from databus.core.tables.schemas import ChosenKey, TableSchema
    from databus.sinks.kafka.tracing.topic_reader import TopicReader

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
_NEWER = (("format", "json"), ("registry_conn_id", ""), ("transaction_topic", ""))
"""Options, at their defaults, that older definitions lack."""

TOPIC_FIELDS = frozenset({"database", "table", "route", "flow"})


class Kafka(MessageOptions):
    """Rows to Kafka topics, exactly once for read_committed consumers.

    The record's key is the canonical JSON of the primary key and decides the partition as Kafka's default partitioner
    does (murmur2). Rows of a table without a primary key have no key and all go to partition 0, which keeps their
    order; give such a table a key at the source to spread it. TRUNCATE goes to partition 0 without a key.
    A batch larger than `chunk_rows` becomes visible chunk by chunk, in order.

    Attributes:
        conn_id: Kafka connection, e.g. "kafka_east"; its extra holds librdkafka settings, at least bootstrap.servers.
        topic: topic name, or template with {route}, {database}, {table}, {flow}; a plain name sends every table to one
            topic. Characters that Kafka does not allow become "_". Default "cdc.{route}".
        format: "json" (default), "avro", "json_schema" or "protobuf". The last three write keys and values in
            Confluent's wire format, with schemas that are made from the tables and registered under TOPIC-key and
            TOPIC-value when a batch is planned. They need `registry_conn_id`, envelope "debezium" and the direct lane
            (docs/reference/messages.md); TRUNCATE is not written then.
        registry_conn_id: connection of the schema registry, of type http or schema_registry: address, login, password,
            and settings of its client in the extra, e.g. "schema_registry_default". Comes with the extra "registry";
            default "", none.
        partitions: number of partitions of a topic that this sink creates, e.g. 4; default 1. An existing topic keeps
            its own.
        replication_factor: of a topic that this sink creates, e.g. 3; default -1, the broker's default.
        topic_config: settings of a topic that this sink creates, e.g. {"cleanup.policy": "compact"}; default none.
        slots: number of parallel writers, e.g. 4; default 1. A partition always belongs to the same one.
        tombstones: whether a record without a value follows each delete, for compacted topics; default True.
        ddl: whether to write schema changes of captured tables and of their databases as well (op "m", envelope
            "debezium" only); their table is "_ddl" when the statement names none or several. Statements on accounts,
            routines, views, events and triggers are never written. Default False.
        transaction_topic: topic for the boundaries of the source's transactions, BEGIN and END with counts, as
            Debezium's `provide.transaction.metadata` writes them; may use {flow}, e.g. "cdc.transactions". Rows then
            have their order among the transaction's written ones (docs/reference/messages.md). Needs a source with
            transactions, envelope "debezium" or "row", and format "json"; default "", none.
        compression: compression.type of the producer: "none", "gzip", "snappy", "lz4" (default) or "zstd".
        chunk_rows: rows in one Kafka transaction at most, e.g. 100_000; default 500,000. A part of the output, so
            changing it starts a new spec hash.
        timeout: time that an operation waits for the brokers before it fails as unavailable, e.g.
            timedelta(seconds=10); default 30 seconds.
        producer: further librdkafka producer settings that tune it (`kafka/librdkafka_names.py`), which may differ
            between two attempts of a batch; what the guarantee rests on is refused, and so are unknown names. E.g.
            {"linger.ms": 20}; default none.
        profile: "exactly_once" (default): transactions with markers. "at_least_once": no transactions, so that rows are
            readable at once; acknowledged by all replicas and in order; a batch that is tried again is written twice.
            "throughput_first": acknowledged by the leader only, in larger batches; a broker that fails may lose rows it
            has acknowledged, and rows may be repeated. Neither keeps a zombie out. Going back to "exactly_once" takes
            another `name`, since the markers stood still meanwhile. `chunk_rows` cuts transactions and is refused.
        on_reject: what becomes of a batch with a row that is larger than its topic takes. "quarantine" (default) holds
            the row back; "fail" stops the flow, with nothing of that transaction to be seen (in the other profiles with
            what came before it in the topic). It may be changed while a batch is stopped, which then goes on.
    """

    kind: ClassVar[str] = "kafka"
    direct: ClassVar[bool] = True
    without_effect: ClassVar[frozenset[str]] = frozenset(
        {"replication_factor", "topic_config", "compression", "timeout", "producer", "on_reject"}
    )

    conn_id: str
    topic: str = "cdc.{route}"
    format: Literal["json", "avro", "json_schema", "protobuf"] = "json"
    registry_conn_id: str = ""
    partitions: int = Field(1, ge=1)
    replication_factor: int = Field(-1, ge=-1)
    topic_config: Mapping[str, str] = Field(default_factory=dict)
    slots: int = Field(1, ge=1, le=64)
    tombstones: bool = True
    ddl: bool = False
    transaction_topic: str = ""
    compression: Compression = "lz4"
    chunk_rows: int = Field(500_000, ge=1)
    timeout: Duration = Field(timedelta(seconds=30), gt=ZERO)
    producer: LibrdkafkaSettings = Field(default_factory=dict)
    profile: Profile = "exactly_once"
    on_reject: OnReject = "quarantine"

    timeout_s: ClassVar = StoredOption[float]("timeout", SECOND)

    @field_validator("topic")
    @classmethod
    def _template_is_known(cls, value: str) -> str:
        parts = [part for part in string.Formatter().parse(value) if part[1] is not None]
        if formatted := [name for _, name, form, conversion in parts if form or conversion]:
            raise ValueError(f"topic template {value!r} has fields as they are: write {{{formatted[0]}}}")
        fields = {str(name) for _, name, _, _ in parts}
        unknown = sorted(fields - TOPIC_FIELDS)
        if not value or unknown:
            known = ", ".join(f"{{{name}}}" for name in sorted(TOPIC_FIELDS))
            raise ValueError(f"topic template {value!r} may use {known}" + (f", not {unknown}" if unknown else ""))
        return value

    @field_validator("transaction_topic")
    @classmethod
    def _transaction_topic_is_one(cls, value: str) -> str:
        list(string.Formatter().parse(value))  # a brace that is left open
        name = value.replace("{flow}", "f")
        if "{" in name or "}" in name:
            raise ValueError(f"transaction_topic {value!r} is one topic: it may use {{flow}} alone")
        if len(name) > MAX_NAME or name in {".", ".."}:
            raise ValueError(f"transaction_topic {value!r} is not a name that Kafka allows")
        return value

    @field_validator("producer")
    @classmethod
    def _guarantee_is_kept(cls, value: LibrdkafkaSettings) -> LibrdkafkaSettings:
        return allowed(value, "producer")

    def key_problem(self, key: ChosenKey) -> str:
        """Return why the sink cannot take rows under a chosen key: several may share it."""
        if key.unique:
            return ""
        if "compact" in self.topic_config.get("cleanup.policy", ""):
            return "topic_config compacts the topic, which keeps the last row alone of those that share a key"
        return "tombstones=True would let the delete of one row end all that share its key" if self.tombstones else ""

    @model_validator(mode="after")
    def _ddl_has_an_envelope(self) -> Kafka:
        if self.ddl and self.envelope != "debezium":
            raise ValueError('ddl=True needs envelope="debezium": a schema change is not a row')
        return self

    @model_validator(mode="after")
    def _registry_is_known(self) -> Kafka:
        if (self.format == "json") == bool(self.registry_conn_id):
            raise ValueError(
                "registry_conn_id is of no use with format='json'"
                if self.registry_conn_id
                else f"format={self.format!r} needs registry_conn_id, the connection of the schema registry"
            )
        if self.format != "json" and (self.envelope != "debezium" or self.types != "iso" or self.ddl):
            raise ValueError(
                f"format={self.format!r} has envelope='debezium' only, types='iso', and no schema changes (ddl)"
            )
        return self

    @model_validator(mode="after")
    def _transactions_are_written(self) -> Kafka:
        if self.transaction_topic:
            if self.format != "json" or self.envelope not in ("debezium", "row"):
                raise ValueError('transaction_topic has format="json", with envelope="debezium" or "row"')
            if self.transaction_topic == self.topic:
                raise ValueError("transaction_topic is a topic of its own: rows go to another one")
        elif orders := [name for name in self.headers if name in ORDERS]:
            raise ValueError(f"headers {', '.join(orders)} need transaction_topic")
        return self

    @model_validator(mode="after")
    def _profile_makes_sense(self) -> Kafka:
        if self.profile != "exactly_once" and "chunk_rows" in self.model_fields_set:
            raise ValueError(f'chunk_rows cuts transactions, and profile="{self.profile}" has none')
        return self

    @property
    def unreserved_with(self) -> str:
        """Option with which a row's columns stand apart from all other members."""
        return 'envelope="debezium"'

    def reserved_columns(self) -> frozenset[str]:
        """Return the members of a plain row that are no columns."""
        from databus.sinks.envelope import ROW_FIELDS

        return frozenset(ROW_FIELDS) if self.envelope == "row" else frozenset()

    def needs_transactions(self) -> str:
        """Return the option that writes transactions; "" where they are not written."""
        return "transaction_topic" if self.transaction_topic else ""

    @property
    def content_format(self) -> str:
        """Format of a record's value, a key of `headers.CONTENT_TYPES`."""
        return self.format

    def needs_direct_lane(self) -> str:
        """Return the option that only the direct lane can do, as a person writes it; "" where there is none."""
        return f'format="{self.format}"' if self.format != "json" else super().needs_direct_lane()

    def takes_numbers_alone(self) -> bool:
        """Return whether it has a format of JSON numbers."""
        return self.format == "json_schema"

    def stored(self) -> dict[str, Any]:
        """Return the options as plain JSON, those of a registry only where there is one: hashes of others stay."""
        found = super().stored()
        envelope = found.pop("envelope")
        ordered: dict[str, Any] = {}
        for name, value in found.items():
            if (name, value) not in _NEWER:
                ordered[name] = value
            if name == "topic":  # where it stood before messages had options of their own
                ordered["envelope"] = envelope
        return ordered

    def may_stop(self, pinned: SinkPlan) -> bool:  # noqa: ARG002 - a topic's age changes nothing
        """Return whether a record that is too large stops a batch."""
        return self.on_reject == "fail"

    def open(self, connections: ConnectionSource, context: FlowContext) -> Sink:
        """Resolve the connection; brokers are contacted by the first call that needs them."""
        require(self.extras(), f"sink {self.sink_name} of kind {self.kind}")
        from databus.sinks.kafka.sink import KafkaSink

        registry = connections.get(self.registry_conn_id) if self.registry_conn_id else None
        return KafkaSink(self, connections.get(self.conn_id), context, registry)

    def tracing(self, connections: ConnectionSource) -> TopicReader:
        """Return what reads single records."""
        require(self.extras(), f"sink {self.sink_name} of kind {self.kind}")
        from databus.kafka.client import ClientSettings
        from databus.sinks.kafka.tracing.topic_reader import TopicReader

        settings = ClientSettings.of(connections.get(self.conn_id), self.timeout_s)
        if self.format == "json":
            option = self.needs_direct_lane() if self.envelope == "outbox" else self.names_key_columns()
            return TopicReader(self.sink_name, settings, option="" if self.envelope == "canal" else option)
        from databus.sinks.kafka.registered.reading import JsonMessages, RegisteredMessages

        if self.format == "json_schema":
            return TopicReader(self.sink_name, settings, JsonMessages().decoded)
        registry = RegistrySettings.of(connections.get(self.registry_conn_id), self.timeout_s)
        messages = RegisteredMessages(registry, self.format)
        return TopicReader(self.sink_name, settings, messages.decoded, self.needs_direct_lane())

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return the Kafka connection, then the schema registry's where there is one."""
        registry = ((self.registry_conn_id, CONN_TYPES),) if self.registry_conn_id else ()
        return ((self.conn_id, "kafka"), *registry)

    def extras(self) -> tuple[str, ...]:
        """Return the client's, and the schema registry's where the format has one."""
        return ("kafka", "registry") if self.registry_conn_id else ("kafka",)

    def datasets(self) -> tuple[str, ...]:
        """Return the topic template, and the topic of transactions where there is one."""
        return (self.topic, self.transaction_topic) if self.transaction_topic else (self.topic,)

    def output_of(self, table: TableSchema, route: str, flow: str) -> str | None:
        """Return the topic."""
        from databus.sinks.kafka.topics.names import topic_of

        return topic_of(self.topic, table, route, flow)

    def image_fields(self, column: str) -> tuple[str, ...]:
        """Return both images' fields in the envelope that has them."""
        images = {"debezium": ("before", "after"), "maxwell": ("data", "old"), "canal": ("data", "old")}
        return tuple(f"{image}.{column}" for image in images.get(self.envelope, ())) or (column,)

    def key_fields(self, column: str) -> tuple[tuple[str, str], ...]:
        """Return the member of the record's key."""
        return ((f"key.{column}", ""),)

    def beside(self, flow: str, suffix: str) -> Kafka:
        """Return a sink with the topics of `flow`, or topics whose names end in the suffix."""
        own = self.transaction_topic and self.transaction_topic.replace("{flow}", flow) + suffix
        return self.model_copy(update={"topic": self.topic.replace("{flow}", flow) + suffix, "transaction_topic": own})
