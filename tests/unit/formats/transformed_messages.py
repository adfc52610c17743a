"""Messages of decoded rows behind a flow's transforms, in every form, as a task of the direct lane makes them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from databus import Flow, Kafka, Mock
from databus.binlog.decoding.table_batch import TableBatch, TableEvent
from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.flow_specs import CheckSpec, TransformSpec
from databus.core.state.plan import SinkPlan, SourcePlan
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import TableSchema
from databus.rows.emit import emit, emit_events
from databus.rows.image_form import ImageForm
from databus.runtime.direct.lane import SinkForm, is_direct
from databus.runtime.direct.required import encoder_of, require_lane
from databus.runtime.direct.row_checks import image_marks
from databus.runtime.direct.row_counts import Taker
from databus.runtime.direct.task import DirectTask
from databus.runtime.tables.column_lineage import written_tables
from databus.runtime.tables.sink_views import seen_by
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.registered.descriptions import FORMATS, Description
from databus.sinks.kafka.registered.encoder import encoder_of as registered_encoder
from databus.sources.split_rows import SplitRows
from databus.testing.table_batches import transactions
from tests.reference.made_messages import SERVER, plan

REGISTERED = ("avro", "json_schema", "protobuf")
"""Forms with a registry, by the name of their format."""
FORMS: Mapping[str, Mapping[str, Any]] = {
    "iso": {},
    "row": {"envelope": "row"},
    "debezium": {"types": "debezium"},
    "debezium with schemas": {"types": "debezium", "schemas": True, "decimal": "string"},
    "debezium with doubles": {"types": "debezium", "decimal": "double", "binary": "hex"},
    "maxwell": {"envelope": "maxwell"},
    "canal": {"envelope": "canal"},
    **{form: {"format": form, "registry_conn_id": "r"} for form in REGISTERED},
}


@dataclass
class Made:
    """What a task made of a batch.

    Attributes:
        records: the writer's columns of each row, in order.
        held: rows that were held back.
        counts: what the task counted.
        refused: rows that the sink's own transforms hold back.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    held: list[RejectedRow] = field(default_factory=list)
    counts: Mapping[str, int] = field(default_factory=dict)
    refused: list[RejectedRow] = field(default_factory=list)

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        """Keep the rows, as a writer."""
        self.records = [row for encoded in rows for row in encoded.to_pylist()]
        return WriteReceipt("kafka", slot, 1, len(self.records))


@dataclass
class _OneBatch(SplitRows):
    batch: TableBatch
    events: Sequence[TableEvent]

    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        log = transactions(2)
        yield from emit(self.batch, log, SERVER, form)
        yield from emit_events(self.events, log, SERVER, form)


def made(
    batch: TableBatch,
    transforms: Sequence[TransformSpec],
    form: str,
    checks: Sequence[CheckSpec] = (),
    events: Sequence[TableEvent] = (),
    own: Sequence[TransformSpec] = (),
) -> Made:
    """Return what a direct task makes of a batch of one table, and of statements behind it; `own` are the sink's."""
    sink = Kafka(conn_id="k", transforms=tuple(own), **FORMS[form])
    flow = Flow(name="f", source=Mock(rows=1), transforms=tuple(transforms), checks=tuple(checks), sinks=(sink,))
    planned = SourcePlan(plan(SinkPlan()).range, (batch.schema,), 3, 100)
    view, of_sink = seen_by(flow, sink), SinkForm.of(flow, sink, planned)
    assert is_direct(flow, planned)
    require_lane(flow, planned)
    topic = f"cdc.{batch.schema.full_name}"
    schemas = {batch.schema.schema_id: pinned(described(form, view, batch.schema), topic)} if form in REGISTERED else {}
    whole = plan(SinkPlan(partitions={topic: 3}, schemas=schemas))
    opened: Any = SimpleNamespace(
        encoder=lambda p: (
            registered_encoder(sink, p) if form in REGISTERED else KafkaEncoder(sink, p, sink.message_format())
        )
    )
    found = Made()
    task = DirectTask(
        flow,
        planned,
        (_OneBatch(batch, events),),
        of_sink.columns,
        image_marks(flow, planned),
        (Taker(("*",), frozenset("cudr" if form in REGISTERED else "cudrt"), bool(own)),),
        0,
        True,
        pickle.loads(pickle.dumps(encoder_of(opened, whole, view, planned))),
        found,
        program=pickle.loads(pickle.dumps(of_sink.program)),
        flow_form=of_sink.of_flow,
    )
    _, seen = task.write(0)
    found.held, found.counts, found.refused = seen.held, dict(seen.read), seen.refusals
    return found


def described(form: str, flow: Flow, stored: TableSchema) -> Description:
    """Return what a registration finds for a table behind a flow's transforms."""
    (written,) = written_tables(flow, (stored,))
    return FORMATS[form](stored, written, f"cdc.{stored.full_name}", "mysql", lambda _: None)


def pinned(told: Description, topic: str) -> RegisteredSchemas:
    """Return what a plan pins of it."""
    return RegisteredSchemas(topic, 7, told.form, 5, told.numbers, told.key_numbers)


def registered_schemas(form: str, transforms: Sequence[TransformSpec], stored: TableSchema) -> Description:
    """Return what is registered for a table behind transforms."""
    flow = Flow(name="f", source=Mock(rows=1), transforms=tuple(transforms), sinks=(Kafka(conn_id="k"),))
    return described(form, flow, stored)
