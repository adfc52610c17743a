"""Snapshot of a full synchronisation: copied to a file at the connection's speed, before anything of it is parsed.

The file has no name in its folder, so it goes with the process, however that ends.

Source: Redis 7.0 `replication.c` (`readSyncBulkPayload`): `$LENGTH` and so many bytes, or `$EOF:MARK` and bytes up to
the mark.
"""

from __future__ import annotations

import tempfile
from os import PathLike
from typing import BinaryIO

from databus.core.errors.redis import RedisStreamError
from databus.core.errors.source import SourceError
from databus.redis.replication.link import Link

_MARK_BYTES = 40


def nameless_file(link: Link, folder: str | PathLike[str] | None) -> BinaryIO:
    """Return an open file without a name in a folder, by default that for temporary files.

    Raises:
        SourceError: the folder cannot take it.
    """
    try:
        return tempfile.TemporaryFile(prefix="databus-redis-", dir=folder)
    except OSError as error:
        raise _not_written(link, folder, error) from None


def save_snapshot(link: Link, file: BinaryIO, folder: str | PathLike[str] | None) -> None:
    """Copy the snapshot that a server sends next to a file, which stands at its beginning then.

    Raises:
        SourceUnavailableError: the connection ends before.
        SourceError: the file cannot be written.
        RedisStreamError: no snapshot comes.
    """
    while not (head := link.line()):
        pass
    try:
        if head.startswith(b"$EOF:") and len(head) == 5 + _MARK_BYTES:
            _copy_to_mark(link, head[5:], file)
        elif head.startswith(b"$") and head[1:].isdigit():
            _copy(link, int(head[1:]), file)
        else:
            raise RedisStreamError(f"{link.name} sends {head[:40]!r} where a snapshot was to begin")
        file.seek(0)
    except OSError as error:
        raise _not_written(link, folder, error) from None


def _not_written(link: Link, folder: str | PathLike[str] | None, error: OSError) -> SourceError:
    return SourceError(
        f"{link.name}: the snapshot cannot be written to {folder or tempfile.gettempdir()}: {error}",
        hint="Give a folder with room for an RDB file of the server.",
        code="redis_snapshot_file",
    )


def _copy(link: Link, length: int, file: BinaryIO) -> None:
    while length:
        piece = link.reader.some(length)
        file.write(piece)
        length -= len(piece)


def _copy_to_mark(link: Link, mark: bytes, file: BinaryIO) -> None:
    """Copy up to the mark; nothing follows it until the snapshot is acknowledged."""
    held = b""
    while not (held := held + link.reader.some()).endswith(mark):
        if mark in held:
            raise RedisStreamError(f"{link.name} sends bytes behind its snapshot that nobody asked for")
        file.write(held[:-_MARK_BYTES])
        held = held[-_MARK_BYTES:]
    file.write(held[:-_MARK_BYTES])
