"""Trace queries, recognised by their form."""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass

from databus.core.trace import TraceQueryError, of_event_id


class Kind(enum.StrEnum):
    """Query kind."""

    POSITION = "position"
    GTID = "gtid"
    EVENT = "event"
    RECORD = "record"
    DOCUMENT = "document"
    KEY = "key"


@dataclass(frozen=True)
class Query:
    """Trace query.

    Attributes:
        kind: what the text names.
        text: the text; of a key its canonical JSON.
    """

    kind: Kind
    text: str


_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_GTID = rf"(?:{_UUID}(?::[a-z_][a-z0-9_]{{0,31}})?:\d+|\d+-\d+-\d+)"
_COPY = r"(?:\.\d+)?"
_FORMS = (
    (Kind.GTID, re.compile(_GTID)),
    (
        Kind.EVENT,
        re.compile(
            rf"(?:log\d+/)?(?:{_GTID}:\d+:[01]{_COPY}|snapshot-\d+-\d+-\d+:\d+:0{_COPY})|.+:.+\.\d{{6,}}:\d+:\d+:[01]{_COPY}"
        ),
    ),
    (Kind.POSITION, re.compile(r"[^:/]+\.\d{6,}:\d+")),
    (Kind.RECORD, re.compile(r"[A-Za-z0-9._-]+:\d+:\d+")),
    (Kind.DOCUMENT, re.compile(r'[^-_+{"\s/A-Z][^{"\s/A-Z]*/.+')),
)


def recognise(text: str, kind: Kind | None = None) -> Query:
    """Return what a text asks for.

    Args:
        text: FILE:POS, a GTID, an event id, TOPIC:PARTITION:OFFSET, INDEX/ID, or a key as a JSON object.
        kind: which of them, where its form leaves that open.

    Raises:
        TraceQueryError: it has none of these forms, or not the one that was said.
    """
    text = text.strip()
    if text.startswith("{") and kind in (None, Kind.KEY):
        return Query(Kind.KEY, _key(text))
    for form, pattern in _FORMS:
        if kind in (None, form) and pattern.fullmatch(text):
            return Query(form, text)
    asked = f" as a {kind}" if kind else ""
    raise TraceQueryError(f"{text!r} cannot be traced{asked}")


def event_gtid(event_id: str) -> str:
    """Return the GTID of an event id, "" where it names a place of the log."""
    return of_event_id(event_id).gtid


def _key(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise TraceQueryError(f"{text} is not JSON: {error}") from None
    if not isinstance(value, dict) or not value:
        raise TraceQueryError(f"{text} is no key", hint='Write its columns in key order, e.g. {"order_id":1,"line":2}.')
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
