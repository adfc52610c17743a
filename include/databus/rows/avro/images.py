"""Row images as Avro: the union of null and the table's Value record, whose last field says what the image has not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.rows.avro.types import AvroField
from databus.rows.wire.columns import column_writer
from databus.rows.wire.images import WireImages, flags_of, images_of
from databus.rows.wire.kernels import framing

NULL_BRANCH, VALUE_BRANCH = b"\0", b"\2"
"""Branches of a union of null and a type."""

ALONE = framing(b"", b"", zigzag=True)
IN_UNION = framing(VALUE_BRANCH, NULL_BRANCH, zigzag=True)
"""Form of a value: alone, or with the branch of a union with null in front."""


def encode(batch: TableBatch, chosen: Sequence[tuple[int, AvroField]]) -> WireImages:
    """Write all images of a batch, each with the branch of its union in front.

    Args:
        batch: row changes of one table.
        chosen: number of the column at the source, and its field, of each column of the record.

    Raises:
        DecodeError: a column holds what its field's type cannot.
    """
    columns = [(column_writer(batch, column, field, "Avro"), IN_UNION) for column, field in chosen]
    tails = flags_of(batch, [(column, field.name) for column, field in chosen], _map)
    return images_of(columns, tails, VALUE_BRANCH, NULL_BRANCH)


def no_images(count: int) -> pa.BinaryArray:
    """Return so many nulls of the union."""
    return pa.repeat(pa.scalar(NULL_BRANCH, pa.binary()), count)


def _map(told: Mapping[str, str]) -> bytes:
    """Return the union of null and a map of texts; an empty map is null."""
    if not told:
        return NULL_BRANCH
    parts = [VALUE_BRANCH, varint(len(told))]
    for name, reason in told.items():
        parts += [text_bytes(name), text_bytes(reason)]
    return b"".join([*parts, b"\0"])


def varint(value: int) -> bytes:
    """Return a zigzag varint of 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    found = bytearray()
    while rest >= 128:
        found.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*found, rest])


def text_bytes(text: str) -> bytes:
    """Return a text with its length in front."""
    data = text.encode()
    return varint(len(data)) + data
