"""Image form whose images and keys are Protobuf, of the tables whose schemas and field numbers a plan has pinned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import TableSchema
from databus.rows.image_form import JSON_CHANGES, ImageForm
from databus.rows.json_images import ImageColumns
from databus.rows.protobuf.schemas import shape_in
from databus.rows.protobuf.types import FLAGS_NUMBER, ProtobufField, delimited, tag
from databus.rows.violations import ImageMarks
from databus.rows.wire import images
from databus.rows.wire.columns import column_writer
from databus.rows.wire.images import WireImages, flags_of, images_of
from databus.rows.wire.kernels import Framing, framing
from databus.rows.wire.keys import WireKeyEncoder, wire_key_encoder
from databus.rows.wire.shapes import TableShape, require_registered, wire_head

FIRST_MESSAGE = b"\0"
"""Indexes of the message type behind the schema's id: the first of the file (Confluent's wire format)."""


@dataclass(frozen=True)
class ProtobufForm:
    """Writes images and keys of a plan's tables; picklable.

    Attributes:
        columns: see `ImageColumns`.
        schemas: schema_id → what is registered of the tables wanted; images of others are left empty.
    """

    columns: ImageColumns
    schemas: Mapping[int, RegisteredSchemas]

    def images(self, batch: TableBatch) -> WireImages:
        """Write all images of a batch, as transforms leave it.

        Raises:
            DecodeError: a column holds what its registered type cannot.
        """
        registered = self.schemas.get(batch.schema.schema_id)
        if registered is None:
            return images.no_images(batch, b"")
        return encode(batch, self._shape(batch.schema).chosen, registered.numbers)

    def keys(self, batch: TableBatch, shown: TableSchema) -> WireKeyEncoder | None:
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
        shape = self._shape(shown, schema)
        require_registered(schema, registered, "Protobuf", shape.form)
        framed = [(field, field_framing(field, n)) for field, n in zip(shape.key, registered.key_numbers, strict=True)]
        return wire_key_encoder(batch, framed, wire_head(registered.key) + FIRST_MESSAGE, "Protobuf")

    def _shape(self, shown: TableSchema, stored: TableSchema | None = None) -> TableShape[ProtobufField]:
        wanted = self.columns.get(shown.schema_id)
        return shape_in(shown, None if wanted is None else tuple(wanted), stored)


def protobuf_form(form: ProtobufForm, marks: ImageMarks | None = None) -> ImageForm:
    """Return the form whose images are the message `Value`, with its length in front; nothing where there is none.

    The column `FORM_KEY` has the keys, with their heads.
    """
    return ImageForm(pa.binary(), form.images, _no_images, JSON_CHANGES, marks, keys=form.keys)


def encode(batch: TableBatch, chosen: Sequence[tuple[int, ProtobufField]], numbers: Sequence[int]) -> WireImages:
    """Write all images of a batch, each with its length in front; fields are in the order of their numbers.

    Args:
        batch: row changes of one table.
        chosen: number of the column at the source, and its field, of each column of the message.
        numbers: number of each field.

    Raises:
        DecodeError: a column holds what its field's type cannot.
    """
    ordered = sorted(zip(numbers, chosen, strict=True))
    columns = [
        (column_writer(batch, column, field, "Protobuf"), field_framing(field, number))
        for number, (column, field) in ordered
    ]
    return images_of(columns, flags_of(batch, [(column, field.name) for column, field in chosen], _map), None, b"")


def field_framing(field: ProtobufField, number: int) -> Framing:
    """Return the framing of a field: its tag in front of a value, nothing where there is none."""
    return framing(tag(number, field.wire_type), b"", zigzag=False)


def _no_images(count: int) -> pa.BinaryArray:
    return pa.repeat(pa.scalar(b"", pa.binary()), count)


def _map(told: Mapping[str, str]) -> bytes:
    """Return a map of texts: an entry each, a message of key and value."""
    return b"".join(
        delimited(FLAGS_NUMBER, delimited(1, name.encode()) + delimited(2, reason.encode()))
        for name, reason in told.items()
    )
