"""Protobuf types of a table's columns, their names, and the numbers that they keep for good."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from databus.core.tables.schemas import ColumnSchema
from databus.rows.avro.types import PLAIN, field_names

FLAGS_NUMBER = 2**29 - 1
"""Number of the field `__flags`: the highest there is, which no column gets."""

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
"""Wire types (Protocol Buffers, "Encoding")."""

_RESERVED = range(19_000, 20_000)
"""Numbers that Protobuf keeps for itself."""

_SCALARS = {
    "int": ("int32", VARINT),
    "long": ("int64", VARINT),
    "unsigned": ("uint64", VARINT),
    "float": ("float", FIXED32),
    "double": ("double", FIXED64),
    "boolean": ("bool", VARINT),
    "string": ("string", DELIMITED),
    "bytes": ("bytes", DELIMITED),
}
_UNSIGNED = re.compile(r"(bigint|serial)\b.*\bunsigned|bit\b")


@dataclass(frozen=True)
class ProtobufField:
    """Protobuf field of a column.

    Attributes:
        name: its name in the message.
        column: the column's name in the row.
        base: how its values are written.
    """

    name: str
    column: str
    base: str

    @property
    def type(self) -> str:
        """Type as a .proto text has it."""
        return _SCALARS[self.base][0]

    @property
    def scale(self) -> int | None:
        """None: a decimal is text."""
        return None

    @property
    def wire_type(self) -> int:
        """Wire type of its tag."""
        return _SCALARS[self.base][1]


def varint(value: int) -> bytes:
    """Return a varint of a number that is not negative."""
    found = bytearray()
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def tag(number: int, wire_type: int) -> bytes:
    """Return what stands in front of a field's value."""
    return varint(number << 3 | wire_type)


def delimited(number: int, data: bytes) -> bytes:
    """Return a field whose value has its length in front."""
    return tag(number, DELIMITED) + varint(len(data)) + data


def protobuf_base(column: ColumnSchema) -> str:
    """Return how a column's values are written.

    Numbers and bytes are what they are, an unsigned 64-bit integer is uint64. All else is text: decimals with all
    digits of their scale, characters, ENUM, SET, JSON, and dates and times in ISO 8601 as in JSON (ADR 2).
    """
    if column.spark_type == "decimal(20,0)" and _UNSIGNED.match(column.type):
        return "unsigned"
    return PLAIN.get(column.spark_type, "string")


def protobuf_fields(table: str, columns: Sequence[ColumnSchema], *, key: bool = False) -> tuple[ProtobufField, ...]:
    """Return the fields of a table's columns, in their order; names are those of Avro.

    Args:
        table: `database.table`, for errors.
        columns: named as in the row.
        key: whether they are those of its primary key, which no transform renames.

    Raises:
        SinkSettingError: two columns have one name in Protobuf, or one has that of `__flags`.
    """
    names = field_names(table, [column.name for column in columns], "Protobuf", key=key)
    return tuple(
        ProtobufField(name, column.name, protobuf_base(column)) for name, column in zip(names, columns, strict=True)
    )


def numbered(fields: Sequence[ProtobufField], former: Mapping[str, int]) -> tuple[int, ...]:
    """Return the number of each field: the one it had, or the next that no field ever had.

    Args:
        fields: of the columns, in their order.
        former: name → number of the fields of the subject's newest schema.
    """
    free = max(former.values(), default=0) + 1
    found = []
    for field in fields:
        number = former.get(field.name)
        if number is None:
            free = _RESERVED.stop if free in _RESERVED else free
            number, free = free, free + 1
        found.append(number)
    return tuple(found)
