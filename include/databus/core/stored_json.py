"""JSON as it is stored in ZooKeeper: versioned, in one byte form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from databus.core.errors import CheckpointFormatError

FORMAT_VERSION = 1
"""The `v` field of everything stored in ZooKeeper."""


def canonical_json(value: Any) -> bytes:
    """Return the one byte form of a JSON value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def require_version(data: Mapping[str, Any], what: str) -> None:
    """Refuse stored JSON of another format version.

    Raises:
        CheckpointFormatError: `v` is missing or not FORMAT_VERSION.
    """
    if data.get("v") != FORMAT_VERSION:
        raise CheckpointFormatError(
            f"stored {what} has format version {data.get('v')!r}, this code reads {FORMAT_VERSION}",
            hint="Upgrade databus on every worker before going on.",
        )
