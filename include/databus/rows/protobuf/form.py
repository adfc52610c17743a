"""Image form whose images and keys are Protobuf, of the tables whose schemas and field numbers a plan has pinned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import TableSchema
from databus.rows.protobuf.schemas import shape_in
from databus.rows.protobuf.types import FLAGS_NUMBER, ProtobufField, delimited, tag
from databus.rows.wire import images
from databus.rows.wire.columns import column_writer
from databus.rows.wire.images import WireImages, flags_of, images_of
from databus.rows.wire.kernels import Framing, framing
from databus.rows.wire.keys import WireKeyEncoder, wire_key_encoder
from databus.rows.wire.registered_form import RegisteredForm
from databus.rows.wire.shapes import TableShape, Wanted, wire_head

FIRST_MESSAGE = b"\0"
"""Indexes of the message type behind the schema's id: the first of the file (Confluent's wire format)."""


@dataclass(frozen=True)
class ProtobufForm(RegisteredForm[ProtobufField]):
    """Form whose images are the message `Value`, with its length in front; nothing where there is none."""

    format: ClassVar[str] = "Protobuf"

    @staticmethod
    def _shape_in(shown: TableSchema, wanted: Wanted, stored: TableSchema | None) -> TableShape[ProtobufField]:
        return shape_in(shown, wanted, stored)

    def _encode(self, batch: TableBatch, shape: TableShape[ProtobufField], registered: RegisteredSchemas) -> WireImages:
        return encode(batch, shape.chosen, registered.numbers)

    def _key_encoder(
        self, batch: TableBatch, shape: TableShape[ProtobufField], registered: RegisteredSchemas
    ) -> WireKeyEncoder | None:
        framed = [(field, field_framing(field, n)) for field, n in zip(shape.key, registered.key_numbers, strict=True)]
        return wire_key_encoder(batch, framed, wire_head(registered.key) + FIRST_MESSAGE, self.format)

    def _empty(self, batch: TableBatch) -> WireImages:
        return images.no_images(batch, b"")

    @staticmethod
    def _nulls(count: int) -> pa.Array:
        return pa.repeat(pa.scalar(b"", pa.binary()), count)


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


def _map(told: Mapping[str, str]) -> bytes:
    """Return a map of texts: an entry each, a message of key and value."""
    return b"".join(
        delimited(FLAGS_NUMBER, delimited(1, name.encode()) + delimited(2, reason.encode()))
        for name, reason in told.items()
    )
