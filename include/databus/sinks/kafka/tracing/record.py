"""Traced record: the change it carries, and a hash by which its copies on other clusters are known."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Message

from databus.core.trace import Change, ChangeSelector, Sighting, log_number, of_event_id
from databus.rows.avro.types import avro_name
from databus.rows.raw_records import CLAIM, ORIGIN


def sighting_of(message: Message, sink: str, site: str) -> Sighting:
    """Return what a record shows.

    Args:
        message: the record.
        sink: sink name.
        site: connection of the cluster.
    """
    headers = _headers(message)
    change = _of_headers(headers).plus(_of_value(message.value()))
    key = message.key()
    if key is not None:
        change = change.plus(Change(key=plain_key(key)))
    if (stamp := headers.get("ts_ms", "")).isdecimal():
        change = change.plus(Change(ts_ms=int(stamp)))
    kind, at_ms = message.timestamp()
    place = f"{message.topic()}:{message.partition()}:{message.offset()}"
    seen_at = at_ms if kind else None
    tombstone = message.value() is None
    return Sighting(
        sink,
        "record",
        place,
        change,
        seen_at,
        tombstone=tombstone,
        site=site,
        content=_content(getattr(message, "raw", message)),
    )


def text_of(value: str | bytes | None) -> str:
    """Return bytes as text, for people; "" for none."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def plain_key(key: str | bytes | None) -> str:
    """Return a record's key as one that is canonical reads: without schema, and without what Maxwell adds to it.

    Values stay as they are written.
    """
    text = text_of(key)
    if text.startswith('{"schema":{'):
        _, _, payload = text.partition(',"payload":')
        return payload[:-1] if payload.startswith("{") else text
    if not text.startswith('{"database":'):
        return text
    try:
        found = json.loads(text, parse_float=_WrittenNumber, parse_int=_WrittenNumber)
    except ValueError:
        return text
    names = list(found)
    if names[:2] != ["database", "table"] or not all(name.startswith("pk.") for name in names[2:]) or not names[2:]:
        return text
    parts = (f"{_text(name.removeprefix('pk.'))}:{_text(found[name])}" for name in names[2:])
    return f"{{{','.join(parts)}}}"


class _WrittenNumber(str):
    """Number as it is written."""

    __slots__ = ()


def _text(value: object) -> str:
    return (
        str(value)
        if isinstance(value, _WrittenNumber)
        else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )


def reads_alike(key: str) -> bool:
    """Return whether a canonical key reads the same in every form of messages: all of its values are integers."""
    try:
        values = json.loads(key)
    except ValueError:
        return False
    plain = isinstance(values, dict) and all(avro_name(name) == name for name in values)
    return plain and all(type(value) is int and abs(value) < _LONGEST for value in values.values())


_LONGEST = 2**63


def is_other(message: Message, selector: ChangeSelector) -> bool:
    """Return whether a record is another, by its headers and a look at its bytes: most of a batch are not."""
    told = _of_headers(_headers(message))
    if selector.event_ids:
        return bool(told.event_id) and not selector.names(told.event_id)
    if selector.gtid and told.gtid:
        return told.gtid != selector.gtid
    value = message.value()
    if selector.file and told.position is not None:
        return told.position != selector.position
    if not selector.file or value is None:
        return False
    return str(selector.position).encode() not in value


def number_in_log(change: Change) -> int | None:
    """Return a change's place in the log as a number, None where it is not known."""
    number = change.file.rpartition(".")[2]
    return log_number(int(number), change.position) if number.isdigit() and change.position is not None else None


def _headers(message: Message) -> dict[str, str]:
    return {name: text_of(value) for name, value in _pairs(message)}


def _pairs(message: Message) -> Iterable[tuple[str, str | bytes | None]]:
    pairs: Any = message.headers()
    return pairs or ()


def _content(message: Message) -> str:
    """Return a hash of what a mirror keeps: key, value (a large one by its hash) and headers but its own marks."""
    marks = {name: text_of(value) for name, value in _pairs(message) if name == CLAIM}
    value = message.value()
    held = marks.get(CLAIM) or (None if value is None else hashlib.sha256(value).hexdigest())
    parts = [
        message.key(),
        held,
        *(part for pair in _pairs(message) if pair[0] not in (CLAIM, ORIGIN) for part in pair),
    ]
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(b"-" if data is None else b"%d:%b" % (len(data), data))
    return found.hexdigest()


def _of_headers(headers: Mapping[str, str]) -> Change:
    """Return what a record's headers say of its change, those by choice too."""
    found = of_event_id(headers.get("event_id", ""))
    return found.plus(_of_place(headers.get("position"))) if found.event_id else found


def _of_place(place: object) -> Change:
    """Return the change at a place in words, FILE:POS; nothing of anything else."""
    file, _, position = str(place or "").rpartition(":")
    return Change(file=file, position=int(position)) if file and position.isdecimal() else Change()


def _of_value(value: bytes | None) -> Change:
    """Return what an envelope holds of its change; nothing of a value that is no envelope of ours."""
    try:
        envelope = json.loads(value or b"null")
    except ValueError:
        return Change()
    if not isinstance(envelope, dict):
        return Change()
    if envelope.keys() == {"schema", "payload"} and isinstance(envelope["payload"], dict):
        envelope = envelope["payload"]
    for name in ("event_id", "eventId"):  # of Maxwell's form and Canal's
        if isinstance(envelope.get(name), str):
            table = Change(table=f"{envelope.get('database')}.{envelope.get('table')}")
            return of_event_id(envelope[name]).plus(_of_place(envelope.get("position"))).plus(table)
    source = envelope.get("source")
    if isinstance(source, dict) and "event_id" in source:
        return Change(
            event_id=source["event_id"],
            gtid=source.get("gtid") or "",
            file=source.get("file") or "",
            position=source.get("pos"),
            ordinal=source.get("row"),
            op=envelope.get("op") or "",
            table=f"{source.get('db')}.{source.get('table')}",
            ts_ms=source.get("ts_ms"),
        )
    if "__event_id" in envelope:
        return Change(event_id=envelope["__event_id"], op=envelope.get("__op") or "", ts_ms=envelope.get("__ts_ms"))
    return Change()
