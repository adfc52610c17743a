"""Claims: values that were too large for their row, fetched and cleaned up."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from databus.binlog.segments.large_values import KeptLargeValue, LargeValueStore, claim_below, read_claim
from databus.binlog.segments.retention import KeepLimit
from databus.core.settings import Settings


def write_claim(reference: str, target: BinaryIO, settings: Settings) -> int:
    """Copy the value that a row refers to; return its bytes. What was copied before an error is not to be used.

    Args:
        reference: the text that stands in the row, or the URI in it.
        target: where to.
        settings: whose segment store it must lie in.

    Raises:
        ClaimError: it refers to no claim of this store, the claim is gone, or its bytes are others than were written.
        SourceUnavailableError: the store cannot be used.
    """
    return sum(target.write(piece) for piece in read_claim(claim_below(reference, settings.segment_store)))


def save_claim(reference: str, path: Path, settings: Settings) -> int:
    """Write the value that a row refers to to a file, whole or not at all; return its bytes.

    Raises:
        ClaimError, SourceUnavailableError: as `write_claim`.
    """
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with unfinished.open("wb") as target:
            size = write_claim(reference, target, settings)
        unfinished.rename(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
    return size


def prune_claims(settings: Settings, limit: KeepLimit | None = None, *, execute: bool) -> Sequence[KeptLargeValue]:
    """Return the claims over a limit (default: the installation's) that no row referred to for 7 days.

    Args:
        settings: where the store is.
        limit: by age, size or both.
        execute: delete them.

    Raises:
        ConfigError: DATABUS_SEGMENT_KEEP cannot be read.
        SourceUnavailableError: the store cannot be used.
    """
    store = LargeValueStore(settings.segment_store)
    limit = KeepLimit.parse(settings.segment_keep) if limit is None else limit
    return store.prune(limit) if execute else store.surplus(limit)
