"""Small files that are there whole or not at all, also after a power cut: a local folder, or any fsspec URI."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from databus.core.errors.checkpoint import CheckpointUnavailableError
from databus.core.private_files import private_file, private_folder


class DurableFolder:
    """Files of one folder, by name. Nothing is made before the first `put`."""

    def __init__(self, uri: str):
        """Address the folder.

        Args:
            uri: folder or fsspec URI.
        """
        import fsspec.core

        found: Any = fsspec.core.url_to_fs(uri)
        self._files, self._home = found[0], str(found[1]).rstrip("/")
        protocol = self._files.protocol
        self._local = "file" in (protocol if isinstance(protocol, tuple) else (protocol,))

    def put(self, name: str, data: bytes) -> None:
        """Write a file; it is on disk when this returns. One of the same name is replaced as a whole.

        Raises:
            CheckpointUnavailableError: the folder cannot be written.
        """
        try:
            if not self._local:
                self._files.pipe_file(f"{self._home}/{name}", data)
                return
            home = Path(self._home)
            private_folder(home)
            part = home / f".{name}.{uuid.uuid4().hex}"
            with private_file(part) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(home / name)
            folder = os.open(home, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise self._unusable(error) from error

    def get(self, name: str) -> bytes | None:
        """Return the content of a file, None when it is not there.

        Raises:
            CheckpointUnavailableError: the folder cannot be read.
        """
        try:
            return bytes(self._files.cat_file(f"{self._home}/{name}"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error

    def names(self) -> Sequence[str]:
        """Return the names of all files, sorted.

        Raises:
            CheckpointUnavailableError: the folder cannot be read.
        """
        try:
            found = self._files.ls(self._home, detail=False, refresh=True)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._unusable(error) from error
        names = (str(path).rstrip("/").rpartition("/")[2] for path in found)
        return tuple(sorted(name for name in names if not name.startswith(".")))

    def delete(self, name: str) -> None:
        """Delete a file; safe when it is not there.

        Raises:
            CheckpointUnavailableError: the folder cannot be written.
        """
        try:
            self._files.rm_file(f"{self._home}/{name}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unusable(error) from error

    def __str__(self) -> str:
        return str(self._files.unstrip_protocol(self._home))

    def _unusable(self, error: OSError) -> CheckpointUnavailableError:
        return CheckpointUnavailableError(
            f"the folder {self._home} cannot be used: {error}",
            hint="Check space and rights there, or point DATABUS_SEGMENT_STORE elsewhere.",
        )
