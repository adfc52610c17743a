"""Chunk files in the segment store: rows that a snapshot read, beside the ranges of the log that go with them.

Layout: `<root>/<flow>/<server>/chunks/<sha256>.chunk`. A file is there whole and on disk before a plan names it, and is
never changed: its name is the hash of its bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from databus.binlog.log.mapped import windows
from databus.binlog.segments.store import CHUNKS, LEFT_AGE_S, load_segment
from databus.binlog.segments.store_files import entries_of, is_local, name_of, unusable, written_at
from databus.core.errors.source import ChunkFileError, SourceUnavailableError
from databus.core.private_files import private_folder

ENDING = ".chunk"
_UNFINISHED = ".staging-"


class ChunkStore:
    """Chunk files of one flow and one server."""

    def __init__(self, root: str, flow: str, server: str):
        """Address the store; nothing is created yet. Arguments as of `SegmentStore`."""
        import fsspec.core

        self._files, path = fsspec.core.url_to_fs(root)
        self._local = is_local(self._files)
        self._home = f"{path.rstrip('/')}/{flow}/{server}/{CHUNKS}"

    def stage(self) -> Path:
        """Return the path of a file to be written, in a folder that is there; beside the others where it is local.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        try:
            if not self._local:
                return Path(tempfile.mkdtemp(prefix="databus-chunks-")) / f"{_UNFINISHED}{uuid.uuid4().hex}"
            folder = Path(self._home)
            private_folder(folder)
        except OSError as error:
            raise unusable(self._home, error) from error
        return folder / f"{_UNFINISHED}{uuid.uuid4().hex}"

    def publish(self, staged: Path, sha256: str) -> str:
        """Make a staged file visible, whole or not at all, and return its name; one that is there already stays.

        Args:
            staged: what `stage` returned, written.
            sha256: hex digest of its bytes.

        Raises:
            SegmentStoreFullError, SourceUnavailableError: the store cannot be used; nothing is visible.
        """
        name = f"{sha256}{ENDING}"
        try:
            if self._local:
                with staged.open("rb") as written:
                    os.fsync(written.fileno())
                staged.rename(f"{self._home}/{name}")
                _sync(Path(self._home))
            else:
                self._files.put_file(str(staged), f"{self._home}/{name}")
        except OSError as error:
            raise unusable(self._home, error) from error
        finally:
            self.discard(staged)
        return name

    def discard(self, staged: Path) -> None:
        """Delete a staged file; safe to call twice."""
        staged.unlink(missing_ok=True)
        if not self._local:
            with contextlib.suppress(OSError):
                staged.parent.rmdir()

    def address(self, name: str) -> str:
        """Return the URI under which every worker reads a chunk file."""
        return str(self._files.unstrip_protocol(f"{self._home}/{name}"))

    def delete(self, name: str) -> None:
        """Delete a chunk file; safe when it is not there.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        try:
            with contextlib.suppress(FileNotFoundError):
                self._files.rm_file(f"{self._home}/{name}")
        except OSError as error:
            raise unusable(self._home, error) from error

    def old(self, now: float) -> Sequence[str]:
        """Return the names of files written more than `LEFT_AGE_S` ago, those that a kill left half included.

        Args:
            now: seconds since the epoch.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        return [
            name
            for entry in entries_of(self._files, self._home)
            if (name := name_of(entry)).startswith(_UNFINISHED) or name.endswith(ENDING)
            if now - written_at(entry, now) > LEFT_AGE_S
        ]

    def sweep(self, old: Sequence[str], planned: Collection[str] | None) -> Sequence[str]:
        """Delete old files that no plan names, only under the flow's lease; return their names.

        Args:
            old: names of files.
            planned: names of those of plans in flight; None where that cannot be told: then all stay.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        gone = [] if planned is None else [name for name in old if name not in planned]
        for name in gone:
            self.delete(name)
        return gone


def load_chunk(address: str, sha256: str) -> npt.NDArray[np.uint8]:
    """Return the bytes of a chunk file after comparing them with their hash; a local file is mapped.

    Raises:
        ChunkFileError: it is gone, or damaged.
        SourceUnavailableError: the store does not answer.
    """
    try:
        data = load_segment(address)
    except ValueError:  # no byte of it can be mapped
        data = np.zeros(0, np.uint8)
    except SourceUnavailableError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise ChunkFileError(f"the chunk file {address} is gone") from error
        raise
    hashed = hashlib.sha256()
    for window in windows(data):
        hashed.update(window.data)
    if hashed.hexdigest() != sha256:
        raise ChunkFileError(
            f"the chunk file {address} is damaged: its {len(data)} bytes have the SHA-256 {hashed.hexdigest()}, "
            f"{sha256} is planned"
        )
    return data


def _sync(folder: Path) -> None:
    """Put a folder's entries on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
