"""Debezium's transaction metadata (`provide.transaction.metadata`): messages of where transactions begin and end.

The shape is that of Debezium 3.5 (documentation of its MySQL connector, "Transaction metadata"), with `quarantined`
added where rows of the transaction are held back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from databus.core.events import END
from databus.core.transactions import TransactionBoundary
from databus.formats.debezium_schema import text_of

QUARANTINED = "quarantined"
"""Member of an end: rows of the transaction that checks hold back; absent without any."""

_NAME = "io.debezium.connector.common.TransactionMetadata"


def key_text(boundary: TransactionBoundary, *, schemas: bool = False) -> bytes:
    """Return the key of a boundary's message, JSON."""
    return _opened({"id": boundary.id}, KEY_SCHEMA if schemas else None)


def value_text(boundary: TransactionBoundary, *, schemas: bool = False) -> bytes:
    """Return its value, JSON.

    Args:
        boundary: the boundary.
        schemas: whether Kafka Connect's schema is sent around it.
    """
    ends = boundary.status == END
    counts = [{"data_collection": name, "event_count": count} for name, count in boundary.collections]
    members: dict[str, Any] = {
        "status": boundary.status,
        "id": boundary.id,
        "event_count": boundary.total if ends else None,
        "data_collections": counts if ends else None,
        "ts_ms": boundary.ts_ms,
    }
    if boundary.quarantined:
        members[QUARANTINED] = boundary.quarantined
    return _opened(members, VALUE_SCHEMA if schemas else None)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _opened(members: Mapping[str, Any], schema: bytes | None) -> bytes:
    text = _encode(members).encode()
    return text if schema is None else b'{"schema":' + schema + b',"payload":' + text + b"}"


def _field(kind: str, field: str, *, optional: bool = False) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": field}


def _struct(name: str, *fields: dict[str, Any], optional: bool = False) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields), "optional": optional, "name": name, "version": 1}


_COLLECTION = _struct(
    "event.collection", _field("string", "data_collection"), _field("int64", "event_count"), optional=True
)

KEY_SCHEMA = text_of(_struct(f"{_NAME}Key", _field("string", "id")))
VALUE_SCHEMA = text_of(
    _struct(
        f"{_NAME}Value",
        _field("string", "status"),
        _field("string", "id"),
        _field("int64", "event_count", optional=True),
        {"type": "array", "items": _COLLECTION, "optional": True, "field": "data_collections"},
        _field("int64", "ts_ms"),
        _field("int64", QUARANTINED, optional=True),
    )
)
"""Kafka Connect's schemas of key and value, JSON."""
