"""Large values: stored outside their rows, fetched and pruned here."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from databus.binlog.segments.large_values import KeptLargeValue, LargeValueStore, large_value_below, read_large_value
from databus.binlog.segments.retention import KeepLimit
from databus.core.settings import Settings


def write_large_value(reference: str, target: BinaryIO, settings: Settings) -> int:
    """Copy the value that a row refers to; return its bytes. A copy cut off by an error is not to be used.

    Args:
        reference: the text that stands in the row, or the URI in it.
        target: where to.
        settings: whose segment store it must lie in.

    Raises:
        ClaimError: it refers to no value of this store, the value is gone, or its bytes do not match its hash.
        SourceUnavailableError: the store cannot be used.
    """
    return sum(target.write(piece) for piece in read_large_value(large_value_below(reference, settings.segment_store)))


def save_large_value(reference: str, path: Path, settings: Settings) -> int:
    """Write the value that a row refers to to a file, whole or not at all; return its bytes.

    Raises:
        ClaimError, SourceUnavailableError: as `write_large_value`.
    """
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with unfinished.open("wb") as target:
            size = write_large_value(reference, target, settings)
        unfinished.rename(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
    return size


def prune_large_values(
    settings: Settings, limit: KeepLimit | None = None, *, execute: bool
) -> Sequence[KeptLargeValue]:
    """Return the large values over a limit (default: the installation's) that no row referred to for 7 days.

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
