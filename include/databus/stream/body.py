"""Bodies of requests as records: lines of text, or JSON with keys and headers."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import repeat
from typing import Any, NamedTuple

from databus.core.errors.stream import StreamRequestError, StreamTooLargeError

Headers = tuple[tuple[str, bytes], ...]

_FORM = (
    'Send lines (`curl --data-binary @file`), or with Content-Type: application/json {"records": [{"value": …}]}, '
    "where a record has value (JSON), text or base64, and may have key, partition and headers."
)
_FIELDS = frozenset({"key", "value", "text", "base64", "partition", "headers"})
_OF_VALUE = ("value", "text", "base64")


class StreamRecord(NamedTuple):
    """Record to be written; a tuple, which is made in a tenth of the time of a frozen dataclass.

    Attributes:
        value: bytes; None deletes the key in a compacted topic.
        key: bytes, or None.
        partition: where it goes; -1 for where its key leads.
        headers: name and bytes each.
    """

    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: Headers = ()

    @property
    def size(self) -> int:
        """Bytes of value, key and headers."""
        size = len(self.value or b"") + len(self.key or b"")
        return size + sum(len(name.encode()) + len(value) for name, value in self.headers) if self.headers else size


@dataclass(frozen=True)
class Bounds:
    """Limits of a request's records, in bytes and number; `batch_bytes` is for all together, with keys and headers."""

    record_bytes: int
    batch_records: int
    batch_bytes: int


def of_lines(body: bytes, bounds: Bounds, key: bytes | None = None, partition: int = -1) -> list[StreamRecord]:
    r"""Return the records of a body that has one in each line; the last "\n" may be left out.

    Args:
        body: bytes as they came.
        bounds: what is refused.
        key: key of all records.
        partition: partition of all records; -1 for where the key leads.

    Raises:
        StreamRequestError: there is none, or a line is empty.
        StreamTooLargeError: a record is too large, or all together are, or there are too many.
    """
    count = body.count(b"\n") + (not body.endswith(b"\n"))  # before each line becomes an object
    _check_count(count if body else 0, bounds)
    lines = body.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not all(lines):
        raise StreamRequestError(
            f"line {lines.index(b'') + 1} is empty: each line is a record",
            hint='Leave empty lines out; an empty record is {"text": ""} in JSON.',
        )
    longest = max(map(len, lines)) + len(key or b"")
    if longest > bounds.record_bytes:
        number = next(n for n, line in enumerate(lines, 1) if len(line) + len(key or b"") == longest)
        raise too_large(number, longest, bounds.record_bytes)
    _check_size(sum(map(len, lines)) + len(lines) * len(key or b""), bounds)
    return list(map(StreamRecord, lines, repeat(key), repeat(partition)))


def of_json(body: bytes, bounds: Bounds, key: bytes | None = None, partition: int = -1) -> list[StreamRecord]:
    """Return the records of a JSON body; `key` and `partition` are those of records that name none.

    Raises:
        StreamRequestError: it is not JSON, or not of the form.
        StreamTooLargeError: a record is too large, or all together are, or there are too many.
    """
    try:
        document = json.loads(body, parse_float=_exact, parse_constant=_no_number)
    except RecursionError:
        raise StreamRequestError("the body is nested too deeply", hint=_FORM) from None
    except ValueError as error:
        raise StreamRequestError(f"the body is not JSON: {error}", hint=_FORM) from None
    records = document.get("records") if isinstance(document, Mapping) else None
    if not isinstance(records, Sequence) or isinstance(records, str):
        raise StreamRequestError("the body has no list `records`", hint=_FORM)
    _check_count(len(records), bounds)
    found = [_record(number, given, key, partition) for number, given in enumerate(records, 1)]
    size = 0
    for number, record in enumerate(found, 1):
        if record.size > bounds.record_bytes:
            raise too_large(number, record.size, bounds.record_bytes)
        size += record.size
    _check_size(size, bounds)
    return found


def too_large(number: int, size: int, limit: int, of: str = "the service", way: str = "--record-bytes") -> Exception:
    """Return the refusal of a record by its number in the request, from 1."""
    return StreamTooLargeError(
        f"record {number} has {size} bytes, {of} takes {limit}; nothing of the request was written",
        hint=f"Split the record, store it elsewhere and send its address, or raise {way}.",
    )


def _check_count(count: int, bounds: Bounds) -> None:
    if not count:
        raise StreamRequestError("the body has no record", hint=_FORM)
    if count > bounds.batch_records:
        raise StreamTooLargeError(
            f"the request has {count} records, the service takes {bounds.batch_records}; nothing of it was written",
            hint="Send several requests, or raise --batch-records.",
        )


def _check_size(size: int, bounds: Bounds) -> None:
    """Refuse records that are more than their body was: a key of the request stands in each of them."""
    if size > bounds.batch_bytes:
        raise StreamTooLargeError(
            f"the records have {size} bytes with their keys, the service takes {bounds.batch_bytes}; nothing of them "
            "was written",
            hint="Send several requests, or raise --batch-bytes.",
        )


def _record(number: int, given: Any, key: bytes | None, partition: int) -> StreamRecord:
    if not isinstance(given, Mapping):
        raise StreamRequestError(f"record {number} is {type(given).__name__}, not an object", hint=_FORM)
    if unknown := sorted(given.keys() - _FIELDS):
        raise StreamRequestError(f"record {number} has unknown fields: {', '.join(unknown)}", hint=_FORM)
    named = [name for name in _OF_VALUE if name in given]
    if len(named) != 1:
        found = " and ".join(named) or "none"
        raise StreamRequestError(f"record {number} has {found} of value, text and base64: one is taken", hint=_FORM)
    if (own := given.get("key")) is not None:
        key = _utf8(number, "key", own)
    if (where := given.get("partition")) is not None:
        if type(where) is not int or where < 0:
            raise StreamRequestError(f"record {number}: partition is no number from 0 on", hint=_FORM)
        partition = where
    return StreamRecord(
        _value(number, named[0], given[named[0]]), key, partition, _headers(number, given.get("headers"))
    )


def _value(number: int, name: str, value: Any) -> bytes | None:
    if name == "text":
        return _utf8(number, name, value)
    if name == "base64":
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise StreamRequestError(f"record {number}: base64 is none", hint=_FORM) from None
    if value is None:
        return None
    try:
        return _utf8(number, name, json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    except RecursionError:
        raise StreamRequestError(f"record {number} is nested too deeply", hint=_FORM) from None


def _exact(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or Decimal(text) != Decimal(repr(number)):
        raise ValueError(f"{text[:40]} is no double: it would be changed; send the record as text")
    return number


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _headers(number: int, given: Any) -> Headers:
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise StreamRequestError(f"record {number}: headers is no object of texts", hint=_FORM)
    for name in given:
        _utf8(number, "name of a header", name)
        if "\0" in name:  # Kafka's client would end the name there
            raise StreamRequestError(f"record {number}: name of a header has a zero byte", hint=_FORM)
    return tuple((name, _utf8(number, f"header {name}", value)) for name, value in given.items())


def _utf8(number: int, name: str, text: Any) -> bytes:
    try:
        return str.encode(text)
    except TypeError:
        raise StreamRequestError(f"record {number}: {name} is {type(text).__name__}, not text", hint=_FORM) from None
    except UnicodeEncodeError:
        raise StreamRequestError(f"record {number}: {name} has half a surrogate pair", hint=_FORM) from None
