"""Image form whose images and keys are Avro: a union of null and a record, without the wire format's head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import TableSchema
from databus.rows.avro.images import ALONE, NULL_BRANCH, encode, no_images
from databus.rows.avro.schemas import shape_in
from databus.rows.avro.types import AvroField
from databus.rows.wire import images
from databus.rows.wire.images import WireImages
from databus.rows.wire.keys import WireKeyEncoder, wire_key_encoder
from databus.rows.wire.registered_form import RegisteredForm
from databus.rows.wire.shapes import TableShape, Wanted, wire_head


@dataclass(frozen=True)
class AvroForm(RegisteredForm[AvroField]):
    """Form in Avro; where there is no image stands the union's null."""

    format: ClassVar[str] = "Avro"

    @staticmethod
    def _shape_in(shown: TableSchema, wanted: Wanted, stored: TableSchema | None) -> TableShape[AvroField]:
        return shape_in(shown, wanted, stored)

    def _encode(self, batch: TableBatch, shape: TableShape[AvroField], _: RegisteredSchemas) -> WireImages:
        return encode(batch, shape.chosen)

    def _key_encoder(
        self, batch: TableBatch, shape: TableShape[AvroField], registered: RegisteredSchemas
    ) -> WireKeyEncoder | None:
        return wire_key_encoder(batch, [(field, ALONE) for field in shape.key], wire_head(registered.key), self.format)

    def _empty(self, batch: TableBatch) -> WireImages:
        return images.no_images(batch, NULL_BRANCH)

    @staticmethod
    def _nulls(count: int) -> pa.Array:
        return no_images(count)
