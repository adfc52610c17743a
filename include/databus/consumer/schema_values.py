"""Values of Kafka Connect's JSON with schemas around them, as Python's own types.

Logical types by their names: Kafka Connect's Decimal (JsonConverter), Debezium's `io.debezium.time.*` and
`io.debezium.data.*` (documentation of its MySQL connector 3.5, "Data type mappings").
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

Convert = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a DATETIME has no zone
_FIRST_DAY = date(1970, 1, 1)


def decimal_of(text: str, scale: int) -> Decimal:
    """Return a decimal from base64 of its unscaled integer's bytes, the highest first."""
    number = int.from_bytes(base64.b64decode(text), "big", signed=True)
    sign, digits = (1, -number) if number < 0 else (0, number)
    return Decimal((sign, tuple(map(int, str(digits))), -scale))


def values_of(struct: Mapping[str, Any] | None, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the members of a struct in the types that its schema says; None of a null.

    Args:
        struct: members, as JSON has them.
        schema: Kafka Connect's schema of it.
    """
    if struct is None:
        return None
    converts = _converts(_frozen(schema))
    return {
        name: value if value is None or (convert := converts.get(name)) is None else convert(value)
        for name, value in struct.items()
    }


def image_schema(schema: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Return the schema of a field of an envelope; that of an empty struct where it has none."""
    return next((each for each in schema.get("fields", ()) if each.get("field") == field), {"fields": []})


Fields = tuple[tuple[str, str, str, int], ...]


def _frozen(schema: Mapping[str, Any]) -> Fields:
    return tuple(
        (
            field["field"],
            field.get("type", ""),
            field.get("name") or "",
            int((field.get("parameters") or {}).get("scale", 0)),
        )
        for field in schema.get("fields", ())
    )


@lru_cache(1000)
def _converts(fields: Fields) -> dict[str, Convert]:
    found: dict[str, Convert] = {}
    for field, kind, name, scale in fields:
        if name == "org.apache.kafka.connect.data.Decimal":
            found[field] = partial(decimal_of, scale=scale)
        elif name in _NAMED:
            found[field] = _NAMED[name]
        elif kind == "bytes":
            found[field] = base64.b64decode
    return found


def _days(number: int) -> date | int:
    try:
        return _FIRST_DAY + timedelta(days=number)
    except OverflowError:
        return number


def _since(unit: str) -> Convert:
    def convert(number: int) -> Any:
        try:
            return _EPOCH + timedelta(**{unit: number})
        except OverflowError:
            return number

    return convert


_NAMED: Mapping[str, Convert] = {
    "io.debezium.time.Date": _days,
    "io.debezium.time.Timestamp": _since("milliseconds"),
    "io.debezium.time.MicroTimestamp": _since("microseconds"),
    "io.debezium.time.ZonedTimestamp": datetime.fromisoformat,
    "io.debezium.time.MicroTime": lambda number: timedelta(microseconds=number),
    "io.debezium.time.Time": lambda number: timedelta(milliseconds=number),
    "org.apache.kafka.connect.data.Date": _days,
    "org.apache.kafka.connect.data.Timestamp": _since("milliseconds"),
    "io.debezium.data.Bits": base64.b64decode,
}
