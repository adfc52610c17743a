"""Field mappings made of a table's columns: the types that take every value as documents carry it.

Whole numbers are `long` whatever their size, and FLOAT is `double`: a column that an ALTER widens must not have its
rows refused, and both servers store numbers by their value. DECIMAL is exact: `long` or `scaled_float` where a double
holds all its digits, else `keyword`. Date fields resolve milliseconds; `_source` has all digits.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.sinks.elasticsearch.client import reason_of

log = logging.getLogger(__name__)

LONGEST_KEYWORD = 8_191
"""Characters of a keyword at most: 32,766 bytes of UTF-8, the longest term of both servers."""

SHORTEST_KEYWORD = 256
"""Characters that a text's `keyword` takes at least: as many as that of a dynamic mapping."""

EXACT_DIGITS = 15
"""Decimal digits that a double holds exactly; a `scaled_float` computes in doubles."""

WHOLE_DIGITS = 18
"""Decimal digits that a long always holds."""

FIELDS_LIMIT = 1_000
"""Default of index.mapping.total_fields.limit of both servers."""

_LONG_BITS = 63
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_LONG = {"type": "long"}
_KEYWORD = {"type": "keyword", "ignore_above": LONGEST_KEYWORD}
_DATE = {"type": "date", "format": "strict_date_optional_time", "ignore_malformed": True}
"""A date that no calendar has comes as text, and flagged: the document is taken, the field is not searched."""

_DOUBLE = {"type": "double"}
_BINARY = {"type": "binary"}
_PLAIN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"), _LONG),
    **dict.fromkeys(("float", "double"), _DOUBLE),
    **dict.fromkeys(("date", "datetime", "timestamp"), _DATE),
    **dict.fromkeys(("enum", "set", "time", "uuid", "inet4", "inet6"), _KEYWORD),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _BINARY),
    **dict.fromkeys(("geometry", "vector"), _BINARY),
    "json": {"type": "text"},
}
_REPLACED = frozenset({"unsigned_long", "scaled_float"})
_UNKNOWN_TYPE = re.compile(r"(?:mapper type|handler for type) \[(\w+)\]")
_TYPE = re.compile(r"(?P<name>[a-z0-9]+)(?:\((?P<digits>\d+)(?:,(?P<scale>\d+))?\))?(?P<unsigned> unsigned)?")


def field_of(column: ColumnSchema) -> dict[str, Any] | None:
    """Return the mapping of a column, None where the server is to decide.

    Args:
        column: a column as documents carry it; its type in the source's words.
    """
    found = _TYPE.match(column.type)
    if found is None:
        return None
    name, digits, scale = found["name"], int(found["digits"] or 0), int(found["scale"] or 0)
    if (name == "bigint" and found["unsigned"]) or (name == "bit" and digits > _LONG_BITS):
        return {"type": "unsigned_long"}
    if name == "decimal":
        return _decimal(digits, scale)
    if name in _TEXTS:
        longest = min(max(digits, SHORTEST_KEYWORD), LONGEST_KEYWORD)
        return {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": longest}}}
    return _PLAIN.get(name)


def _decimal(digits: int, scale: int) -> dict[str, Any]:
    if not scale and digits <= WHOLE_DIGITS:
        return _LONG
    if digits <= EXACT_DIGITS:
        return {"type": "scaled_float", "scaling_factor": float(10**scale)}
    return _KEYWORD


def fields_of(tables: Iterable[TableSchema], mapping: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return field → mapping for the columns of tables that go to one index; of schemas of one table the last wins.

    Args:
        tables: in the order of the log.
        mapping: the flow's mapping: its fields win, and one that says `dynamic` stands as it is.
    """
    if mapping is not None and "dynamic" in mapping:
        return {}
    fields: dict[str, Any] = {}
    for table in tables:
        for column in table.columns:
            field = field_of(column) if _is_plain(column.name) else None
            if field is not None:
                fields[column.name] = field
            else:
                fields.pop(column.name, None)
    given = (mapping or {}).get("properties", {})
    return {name: given.get(name, field) for name, field in fields.items()}


def _is_plain(name: str) -> bool:
    """Return whether a column's name is a field's: dots mean objects, and a leading `_` is the servers'."""
    return "." not in name and not name.startswith("_") and name == name.strip() and bool(name)


def limit_of(fields: Mapping[str, Any]) -> dict[str, int]:
    """Return the setting that makes room for fields, none where the default has it."""
    count = sum(1 + len(field.get("fields", ())) for field in fields.values())
    return {"index.mapping.total_fields.limit": count + FIELDS_LIMIT} if count > FIELDS_LIMIT // 2 else {}


def sent(send: Callable[[Mapping[str, Any]], None], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Send fields to a server and return those that it took.

    Fields of a type that it lacks (OpenSearch before 2.8, a server without its modules) go as keywords: exact too.

    Raises:
        RequestError: the server refuses them otherwise.
    """
    from opensearchpy.exceptions import RequestError

    while True:
        try:
            send(fields)
        except RequestError as error:
            unknown = _UNKNOWN_TYPE.search(reason_of(error.info))
            lacking = {name for name, field in fields.items() if unknown and field.get("type") == unknown[1]}
            if not lacking or unknown is None or unknown[1] not in _REPLACED:
                raise
            log.info("the server knows no %s: %s are keywords", unknown[1], ", ".join(sorted(lacking)))
            fields = {name: _KEYWORD if name in lacking else field for name, field in fields.items()}
        else:
            return fields


def differs(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Return whether a field of an index takes other values than wanted."""
    if wanted.get("type") in _REPLACED and found.get("type") == "keyword":
        return False
    return any(wanted.get(name) != found.get(name) for name in ("type", "scaling_factor"))
