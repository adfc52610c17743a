"""Writing to the segment store when its disk is full: one named error with path, need and free bytes."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from databus.core.errors.source import SegmentStoreFullError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def writing(path: str | Path, need_bytes: int) -> Iterator[None]:
    """Turn a full disk, an exhausted quota or file size limit while writing into the store's error.

    Args:
        path: where is written.
        need_bytes: what was to be written.

    Raises:
        SegmentStoreFullError: nothing more can be written there.
    """
    try:
        yield
    except OSError as error:
        full = store_full(path, error, need_bytes)
        if full is None:
            raise
        raise full from error


def store_full(path: str | Path, error: OSError, need_bytes: int = 0) -> SegmentStoreFullError | None:
    """Return the store's error for a failed write; None when space is not what it lacked."""
    if error.errno not in _FULL:
        return None
    free = free_bytes(path)
    need = f"{need_bytes} bytes were to be written there, " if need_bytes else ""
    room = "how much is free cannot be determined" if free is None else f"{free} are free"
    return SegmentStoreFullError(f"the segment store {path} is full ({error.strerror}): {need}{room}")


def free_bytes(path: str | Path) -> int | None:
    """Return what an unprivileged user may still write to a folder's file system; None for no local one."""
    place = Path(path)
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        return shutil.disk_usage(place).free
    except OSError:
        return None
