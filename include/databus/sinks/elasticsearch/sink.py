"""The open sink: probes the server, makes indices, turns rows into documents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from databus.core.connections import Connection
from databus.core.errors.sink import SinkSettingError, SinkUnavailableError
from databus.core.events import Op
from databus.core.findings import Finding
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets
from databus.core.protocols.optional_sink import DirectEncoder
from databus.core.state.amendments import SinkEffect
from databus.core.state.evidence import CommittedState, Evidence
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.tables.key_forms import key_forms
from databus.core.tables.schemas import TableSchema
from databus.sinks.elasticsearch.clearing import ids_meet, lists_tables
from databus.sinks.elasticsearch.client import connect, silent_refusal, where
from databus.sinks.elasticsearch.documents import ids_may_meet, row_keys, table_of
from databus.sinks.elasticsearch.evidence import evidence
from databus.sinks.elasticsearch.held_documents import HeldDocuments, expected
from databus.sinks.elasticsearch.index_names import create_body, index_name
from databus.sinks.elasticsearch.indices import Indices
from databus.sinks.elasticsearch.key_names import moves_of, place_of_first
from databus.sinks.elasticsearch.keys import IndexKeys
from databus.sinks.elasticsearch.mapping import fields_of
from databus.sinks.elasticsearch.preflight import index_pattern, probe
from databus.sinks.elasticsearch.refusals import NeverWritten, Stopping
from databus.sinks.elasticsearch.spec import Elasticsearch
from databus.sinks.elasticsearch.writer import ElasticsearchWriter, no_primary_key
from databus.sinks.envelope import with_flags

if TYPE_CHECKING:
    import pyarrow as pa
    from opensearchpy import OpenSearch


class ElasticsearchSink:
    """An OpenSearch or Elasticsearch cluster that a flow writes to.

    Args:
        spec: the sink's spec.
        connection: the resolved connection.
        flow: flow name.
    """

    def __init__(self, spec: Elasticsearch, connection: Connection, flow: str) -> None:
        self.spec = spec
        self._connection = connection
        self._flow = flow
        self._open: OpenSearch | None = None
        self._told: set[tuple[str, str]] = set()
        self._unlisted: set[tuple[str, str]] = set()
        self._never_written: NeverWritten | None = None

    def accepts(self) -> frozenset[str]:
        """Return the operations it looks at; of statements only those that empty a table do something."""
        rows = frozenset({Op.CREATE, Op.UPDATE, Op.DELETE, Op.READ})
        return rows if self.spec.on_truncate == "ignore" else rows | {Op.TRUNCATE, Op.DDL}

    def preflight(self) -> Sequence[Finding]:
        """Probe reachability, rights, version, and the settings of the indices that are there; changes nothing."""
        found = probe(self._client(), self.spec, where(self._connection), index_pattern(self.spec.index, self._flow))
        if any(f.code == SinkUnavailableError.code for f in found):
            cause = silent_refusal(self._connection)
            if cause is not None:
                return [Finding.of(where(self._connection), cause)]
        return found

    def prepare(
        self,
        plan: SourcePlan,
        outputs: Sequence[tuple[TableSchema, str]],
    ) -> SinkPlan:
        """Make the missing indices and the fields of new columns, pin slots and which indices are new; idempotent.

        Args:
            plan: the range to be written. One with statements has one writer: a TRUNCATE stands between the rows
                before and after it, and nothing orders several writers.
            outputs: (table, route) pairs that this sink takes.

        Raises:
            SinkSettingError: a table has no primary key, its ids may meet another table's, or an index cannot be made.
            SinkUnavailableError: no answer.
            SinkAccessError: rights are missing.
        """
        spec = self.spec
        body = create_body(spec.mapping, spec.settings, spec.gc_deletes, soft_deletes=spec.soft_deletes)
        typing = spec.types == "source" and isinstance(plan.range.end, BinlogOffset)
        indices = self._indices(body, typing=typing)
        targets: dict[str, list[TableSchema]] = {}
        for table, route in outputs:
            if not table.primary_key:
                raise no_primary_key(spec.sink_name, table.full_name)
            if spec.ids == "table_key" and ids_may_meet(table.full_name):
                raise ids_meet(spec.sink_name, table.full_name)
            index = index_name(spec.index, flow=self._flow, database=table.database, table=table.table, route=route)
            targets.setdefault(index, []).append(table)
        source = {table.schema_id: table for table in plan.tables}
        for index, tables in targets.items():
            fields = fields_of(tables, spec.mapping) if typing else {}
            for table in tables:
                written = key_forms(source.get(table.schema_id, table)), place_of_first(plan, table)
                indices.ensure(index, table.full_name, partial(tuple, table.primary_key), fields, written)
            self._require_keys(indices, index, tables, plan)
            indices.extend(index, fields, self._told)
        slots = 1 if plan.statements and spec.on_truncate != "ignore" else spec.slots
        first = self._never_written_of(indices, list(targets)) if spec.on_reject is None else ()
        return SinkPlan(slots=slots, prev=(0,) * slots, first=first)

    def follow_columns(self, plan: SourcePlan, tables: Sequence[tuple[TableSchema, str]]) -> None:
        """Write down in their indices what statements make of the key columns of tables; see `FollowingSink`."""
        if self.spec.ids is not None:
            return  # such an index keeps no key
        indices = self._indices({}, typing=False)
        keys = IndexKeys(indices, self.spec.on_key_change, plan.range)
        for table, route in tables:
            with suppress(SinkSettingError):  # rows of such a table are refused
                index = index_name(
                    self.spec.index, flow=self._flow, database=table.database, table=table.table, route=route
                )
                keys.note(index, table.full_name, moves_of(plan, table.full_name))

    def wrote_any_of(self, plan: Plan) -> bool:  # noqa: ARG002 - the protocol's signature
        """Return False: there are no markers, writing any part of a plan again is harmless."""
        return False

    def evidence(self, ledger: CommittedState) -> Evidence:
        """Compare the indices with what the ledger says, as far as they can show it."""
        return evidence(self._client(), self.spec.sink_name, where(self._connection), ledger)

    def expected(self, encoded: pa.RecordBatch) -> pa.RecordBatch:
        """Return the documents that encoded rows leave; see `ValidatedSink.expected`."""
        return expected(self.spec, self._flow, encoded)

    def held(self, outputs: Sequence[str]) -> HeldDocuments:
        """Open the documents of indices; see `ValidatedSink.held`."""
        held = HeldDocuments(self._connection, outputs, self.spec.soft_deletes)
        try:
            held.require_whole()
        except BaseException:
            held.close()
            raise
        return held

    def row_keys(self, table: TableSchema, keys: Collection[bytes]) -> list[bytes] | None:
        """Return the key JSON of those ids that a row of a table may have; see `documents.row_keys`."""
        return row_keys(table, (key.decode() for key in keys), shared=self.spec.ids == "table_key")

    def table_of(self, key: bytes, tables: Sequence[str]) -> str | None:
        """Return of which of some tables an id is; None where ids do not name their table."""
        return table_of(key.decode(), tables) if self.spec.ids == "table_key" else None

    def abandon(self, plan: Plan) -> Mapping[int, str]:  # noqa: ARG002 - the protocol's signature
        """Return nothing: there are no markers to close."""
        return {}

    def fence(self, plan: Plan) -> None:  # noqa: ARG002 - the protocol's signature
        """Return None: there are no markers, so no writer to keep from them."""
        return

    def effect_of(self, outputs: Sequence[str], *, back: bool) -> SinkEffect:  # noqa: ARG002 - versions decide
        """Say what a move of the checkpoint does to the indices."""
        if not back:
            text = "documents keep the state before the range passed over, until a later row of their key comes"
            return SinkEffect(self.spec.sink_name, text)
        text = "idempotent by version: a document changes only where it is not as new already"
        if not self.spec.soft_deletes:
            text += (
                f"; rows deleted more than gc_deletes ({self.spec.gc_deletes} at creation) ago come back until their "
                "delete is replayed"
            )
        return SinkEffect(self.spec.sink_name, text)

    def encode(self, rows: Any, plan: Plan) -> Any:
        """Return the DataFrame with `slot`, `document` (after-image and flags as JSON) and what the writer needs.

        Ids and versions are made by the writer, from `key`, `log` and `place`, of the rows that it sends.
        """
        from pyspark.sql import functions as F  # noqa: N812 - its usual name

        from databus.sinks.elasticsearch.direct import PASSED_ON

        slots = plan.sinks[self.spec.sink_name].slots
        return rows.select(
            (F.col("key_hash") % F.lit(slots)).cast("int").alias("slot"),
            *PASSED_ON,
            with_flags(F.to_json(F.col("after"))).alias("document"),
        )

    def encoder(self, plan: Plan) -> DirectEncoder:
        """Return the picklable encoder of the direct lane."""
        from databus.sinks.elasticsearch.direct import ElasticsearchEncoder

        return ElasticsearchEncoder(plan.sinks[self.spec.sink_name].slots)

    def writer(self, plan: Plan) -> ElasticsearchWriter:
        """Return the picklable writer of a plan."""
        again = plan.mode == "replay" or self.spec.profile != "exactly_once"
        pinned = plan.sinks[self.spec.sink_name]
        # A row that is replayed from quarantine is held back again.
        stops = plan.flow == self._flow and self.spec.may_stop(pinned)
        stopping = Stopping(pinned.first, self.spec.on_reject == "fail") if stops else Stopping()
        return ElasticsearchWriter(
            self.spec, self._connection, self._flow, plan.batch, plan.range.end, again, pinned.slots, plan.closed_until,
            stopping,
        )  # fmt: skip

    def close(self) -> None:
        """Close the client; safe to call twice."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _require_keys(self, indices: Indices, index: str, tables: Sequence[TableSchema], plan: SourcePlan) -> None:
        """Compare the keys of tables, as the source has their columns, with those of the documents.

        A topic has records with a key and without one: two keys at any time, and no statement changes them.
        """
        if isinstance(plan.range.end, KafkaOffsets):
            return
        IndexKeys(indices, self.spec.on_key_change, plan.range).compare(index, plan, tables)

    def _indices(self, body: Mapping[str, Any], *, typing: bool) -> Indices:
        spec = self.spec
        return Indices(
            self._client(),
            where(self._connection),
            body,
            spec.ids is not None,
            typing,
            listing=lists_tables(spec.index, spec.ids),
            unlisted=self._unlisted,
        )

    def _never_written_of(self, indices: Indices, names: Sequence[str]) -> tuple[str, ...]:
        if self._never_written is None:
            self._never_written = NeverWritten(self._client(), where(self._connection))
        return self._never_written.among(names, indices.made)

    def _client(self) -> OpenSearch:
        if self._open is None:
            self._open = connect(self._connection)
        return self._open
