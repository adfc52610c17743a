"""Files of a segment store over fsspec: listings, their ages, removal, and the error of a store that refuses."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from databus.binlog.segments.store_space import store_full
from databus.core.errors.source import SourceUnavailableError


def is_local(files: Any) -> bool:
    """Return whether an fsspec file system is that of this machine."""
    return "file" in (files.protocol if isinstance(files.protocol, tuple) else (files.protocol,))


def entries_of(files: Any, folder: str) -> Sequence[Mapping[str, Any]]:
    """Return the entries of a folder as the store has them now; none where there is no folder.

    Raises:
        SourceUnavailableError: the store cannot be used.
    """
    try:
        files.invalidate_cache(folder)
        found: Sequence[Mapping[str, Any]] = files.ls(folder, detail=True)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise unusable(folder, error) from error
    return found


def name_of(entry: Mapping[str, Any]) -> str:
    """Return the last part of an entry's path."""
    return str(entry["name"]).rstrip("/").rpartition("/")[2]


def written_at(entry: Mapping[str, Any], now: float) -> float:
    """Return when an entry of an fsspec listing was written, seconds since the epoch; now where it is unknown."""
    stamp = entry.get("mtime") or entry.get("LastModified") or entry.get("created")
    stamp = stamp.timestamp() if isinstance(stamp, datetime) else stamp
    return stamp if isinstance(stamp, (int, float)) else now


def remove(files: Any, path: str, home: str) -> None:
    """Delete a file, or a folder with all that it holds; safe where it is not there.

    Args:
        files: the fsspec file system.
        path: of the file or folder.
        home: the store's folder, for the error.

    Raises:
        SourceUnavailableError: the store cannot be used.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            files.rm(path, recursive=True)
    except OSError as error:
        raise unusable(home, error) from error


def unusable(home: str, error: OSError) -> SourceUnavailableError:
    """Return the error for a store that refused something."""
    return store_full(home, error) or SourceUnavailableError(
        f"the segment store {home} cannot be used: {error}",
        hint="Check space and rights there, or point DATABUS_SEGMENT_STORE elsewhere.",
    )
