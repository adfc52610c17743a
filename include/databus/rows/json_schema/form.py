"""Image form of JSON that a registered schema describes, with keys in Confluent's wire format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors.source import DecodeError
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows import json_images
from databus.rows.columns import Bytes
from databus.rows.json_images import JsonImages
from databus.rows.json_schema.schemas import is_text, shape_in
from databus.rows.keys import KeyEncoder, Rows, key_encoder
from databus.rows.wire.keys import refuse_undecodable_keys
from databus.rows.wire.registered_form import RegisteredForm
from databus.rows.wire.shapes import TableShape, Wanted, wire_head

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
class JsonSchemaForm(RegisteredForm[ColumnSchema]):
    """Form whose images are JSON objects."""

    format: ClassVar[str] = "JSON Schema"
    held_unwritten: ClassVar[bool] = True

    @staticmethod
    def _shape_in(shown: TableSchema, wanted: Wanted, stored: TableSchema | None) -> TableShape[ColumnSchema]:
        return shape_in(shown, wanted, stored)

    def _encode(self, batch: TableBatch, shape: TableShape[ColumnSchema], _: RegisteredSchemas) -> JsonImages:
        for place, column in shape.chosen:
            _refuse_others(batch, column, place)
        return json_images.encode(batch, self.columns)

    def _key_encoder(
        self, batch: TableBatch, _: TableShape[ColumnSchema], registered: RegisteredSchemas
    ) -> KeyEncoder | None:
        encoder = key_encoder(batch)
        if encoder is None:
            return None
        place = {column.name: number for number, column in enumerate(batch.schema.columns)}
        refuse_undecodable_keys(batch, [place[name] for name in encoder.names], self.format)
        head = wire_head(registered.key)
        return _FramedKeys(encoder.table, encoder.names, encoder.literals, encoder.carried, head)

    def _empty(self, batch: TableBatch) -> JsonImages:
        return JsonImages(np.zeros(batch.images.num_rows + 1, np.int64), _NOTHING)

    @staticmethod
    def _nulls(count: int) -> pa.Array:
        return pa.nulls(count, pa.binary())


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
