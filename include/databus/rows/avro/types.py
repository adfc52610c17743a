"""Avro types of a table's columns, and the names that Avro allows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from databus.core.errors.sink import SinkSettingError
from databus.core.tables.schemas import ColumnSchema

FLAGS = "__flags"
"""Last field of a Value record: what stands for values that it has not; null without any."""

PLAIN = {
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "binary": "bytes",
}
"""Spark's type of a column → how its values are written in both formats, Avro and Protobuf; all else is text."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True)
class AvroField:
    """Avro field of a column.

    Attributes:
        name: its name in the record.
        column: the column's name in the row.
        type: the Avro type as a schema has it: a name, or an object with a logical type.
    """

    name: str
    column: str
    type: Any

    @property
    def base(self) -> str:
        """Name of the primitive type beneath."""
        return self.type if isinstance(self.type, str) else str(self.type["type"])

    @property
    def scale(self) -> int | None:
        """Digits behind the point of a decimal; None for any other type."""
        return None if isinstance(self.type, str) else int(self.type.get("scale", 0))


def avro_name(text: str) -> str:
    """Return a name that Avro allows: other characters than letters, digits and _ become "_"; it begins with no digit.

    So does Debezium with field.name.adjustment.mode=avro.
    """
    name = _NOT_ALLOWED.sub("_", text)
    return f"_{name}" if not name or name[0].isdigit() else name


def avro_namespace(topic: str) -> str:
    """Return a topic's name as a namespace, each part between its points a name."""
    return ".".join(avro_name(part) for part in topic.split("."))


def avro_type(column: ColumnSchema) -> Any:
    """Return the Avro type of a column.

    Numbers and bytes are what they are, a decimal or an unsigned 64-bit integer is bytes of the logical type decimal.
    All else is text: characters, ENUM, SET, JSON, and dates and times in ISO 8601 as in JSON (ADR 2).
    """
    if found := _DECIMAL.fullmatch(column.spark_type):
        return {"type": "bytes", "logicalType": "decimal", "precision": int(found[1]), "scale": int(found[2])}
    return PLAIN.get(column.spark_type, "string")


def avro_fields(table: str, columns: Sequence[ColumnSchema], *, key: bool = False) -> tuple[AvroField, ...]:
    """Return the fields of a table's columns, in their order.

    Args:
        table: `database.table`, for errors.
        columns: named as in the row.
        key: whether they are those of its primary key, which no transform renames.

    Raises:
        SinkSettingError: two columns have one name in Avro, or one has that of `FLAGS`.
    """
    names = field_names(table, [column.name for column in columns], "Avro", key=key)
    return tuple(AvroField(name, column.name, avro_type(column)) for name, column in zip(names, columns, strict=True))


def field_names(table: str, columns: Sequence[str], form: str, *, key: bool = False) -> tuple[str, ...]:
    """Return the name of each column's field.

    Args:
        table: `database.table`, for errors.
        columns: their names in the row.
        form: what the format is called.
        key: whether they are those of its primary key, which no transform renames.

    Raises:
        SinkSettingError: two columns have one name, or one has that of `FLAGS`.
    """
    found: dict[str, str] = {}
    for column in columns:
        name = avro_name(column)
        if name == FLAGS or name in found:
            other = f"column {found[name]!r} too" if name in found else "a field of databus"
            raise SinkSettingError(
                f"column {column!r} of {table} is {name!r} in {form}, and so is {other}",
                hint=f"The record key is always the source's primary key: rename {column!r} of {table} there, or "
                'take format="json".'
                if key
                else f"Put RenameColumns or DropColumns for {column!r} of {table} into the flow's transforms.",
                code="sink_avro_name",
            )
        found[name] = column
    return tuple(found)
