"""Parameters and headers of requests, read and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from databus.core.errors.stream import StreamRequestError

_PRODUCER = re.compile(r"[\x21-\x7e]{1,200}")
_DIGITS = 20
MOST_OFFSET = 2**63 - 1
_MOST_SEQUENCE = 2**53
_EDGES = ("earliest", "latest")


def number_of(request: Request, name: str, default: int, most: int = 2**31 - 1) -> int:
    """Return a number among the parameters of a request.

    Raises:
        StreamRequestError: it is none from 0 to `most`.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    if (number := _number(text, most)) is None:
        raise StreamRequestError(f"{name} is {text[:40]!r}", hint=f"Give a number from 0 to {most}.")
    return number


def seconds_of(request: Request, name: str, default: float, most: float) -> float:
    """Return seconds among the parameters of a request.

    Raises:
        StreamRequestError: they are no number from 0 to `most`.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text) or float(text) > most:
        raise StreamRequestError(f"{name} is {text[:40]!r}", hint=f"Give seconds from 0 to {most:g}.")
    return float(text)


def offset_of(request: Request, name: str, default: str) -> int | str:
    """Return an offset among the parameters of a request, "earliest" or "latest".

    Raises:
        StreamRequestError: it is neither.
    """
    text = request.query_params.get(name, default)
    if text in _EDGES:
        return text
    if (number := _number(text, MOST_OFFSET)) is None:
        raise StreamRequestError(f"{name} is {text[:40]!r}", hint="Give an offset, earliest or latest.")
    return number


def edge_of(request: Request, name: str, default: str) -> str:
    """Return "earliest" or "latest" among the parameters of a request.

    Raises:
        StreamRequestError: it is neither.
    """
    text = request.query_params.get(name, default)
    if text not in _EDGES:
        raise StreamRequestError(f"{name} is {text[:40]!r}", hint="Give earliest or latest.")
    return text


def sequence_of(request: Request) -> tuple[str, int]:
    """Return the producer id of a request and its sequence; "" and 0 where it has neither.

    Raises:
        StreamRequestError: one is missing, or of another form.
    """
    producer = request.headers.get("databus-producer", "")
    sequence = request.headers.get("databus-sequence")
    hint = "Send both headers: Databus-Producer, an id of this writer, and Databus-Sequence, 0, 1, 2 and so on."
    if not producer and sequence is None:
        return "", 0
    if not _PRODUCER.fullmatch(producer):
        raise StreamRequestError("Databus-Producer is missing, or not 1 to 200 visible ASCII characters", hint=hint)
    number = _number(sequence or "", _MOST_SEQUENCE)
    if number is None:
        raise StreamRequestError("Databus-Sequence is missing, or no number from 0 on", hint=hint)
    return producer, number


def document_of(body: bytes, form: str) -> Mapping[str, Any]:
    """Return a small JSON object.

    Args:
        body: bytes.
        form: how it looks, for the error.

    Raises:
        StreamRequestError: it is none.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, Mapping):
        raise StreamRequestError("the body is no JSON object", hint=f"Send {form}.")
    return document


def places_of(document: Mapping[str, Any]) -> dict[int, int] | str:
    """Return the places that a consumer is to be set to: {"to": "earliest"} or {"offsets": {"0": 17}}.

    Raises:
        StreamRequestError: they are neither.
    """
    if document.keys() == {"to"} and document["to"] in _EDGES:
        return str(document["to"])
    offsets = document.get("offsets")
    if document.keys() == {"offsets"} and isinstance(offsets, Mapping) and offsets:
        partitions = {_number(str(partition), 2**31 - 1): offset for partition, offset in offsets.items()}
        if None not in partitions and all(type(o) is int and 0 <= o <= MOST_OFFSET for o in partitions.values()):
            return {int(str(partition)): offset for partition, offset in partitions.items()}
    raise StreamRequestError("the body names no places", hint='Send {"to": "earliest"} or {"offsets": {"0": 17}}.')


def _number(text: str, most: int) -> int | None:
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS or int(text) > most:
        return None
    return int(text)
