"""Image form of JSON that a registered schema describes, with keys in Confluent's wire format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors.source import DecodeError
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows import json_images
from databus.rows.columns import Bytes
from databus.rows.image_form import JSON_CHANGES, ImageForm
from databus.rows.json_images import ImageColumns, JsonImages
from databus.rows.json_schema.schemas import is_text, shape_in
from databus.rows.keys import KeyEncoder, Rows, key_encoder
from databus.rows.violations import ImageMarks
from databus.rows.wire.keys import refuse_undecodable_keys
from databus.rows.wire.shapes import TableShape, require_registered, wire_head

_NOTHING: Bytes = np.zeros(0, np.uint8)


@dataclass(frozen=True)
class _FramedKeys(KeyEncoder):
    """Encoder of canonical keys with a head in front."""

    head: bytes = b""

    def keys(self, first: Rows, other: Rows) -> pa.BinaryArray:
        """Return each change's key; see `KeyEncoder`."""
        joined: pa.BinaryArray = pc.binary_join_element_wise(
            pa.scalar(self.head, pa.binary()), super().keys(first, other), pa.scalar(b"", pa.binary())
        )
        return joined


@dataclass(frozen=True)
class JsonSchemaForm:
    """Writes images and keys of a plan's tables; picklable.

    Attributes:
        columns: see `ImageColumns`.
        schemas: schema_id → what is registered of the tables wanted; images of others are left empty.
    """

    columns: ImageColumns
    schemas: Mapping[int, RegisteredSchemas]

    def images(self, batch: TableBatch) -> JsonImages:
        """Write all images of a batch, as transforms leave it.

        Raises:
            DecodeError: it holds a value that is none of its column's type, or no number of JSON.
        """
        if batch.schema.schema_id not in self.schemas:
            return JsonImages(np.zeros(batch.images.num_rows + 1, np.int64), _NOTHING)
        for place, column in self._shape(batch.schema).chosen:
            _refuse_others(batch, column, place)
        return json_images.encode(batch, self.columns)

    def keys(self, batch: TableBatch, shown: TableSchema) -> KeyEncoder | None:
        """Return the encoder of a batch's keys, None of a table that is not wanted or has none.

        Args:
            batch: the changes as they were decoded.
            shown: the table as transforms leave it.

        Raises:
            DecodeError: it has other columns than are registered.
        """
        schema = batch.schema
        registered = self.schemas.get(schema.schema_id)
        if registered is None:
            return None
        require_registered(schema, registered, "JSON", self._shape(shown, schema).form)
        encoder = key_encoder(batch)
        if encoder is None:
            return None
        place = {column.name: number for number, column in enumerate(schema.columns)}
        refuse_undecodable_keys(batch, [place[name] for name in encoder.names], "JSON Schema")
        head = wire_head(registered.key)
        return _FramedKeys(encoder.table, encoder.names, encoder.literals, encoder.carried, head)

    def _shape(self, shown: TableSchema, stored: TableSchema | None = None) -> TableShape[ColumnSchema]:
        wanted = self.columns.get(shown.schema_id)
        return shape_in(shown, None if wanted is None else tuple(wanted), stored)


def json_schema_form(form: JsonSchemaForm, marks: ImageMarks | None = None) -> ImageForm:
    """Return the form whose images are JSON objects; the column `FORM_KEY` has the keys, with their heads."""
    return ImageForm(
        pa.binary(), form.images, lambda count: pa.nulls(count, pa.binary()), JSON_CHANGES, marks, keys=form.keys
    )


def _refuse_others(batch: TableBatch, column: ColumnSchema, place: int) -> None:
    named = f"column {batch.schema.columns[place].name} of {batch.schema.full_name}"
    if batch.exceptions.get(place) and not is_text(column):
        raise DecodeError(
            f"{named} has a value that is no {column.type}, and its registered JSON Schema has no place for it"
        )
    values = batch.images.column(place)
    if pa.types.is_floating(values.type) and pc.all(pc.is_finite(values)).as_py() is False:
        found = values.filter(pc.invert(pc.is_finite(values)))[0]
        raise DecodeError(
            f"{named} is {found}, and JSON has no such number: its registered JSON Schema has no place for it",
            hint="A computed column has such values alone: let its expression give NULL for them, or give the sink "
            "another format.",
        )
