"""Where a flow's schema history lasts: beside the segments, out of reach of what cleans those up.

Layout: `<root>/.schema_history/<flow>/<server>/history.json`, written when a definition changed, and `covered.json`,
which says how far the log has been followed since and is written with each range.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

from databus.binlog.schema_history.definition import Place
from databus.binlog.schema_history.history import SchemaHistory
from databus.core.errors import SourceUnavailableError
from databus.core.private_files import private_folder, write_private

_HISTORY, _COVERED = "history.json", "covered.json"


class HistoryStore:
    """The history of one flow on one server."""

    def __init__(self, root: str, flow: str, server: str):
        """Address the store; nothing is created yet.

        Args:
            root: the segment store's folder or fsspec URI.
            flow: flow name.
            server: server_uuid or server_id.
        """
        import fsspec.core

        self._files, path = fsspec.core.url_to_fs(root)
        protocol = self._files.protocol
        self._local = "file" in (protocol if isinstance(protocol, tuple) else (protocol,))
        self._home = f"{path.rstrip('/')}/.schema_history/{flow}/{server}"
        self._stored = ""

    def load(self) -> SchemaHistory | None:
        """Return the stored history; None when there is none.

        Raises:
            CheckpointFormatError: it is of another version.
            SourceUnavailableError: the store cannot be read.
        """
        text = self._read(_HISTORY)
        if text is None:
            return None
        history = SchemaHistory.from_json(json.loads(text))
        self._stored = _digest(text)
        covered = self._read(_COVERED)
        if covered is not None:
            data: dict[str, Any] = json.loads(covered)
            if data["history"] == self._stored:
                history.covered = max(history.covered, Place(*data["covered"]))
        return history

    def save(self, history: SchemaHistory) -> None:
        """Store a history; the small file alone when no definition changed since it was last stored.

        Raises:
            SourceUnavailableError: the store cannot be written.
        """
        data = history.to_json()
        text = json.dumps({**data, "covered": list(history.seed_place)}, separators=(",", ":")).encode()
        if _digest(text) != self._stored:
            self._write(_HISTORY, text)
            self._stored = _digest(text)
        covered = {"history": self._stored, "covered": list(history.covered)}
        self._write(_COVERED, json.dumps(covered).encode())

    def forget(self) -> None:
        """Delete the history, which the next walk makes anew; safe to repeat.

        Raises:
            SourceUnavailableError: the store cannot be written.
        """
        self._stored = ""
        try:
            with contextlib.suppress(FileNotFoundError):
                self._files.rm(self._home, recursive=True)
        except OSError as error:
            raise self._unusable(error) from error

    def _read(self, name: str) -> bytes | None:
        try:
            data: bytes = self._files.cat_file(f"{self._home}/{name}")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error
        return data

    def _write(self, name: str, text: bytes) -> None:
        target = f"{self._home}/{name}"
        try:
            if not self._local:
                self._files.pipe_file(target, text)
                return
            path = Path(target)
            private_folder(path.parent)
            fresh = path.with_name(f".{name}-{uuid.uuid4().hex}")
            write_private(fresh, text)
            fresh.replace(path)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"the schema history {self._home} cannot be used: {error}",
            hint="Check space and rights there, or point DATABUS_SEGMENT_STORE elsewhere.",
        )


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
