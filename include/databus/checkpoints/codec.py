"""Bytes of what is stored: canonical JSON with a version, and the bound on its size."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from databus.core.errors.checkpoint import CheckpointFormatError, CheckpointTooLargeError
from databus.core.errors.source import OffsetInvalidError
from databus.core.stored_form import VERSION, Form, canonical_json

T = TypeVar("T")

OWNER = Form("turn or server id", "owner")

MAX_WRITE_BYTES = 256 * 1024
"""Largest atomic write. ZooKeeper's own limit, jute.maxbuffer, is 1 MiB by default (Administrator's Guide)."""


def encode(value: Mapping[str, Any]) -> bytes:
    """Return the stored form of versioned JSON."""
    return canonical_json(value)


def decode(data: bytes, what: str) -> Mapping[str, Any]:
    """Read stored JSON; its form is checked by who builds a value of it.

    Args:
        data: stored bytes.
        what: names the node in errors, e.g. "checkpoint of orders".

    Raises:
        CheckpointFormatError: not JSON, not an object, or without a version.
    """
    try:
        value = json.loads(data)
    except ValueError as error:
        raise CheckpointFormatError(
            f"{what}: {len(data)} stored bytes are not JSON: {error}",
            hint="Another program wrote there, or the node was edited by hand; its content must be put right first.",
        ) from None
    if not isinstance(value, dict):
        raise CheckpointFormatError(f"{what}: a JSON object is expected, {type(value).__name__} is stored")
    if not isinstance(value.get(VERSION), int):
        raise CheckpointFormatError(f"{what}: stored JSON without a format version: {value.get(VERSION)!r}")
    return value


def decode_as(data: bytes, what: str, build: Callable[[Mapping[str, Any]], T]) -> T:
    """Read versioned JSON into a value.

    Raises:
        CheckpointFormatError: as `decode`, or fields are missing or of the wrong type.
    """
    value = decode(data, what)
    try:
        return build(value)
    except CheckpointFormatError as error:
        raise CheckpointFormatError(f"{what}: {error.message}", hint=error.hint, code=error.code) from error
    except (KeyError, TypeError, ValueError, AttributeError, OffsetInvalidError) as error:
        raise CheckpointFormatError(
            f"{what}: stored JSON lacks or garbles a field: {type(error).__name__}: {error}",
            hint="Another program wrote there, or the node was edited by hand; its content must be put right first.",
        ) from error


def check_size(size_bytes: int, what: str) -> None:
    """Refuse an atomic write that is too large.

    Raises:
        CheckpointTooLargeError: `size_bytes` is MAX_WRITE_BYTES or more.
    """
    if size_bytes >= MAX_WRITE_BYTES:
        raise CheckpointTooLargeError(
            f"{what} would write {size_bytes} bytes at once; the limit is {MAX_WRITE_BYTES}",
            hint="Use fewer slots or partitions per batch, or split the flow's tables over several flows.",
        )
