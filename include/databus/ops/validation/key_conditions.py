"""Conditions in SQL for the rows of some keys, so that a table is not read whole for a few of them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping

from databus.core.flow import Flow
from databus.core.tables.schemas import TableSchema

MOST_KEYS = 2_000
"""More keys of a table are not named one by one: all of it is read."""

_WHOLE = re.compile(r"(tiny|small|medium|big)?int\b")
_TEXT = re.compile(r"(var)?char\b")


def conditions_for(
    flow: Flow, tables: Collection[str], keys: Collection[bytes], schemas: Mapping[str, TableSchema]
) -> dict[str, str]:
    """Return `database.table` → a condition that all its rows of some keys meet; "" for all rows.

    Rows of other keys may meet it, too. Keys are named where they say the values of the table's key as they are: whole
    numbers and texts, which no transform of the flow can have changed.

    Args:
        flow: the flow.
        tables: tables that may have the keys.
        keys: keys as records have them, JSON.
        schemas: tables as they were read.
    """
    if len(keys) > MOST_KEYS or not _keeps_keys(flow):
        return dict.fromkeys(tables, "")
    return {name: _condition(schemas.get(name), keys) for name in tables}


def sample_condition(key: Collection[str], share: int, chosen: int) -> str:
    """Return a condition that one of `share` rows of a table meets, the same rows whenever it is asked."""
    columns = ", ".join(f"HEX({_quoted(name)})" for name in key)
    return f"CRC32(CONCAT_WS('|', {columns})) MOD {share} = {chosen}"


def _keeps_keys(flow: Flow) -> bool:
    """Tell whether all transforms are of databus: these change no value of a key."""
    return all(type(spec).__module__.startswith("databus.") for spec in flow.transforms)


def _condition(schema: TableSchema | None, keys: Collection[bytes]) -> str:
    if schema is None or not schema.primary_key:
        return ""
    types = {column.name: column.type for column in schema.columns}
    rows = []
    for key in keys:
        try:
            values = json.loads(key)
        except ValueError:
            return ""
        if not isinstance(values, dict) or set(values) != set(schema.primary_key):
            return ""
        literals = [_literal(types[name], values[name]) for name in schema.primary_key]
        if not all(literals):
            return ""
        rows.append(literals)
    columns = [_quoted(name) for name in schema.primary_key]
    if len(columns) == 1:
        return f"{columns[0]} IN ({', '.join(literals[0] for literals in rows)})"
    each = (" AND ".join(f"{name} = {value}" for name, value in zip(columns, row, strict=True)) for row in rows)
    return " OR ".join(f"({one})" for one in each)


def _literal(declared: str, value: object) -> str:
    """Return a value of a key in SQL; "" where it is not sure to say what the table holds."""
    if isinstance(value, int) and not isinstance(value, bool) and _WHOLE.match(declared):
        return str(value)
    if isinstance(value, str) and _TEXT.match(declared):
        return f"_utf8mb4 X'{value.encode().hex()}'" if value else "''"
    return ""


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
