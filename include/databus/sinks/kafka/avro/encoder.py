"""Rows → the columns that a slot's writer takes, keys and values in Avro."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from databus.core.state.registered_schemas import RegisteredSchemas
from databus.rows.avro.form import AvroForm, avro_form
from databus.rows.image_form import FORM_KEY, ImageForm
from databus.sinks.kafka.avro.envelope import envelopes
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.encoding import CANONICAL_KEY


@dataclass(frozen=True)
class AvroEncoder(KafkaEncoder):
    """Encodes the rows of one plan in Avro.

    A key's partition is that of its canonical JSON, as in format="json": it stays where the key's schema gets
    another id.
    """

    def image_form(self, columns: Mapping[int, Sequence[tuple[str, str]]], marks: Any | None) -> ImageForm:
        """Return the form in which it takes images; see `ImageEncoder`."""
        return avro_form(AvroForm(columns, self._schemas), marks)

    def values(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the records' values."""
        return envelopes(rows, self.plan, self._schemas)

    def keys(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the records' keys, and the canonical ones beside them."""
        return {"key": rows[FORM_KEY], CANONICAL_KEY: rows["key"]}

    @property
    def _schemas(self) -> Mapping[int, RegisteredSchemas]:
        return self.plan.sinks[self.spec.sink_name].schemas
