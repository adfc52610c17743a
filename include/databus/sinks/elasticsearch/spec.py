"""Sink spec `elasticsearch`: documents in OpenSearch or Elasticsearch that follow the rows of the source."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from databus.core.connections import ConnectionSource
from databus.core.flow_specs import FlowContext, OnReject, Profile, SinkSpec
from databus.core.packages import require

if TYPE_CHECKING:
    from databus.core.protocols.sink import Sink
    from databus.core.state.plan import SinkPlan
    from databus.core.tables.schemas import TableSchema
    from databus.sinks.elasticsearch.tracing import DocumentReader

INDEX_PLACEHOLDERS = frozenset({"database", "table", "route", "flow"})
"""Names that may stand in braces in an index template."""

OnKeyChange = Literal["fail", "ignore"]
"""Ways to go on where a table's primary key is made of other columns than the ids of its documents."""

FAST_BULK_BYTES = 20 << 20
"""Size of a request of profile throughput_first; the servers take 100 MB (http.max_content_length)."""


class Elasticsearch(SinkSpec):
    """Elasticsearch or OpenSearch sink: one document per row, kept by its primary key; OpenSearch 2, Elasticsearch 8.

    Each write carries an external version made of the row's place in the log, so replays and late writers change
    nothing: the newest row wins. Tables without a primary key are refused. Rows must carry full images
    (binlog_row_image=FULL): a document is always written whole; see `partial`.

    Attributes:
        conn_id: connection of type elasticsearch or opensearch, e.g. "opensearch_default".
        index: name of the index, lower-cased; may hold {database}, {table}, {route} and {flow}. Default
            "{database}.{table}".
        types: what the fields of an index are made of. "source" (default): a binlog table's columns, as the transforms
            leave them: BIGINT UNSIGNED unsigned_long; other whole numbers long; FLOAT, DOUBLE double; DECIMAL up to 15
            digits scaled_float, without fraction up to 18 long, else keyword; DATE, DATETIME, TIMESTAMP date
            (milliseconds; an invalid date is in the document, not in the field); TIME, ENUM, SET keyword; text text
            with keyword; BINARY, BLOB binary; JSON text. New columns are added before their first document; fields that
            are there stay. "dynamic", and any other source: the server decides by the first value.
        mapping: mappings an index is created with; its fields win over `types`, and one that says `dynamic` stands as
            it is. Existing indices keep their fields. E.g. {"properties": {"id": {"type": "unsigned_long"}}}; default
            none.
        settings: settings an index is created with, besides `gc_deletes`, e.g. {"number_of_shards": 3}; default
            none.
        gc_deletes: how long the server remembers the version of a deleted document (index.gc_deletes at creation). A
            replay that comes later than this could bring a deleted document back; see `soft_deletes`. E.g. "30d";
            default "7d".
        soft_deletes: keep a deleted row as a document {key…, "__deleted": true}, whose version never expires.
            Default False.
        ids: "key" makes `_id` from the key alone, "table_key" puts `database.table` before it, for indices that several
            tables share; it refuses a table with a colon in its name. Unset is "key", and two tables that meet in one
            index are refused rather than overwritten. Default None, unset.
        partial: what to do with an insert or update that lacks columns, because its client logs with another
            binlog_row_image than FULL: "quarantine" (default) holds it back with the columns' names, and its document
            stays as it is until the next whole row of its key; "fail" stops the flow. A document is never written
            without them. Of an update that changes the primary key the delete is held back too: a replay takes the old
            document away once there is a newer one under the new key.
        on_truncate: what a TRUNCATE, DROP TABLE or CREATE OR REPLACE TABLE does. "delete" (default) takes all documents
            of the table away that are older than the statement (marks them, with `soft_deletes`); its batch has one
            writer. An index that several tables share needs ids="table_key" for it. "ignore" leaves every document,
            "fail" stops the flow. DROP DATABASE, RENAME TABLE and statements on partitions leave the documents in any
            case.
        on_key_change: what to do where a table's primary key is made of other columns than the ids of its documents
            (ALTER TABLE … DROP PRIMARY KEY, ADD PRIMARY KEY (…)), also under their names (CHANGE id old …, CHANGE b id
            …), or its values are written in another way (DECIMAL(10,0) → (10,2): "1.00" for "1"), in an index of its
            own (`ids` unset). "fail" (default) stops the flow before the first such row; "ignore" goes on: documents
            under former ids stay, and no later row of theirs finds them. Columns that only get another name change no
            id, and pass.
        on_reject: what becomes of a batch with a row that the server refuses (its mapping does not take a value, it is
            too large). "quarantine" holds the row back; "fail" stops the flow before other sinks get the batch. Unset
            (default) is "fail" for the first batch of an index that has never held a document, for its mapping is
            likely to be wrong then, else "quarantine". It may be changed while a batch is stopped, which then goes on.
            Where the flow is changed otherwise meanwhile, the batch that takes its place is still the first, also
            behind a gap that `on_gap` or a person passes over. Rows that are not sent at all are `partial`'s.
        refresh: the bulk API's refresh: False (default), True or "wait_for".
        bulk_bytes: size of a bulk request in bytes, e.g. 10 << 20; default 5 MiB.
        max_retries: further attempts for items and requests that the server turned away for now, e.g. 3; default 6.
        slots: number of parallel writers, e.g. 4; the rows of a key stay in one. Default 1.
        profile: "exactly_once" (default): the newest state of each key; a document that is newer than its batch is an
            error that stops the flow. "at_least_once": the same versions, but newer documents are left as they are
            without an error, for rows that are moved again over an index that is there. "throughput_first": that, in
            requests of at least 20 MB (see `bulk_bytes`) that wait for no refresh; `refresh` is refused with it.
    """

    kind: ClassVar[str] = "elasticsearch"
    direct: ClassVar[bool] = True
    newest_by_place: ClassVar[bool] = True
    needs_key: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True
    without_effect: ClassVar[frozenset[str]] = frozenset(
        {"partial", "refresh", "bulk_bytes", "max_retries", "on_reject", "on_key_change"}
    )

    conn_id: str
    index: str = "{database}.{table}"
    types: Literal["source", "dynamic"] = "source"
    mapping: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] | None = None
    gc_deletes: str = Field("7d", pattern=r"^\d+(ms|s|m|h|d)$")
    soft_deletes: bool = False
    ids: Literal["key", "table_key"] | None = None
    partial: Literal["quarantine", "fail"] = "quarantine"
    refresh: bool | Literal["wait_for"] = False
    bulk_bytes: int = Field(5 << 20, gt=0)
    max_retries: int = Field(6, ge=0)
    slots: int = Field(1, ge=1, le=64)
    on_truncate: Literal["delete", "ignore", "fail"] = "delete"
    on_key_change: OnKeyChange = "fail"
    on_reject: OnReject | None = None
    profile: Profile = "exactly_once"

    @model_validator(mode="after")
    def _profile_makes_sense(self) -> Elasticsearch:
        if self.profile == "throughput_first" and self.refresh:
            raise ValueError('refresh makes each request wait, which profile="throughput_first" is to avoid')
        return self

    @property
    def request_bytes(self) -> int:
        """Size of a bulk request under the profile."""
        return max(self.bulk_bytes, FAST_BULK_BYTES) if self.profile == "throughput_first" else self.bulk_bytes

    @field_validator("index")
    @classmethod
    def _template_is_known(cls, value: str) -> str:
        fields = [name for _, name, _, _ in Formatter().parse(value) if name is not None]
        unknown = sorted(set(fields) - INDEX_PLACEHOLDERS)
        if unknown:
            known = ", ".join("{" + name + "}" for name in sorted(INDEX_PLACEHOLDERS))
            raise ValueError(f"an index template knows {known}, not {{{unknown[0]}}}")
        return value

    def reserved_columns(self) -> frozenset[str]:
        """Return the fields of documents and mappings that are no columns, and those that the servers refuse."""
        from databus.sinks.elasticsearch.documents import DELETED_FIELD, METADATA_FIELDS
        from databus.sinks.elasticsearch.index_tables import EMPTIED, WRITERS
        from databus.sinks.envelope import FLAGS_FIELD

        soft = (DELETED_FIELD,) if self.soft_deletes else ()
        shared = (WRITERS, EMPTIED) if self.ids is not None else ()
        return METADATA_FIELDS.union((FLAGS_FIELD,), soft, shared)

    def may_stop(self, pinned: SinkPlan) -> bool:
        """Return whether a row that the server refuses stops a batch."""
        return self.on_reject == "fail" or (self.on_reject is None and bool(pinned.first))

    def open(self, connections: ConnectionSource, context: FlowContext) -> Sink:
        """Return the open sink; the client connects with the first request."""
        require(self.extras(), f"sink {self.sink_name} of kind {self.kind}")
        from databus.sinks.elasticsearch.sink import ElasticsearchSink

        return ElasticsearchSink(self, connections.get(self.conn_id), context.flow)

    def tracing(self, connections: ConnectionSource) -> DocumentReader:
        """Return what reads single documents."""
        require(self.extras(), f"sink {self.sink_name} of kind {self.kind}")
        from databus.sinks.elasticsearch.tracing import DocumentReader

        return DocumentReader(self.sink_name, connections.get(self.conn_id), shared=self.ids == "table_key")

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return the connection; a connection of type opensearch serves as well."""
        return ((self.conn_id, "elasticsearch|opensearch"),)

    def extras(self) -> tuple[str, ...]:
        """Return the client's."""
        return ("elasticsearch",)

    def datasets(self) -> tuple[str, ...]:
        """Return the index template."""
        return (self.index,)

    def output_of(self, table: TableSchema, route: str, flow: str) -> str | None:
        """Return the index."""
        from databus.sinks.elasticsearch.index_names import index_name

        return index_name(self.index, flow=flow, database=table.database, table=table.table, route=route)

    def key_fields(self, column: str) -> tuple[tuple[str, str], ...]:  # noqa: ARG002 - all of them make the id
        """Return the document's id, which is text made of the key."""
        return (("_id", "document id"),)

    def beside(self, flow: str, suffix: str) -> Elasticsearch:
        """Return a sink with the indices of `flow`, or indices whose names end in the suffix."""
        return self.model_copy(update={"index": self.index.replace("{flow}", flow) + suffix})

    def label(self) -> str:
        """Return the kind and the index template."""
        return f"{self.kind}: {self.index}"
