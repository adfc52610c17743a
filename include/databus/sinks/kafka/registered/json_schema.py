"""Rows → the columns that a slot's writer takes, keys and values in JSON behind the id of their schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from databus.formats.row_runs import by_table
from databus.rows.image_form import ImageForm
from databus.rows.json_schema.form import JsonSchemaForm, json_schema_form
from databus.rows.wire.shapes import wire_head
from databus.sinks import envelope_text
from databus.sinks.kafka.registered.encoder import RegisteredEncoder, require_small_ordinals


@dataclass(frozen=True)
class JsonSchemaEncoder(RegisteredEncoder):
    """Encodes the rows of one plan in JSON that a registered schema describes."""

    def image_form(self, columns: Mapping[int, Sequence[tuple[str, str]]], marks: Any | None) -> ImageForm:
        """Return the form in which it takes images; see `ImageEncoder`."""
        return json_schema_form(JsonSchemaForm(columns, self.schemas), marks)

    def _values(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the records' values."""
        require_small_ordinals(rows, "JSON Schema")
        heads = {number: wire_head(found.value) for number, found in self.schemas.items()}
        return envelope_text.debezium(rows, self.plan, by_table(rows, heads, {}))
