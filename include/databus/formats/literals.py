"""Literals of values that several formats write, and what a column's type says of them."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from databus.core.tables.schemas import ColumnSchema
from databus.rows.json_text import json_literals

_BIT = re.compile(r"bit\((\d+)\)")
_SRID_BYTES = 4


def base_type(column: ColumnSchema) -> str:
    """Return the first word of a column's type: "decimal(12,2) unsigned" → "decimal"."""
    return re.split(r"[( ]", column.type, maxsplit=1)[0]


def bit_length(column: ColumnSchema) -> int:
    """Return the bits of a BIT column."""
    found = _BIT.match(column.type)
    return int(found[1]) if found else 1


def spaced(literals: pa.StringArray, kind: pa.DataType) -> pa.StringArray:
    """Return ISO literals of a DATETIME or TIMESTAMP with a blank for "T" and without "Z", as SQL has them.

    Args:
        literals: quoted, null for NULL; those of other columns come back as they are.
        kind: Arrow type of the column.
    """
    if not pa.types.is_timestamp(kind):
        return literals
    return pc.replace_substring(pc.replace_substring(literals, "T", " "), "Z", "")


def hexadecimal(array: pa.Array) -> pa.StringArray:
    """Return bytes as quoted hexadecimal digits."""
    return pa.array([None if value is None else f'"{value.hex()}"' for value in array.to_pylist()], pa.string())


def geometries(array: pa.Array) -> pa.StringArray:
    """Return geometries (SRID in 4 bytes and WKB) as objects of the two."""
    made: list[str | None] = []
    for value in array.to_pylist():
        if value is None:
            made.append(None)
            continue
        srid = int.from_bytes(value[:_SRID_BYTES], "little")
        wkb = base64.b64encode(value[_SRID_BYTES:]).decode("ascii")
        made.append(f'{{"wkb":"{wkb}","srid":{srid or "null"}}}')
    return pa.array(made, pa.string())


_BYTES = ColumnSchema("", "blob", "binary")


def base64_text(array: pa.BinaryArray) -> pa.StringArray:
    """Return bytes as quoted base64."""
    return json_literals(array, _BYTES)


class JsonNumber(str):
    """Number of a JSON text, with its digits."""

    __slots__ = ()


def loads_written(text: str | bytes) -> Any:
    """Return a JSON text's value, with its numbers as `JsonNumber`.

    Raises:
        ValueError: it is no JSON.
    """
    return json.loads(text, parse_int=JsonNumber, parse_float=JsonNumber)


def written(value: Any) -> str:
    """Return the text of such a value, with the blanks that PostgreSQL's jsonb and MySQL's JSON have."""
    if isinstance(value, JsonNumber):
        return str(value)
    if isinstance(value, dict):
        members = (f"{json.dumps(name, ensure_ascii=False)}: {written(each)}" for name, each in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
