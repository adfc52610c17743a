"""Encoder of formats with a registry: what they have in common, and that of JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from databus.core.errors.source import DecodeError
from databus.core.state.plan import Plan
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.formats.row_runs import by_table
from databus.rows.image_form import FORM_KEY, ImageForm
from databus.rows.json_schema.form import JsonSchemaForm
from databus.rows.wire.shapes import wire_head
from databus.sinks import envelope_text
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.encoding import CANONICAL_KEY
from databus.sinks.kafka.spec import Kafka

_MOST_ROWS = 2**31


@dataclass(frozen=True)
class RegisteredEncoder(KafkaEncoder):
    """Encodes the rows of one plan in a format with a registry.

    A key's partition is that of its canonical JSON, as in format="json": it stays where the key's schema gets
    another id.
    """

    @property
    def schemas(self) -> Mapping[int, RegisteredSchemas]:
        """Schemas that the plan has pinned, by schema_id."""
        return self.plan.sinks[self.spec.sink_name].schemas

    def _keys(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the records' keys, and the canonical ones beside them."""
        return {"key": rows[FORM_KEY], CANONICAL_KEY: rows["key"]}


@dataclass(frozen=True)
class JsonSchemaEncoder(RegisteredEncoder):
    """Encodes the rows of one plan in JSON that a registered schema describes."""

    def image_form(self, columns: Mapping[int, Sequence[tuple[str, str]]], marks: Any | None) -> ImageForm:
        """Return the form in which it takes images; see `ImageEncoder`."""
        return JsonSchemaForm(columns, self.schemas).image_form(marks)

    def _values(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the records' values."""
        require_small_ordinals(rows, "JSON Schema")
        heads = {number: wire_head(found.value) for number, found in self.schemas.items()}
        return envelope_text.debezium(rows, self.plan, by_table(rows, heads, {}))


def require_small_ordinals(rows: pa.RecordBatch, form: str) -> None:
    """Refuse rows whose number in their transaction is no int.

    Raises:
        DecodeError: there is one.
    """
    if rows.num_rows and pc.max(rows["ordinal"]).as_py() >= _MOST_ROWS:
        raise DecodeError(f"a transaction has more than 2^31 row changes, and `source.row` is an int in {form}")


def encoder_of(spec: Kafka, plan: Plan) -> RegisteredEncoder:
    """Return the encoder of a plan; loads that of its format alone."""
    if spec.format == "avro":
        from databus.sinks.kafka.registered.avro import AvroEncoder

        return AvroEncoder(spec, plan)
    if spec.format == "protobuf":
        from databus.sinks.kafka.registered.protobuf import ProtobufEncoder

        return ProtobufEncoder(spec, plan)
    return JsonSchemaEncoder(spec, plan)
