"""Reader of records: the forms that databus writes, told apart by their members (docs/reference/messages.md)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from databus.consumer.change import Change, Message, Row
from databus.consumer.json_text import parsed
from databus.consumer.schema_values import image_schema, values_of
from databus.core.errors.consumer import MessageFormatError

if TYPE_CHECKING:
    from databus.consumer.registered import RegisteredValues

_MAXWELL = {"insert": "c", "update": "u", "delete": "d", "bootstrap-insert": "r"}
_CANAL = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}
_ADDED = frozenset({"__op", "__deleted", "__ts_ms", "__event_id", "__flags"})
"""Members of a plain row that are no columns."""
_WIRE = 0
"""First byte of a value in the wire format of a schema registry."""


class TransactionMark(NamedTuple):
    """BEGIN or END of a transaction of the source.

    Attributes:
        ends: whether it is END.
        id: of the transaction.
        event_count: of END, its records in the other topics; -1 of BEGIN.
        quarantined: of END, rows of the transaction that checks hold back.
        ts_ms: commit time.
        message: the record.
    """

    ends: bool
    id: str
    event_count: int
    quarantined: int
    ts_ms: int | None
    message: Message


def read(message: Message, registered: RegisteredValues | None = None) -> Change | TransactionMark | None:
    """Return what a record says; None of a tombstone.

    Args:
        message: the record.
        registered: reads values in the wire format of a schema registry; None where there is none.

    Raises:
        MessageFormatError: it is in no known form.
        DatabusError: the registry does not answer, refuses, or is none.
    """
    value = message.value()
    if value is None:
        return None
    framed = value[:1] == b"\0"
    if framed and registered is None:
        _refuse(message, 'it is in the wire format of a schema registry: name that with registry="…"')
    try:
        document = registered.document(value) if framed and registered is not None else parsed(value)
    except (ValueError, RecursionError) as error:
        _refuse(message, str(error) if framed else "its value is no JSON")
    if not isinstance(document, dict):
        _refuse(message, "its value is no object")
    try:
        found = _read(document, message)
        if framed and registered is not None and isinstance(found, Change):
            _take_key(found, message, registered)
        return found
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        _refuse(message, f"a member is not as its form has it ({type(error).__name__}: {str(error)[:100]})")


def _take_key(change: Change, message: Message, registered: RegisteredValues) -> None:
    if not change.event_id.startswith(f"{message.topic()}:"):
        change.form = "iso"  # databus's own: its values are those of its JSON
    if (key := message.key()) is not None and key[:1] == b"\0":
        change.set_key(registered.document(key))


def _read(document: dict[str, Any], message: Message) -> Change | TransactionMark | None:
    schema: Mapping[str, Any] | None = None
    if "payload" in document and "schema" in document and len(document) == 2:
        schema, document = document["schema"], document["payload"]
    if "source" in document and "op" in document:
        return _debezium(document, schema, message)
    if "__op" in document:
        return _plain(document, message)
    if "status" in document and "event_count" in document:
        return _boundary(document, message)
    if "data" in document and "type" in document and "database" in document:
        return _canal(document, message) if "mysqlType" in document else _maxwell(document, message)
    return _refuse(message, f"its members are those of no known form: {', '.join(sorted(document)[:8])}")


def _debezium(document: dict[str, Any], schema: Mapping[str, Any] | None, message: Message) -> Change:
    source = document["source"]
    before, after = document.get("before"), document.get("after")
    if schema is not None:
        before = values_of(before, image_schema(schema, "before"))
        after = values_of(after, image_schema(schema, "after"))
    change = Change(message, document["op"], f"{source['db']}.{source['table']}", before, after)
    if schema is not None:
        change.form = "schema"
    elif "thread" in source:
        change.form = "debezium"
    change.event_id = source.get("event_id") or _place(message)
    change.ts_ms = source.get("ts_ms")
    change.gtid = source.get("gtid") or ""
    if source.get("file"):
        change.position = f"{source['file']}:{source['pos']}"
    change.flags = source.get("flags") or ()
    change.query = source.get("query") or ""
    if (block := document.get("transaction")) is not None:
        change.transaction, change.order = block["id"], block["total_order"]
    return change


def _plain(document: dict[str, Any], message: Message) -> Change:
    told = headers(message)
    row: Row = {name: value for name, value in document.items() if name not in _ADDED}
    before, after = (row, None) if document["__deleted"] else (None, row)
    table = told.get("table") or told.get("ce_subject") or ""
    change = Change(message, document["__op"], table, before, after)
    change.event_id = document.get("__event_id") or told.get("event_id") or _place(message)
    change.ts_ms = document.get("__ts_ms")
    change.gtid, change.position = told.get("gtid", ""), told.get("position", "")
    change.flags = document.get("__flags") or ()
    change.transaction, change.order = told.get("transaction", ""), int(told.get("total_order", 0))
    return change


def _maxwell(document: dict[str, Any], message: Message) -> Change:
    op, data = _MAXWELL[document["type"]], document["data"]
    keys = document.get("primary_key_columns") or ()
    before, after = _images(op, data, document.get("old"), keys)
    change = Change(message, op, f"{document['database']}.{document['table']}", before, after)
    change.form, change.event_id = "maxwell", document.get("event_id") or _place(message)
    change.ts_ms = document["ts"] * 1000
    change.gtid, change.position = document.get("gtid") or "", document.get("position") or ""
    change.flags = document.get("flags") or ()
    return change


def _canal(document: dict[str, Any], message: Message) -> Change:
    (data,) = document["data"]
    types = document["mysqlType"]
    op = _CANAL[document["type"]]
    old = _canal_values(document["old"][0], types) if document.get("old") else None
    before, after = _images(op, _canal_values(data, types), old, document.get("pkNames") or ())
    change = Change(message, op, f"{document['database']}.{document['table']}", before, after)
    change.form, change.event_id = "canal", document.get("eventId") or _place(message)
    change.ts_ms = document["es"]
    change.flags = document.get("flags") or ()
    return change


def _images(op: str, data: Row, old: Row | None, keys: Sequence[str]) -> tuple[Row | None, Row | None]:
    """Return before and after; before an update is known what changed, and the key, which an update never changes."""
    if op == "d":
        return data, None
    if op == "u":
        return {**{name: data[name] for name in keys if name in data}, **(old or {})}, data
    return None, data


_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"})
_FRACTIONS = frozenset({"decimal", "float", "double"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry"})


def _canal_values(row: Row, types: Mapping[str, str]) -> Row:
    return {name: _canal_value(value, types.get(name, "")) for name, value in row.items()}


def _canal_value(value: Any, kind: str) -> Any:
    base = kind.split("(", 1)[0].split(" ", 1)[0]
    if value is None:
        return None
    if base in _INTEGERS:
        return int(value)
    if base in _FRACTIONS:
        return Decimal(value)
    return value.encode("latin-1") if base in _BYTES else value


def _boundary(document: dict[str, Any], message: Message) -> TransactionMark:
    ends = document["status"] == "END"
    count = document["event_count"] if ends else -1
    return TransactionMark(ends, document["id"], count, document.get("quarantined", 0), document.get("ts_ms"), message)


def headers(message: Message) -> dict[str, str]:
    """Return the headers of a record as text; base64 of bytes that are none."""
    return {name: _text(value) for name, value in message.headers() or () if value is not None}


def _text(value: bytes | str) -> str:
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def _place(message: Message) -> str:
    return f"{message.topic()}:{message.partition()}:{message.offset()}"


def _refuse(message: Message, why: str) -> NoReturn:
    raise MessageFormatError(f"{_place(message)} cannot be read as a change: {why}") from None
