"""Schema history store of a flow: beside the segments, out of reach of what cleans those up.

Layout: `<root>/.schema_history/<flow>/<server>/history.json`, written when a definition changed, and `covered.json`,
which says how far the log has been followed since and is written with each range. Of who reads beside the flow (a piece
of a backfill, a look) it lies in that one's folder, `<root>/<flow>.<name>/.schema_history/<server>/`, and goes with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

from databus.binlog.schema_history.definition import LogPosition
from databus.binlog.schema_history.history import SchemaHistory
from databus.core.errors.source import SourceUnavailableError
from databus.core.private_files import private_folder, write_private

_HISTORY, _COVERED = "history.json", "covered.json"
FOLDER = ".schema_history"

_TRIES = 3


class HistoryStore:
    """The history of one flow on one server.

    Who writes is alone, but for a holder that lost its lease and does not know yet: it takes nothing back.
    """

    def __init__(self, root: str, flow: str, server: str, *, lent: bool = False):
        """Address the store; nothing is created yet.

        Args:
            root: the segment store's folder or fsspec URI.
            flow: flow name, or FLOW.SOMETHING of who reads beside it.
            server: server_uuid or server_id.
            lent: whether it is another's, and only read.
        """
        import fsspec.core

        self._files, path = fsspec.core.url_to_fs(root)
        protocol = self._files.protocol
        self._local = "file" in (protocol if isinstance(protocol, tuple) else (protocol,))
        home = f"{flow}/{FOLDER}" if "." in flow else f"{FOLDER}/{flow}"
        self._home = f"{path.rstrip('/')}/{home}/{server}"
        self._lent, self._stored = lent, ""

    def load(self) -> SchemaHistory | None:
        """Return the stored history; None when there is none.

        Raises:
            CheckpointFormatError: it is of another version.
            SourceUnavailableError: the store cannot be read.
        """
        history, self._stored = self._found()
        return history

    def save(self, history: SchemaHistory) -> None:
        """Store a history; the small file alone when no definition changed since it was last stored.

        Raises:
            SourceUnavailableError: the store cannot be written.
        """
        if self._lent:
            return
        data, place, standing = history.to_json(), history.covered, self._standing()
        digest = _digest(data, history)
        others = standing is not None and standing[0] != self._stored
        if others and self._has(history):
            return
        if others or digest != self._stored:
            self._write(_HISTORY, json.dumps(data, separators=(",", ":")).encode())
            self._stored = digest
        if standing is not None and standing[0] == digest:
            place = max(place, standing[1])
        self._write(_COVERED, json.dumps({"history": digest, "covered": list(place)}).encode())

    def _found(self) -> tuple[SchemaHistory | None, str]:
        """Return what is stored, and its digest; read again where somebody else writes both files just then."""
        for _ in range(_TRIES):
            text = self._read(_HISTORY)
            if text is None:
                return None, ""
            data = json.loads(text)
            history = SchemaHistory.from_json(data)
            digest, standing = _digest(data, history), self._standing()
            if standing is None:
                break
            if standing[0] == digest:
                history.covered = max(history.covered, standing[1])
                break
        return history, digest  # after a kill between the two, the first shows how far it went then

    def _standing(self) -> tuple[str, LogPosition] | None:
        """Return of which history it is known how far the log has been followed since, and how far."""
        text = self._read(_COVERED)
        data: dict[str, Any] = json.loads(text) if text is not None else {}
        return (data["history"], LogPosition(*data["covered"])) if data else None

    def _has(self, history: SchemaHistory) -> bool:
        """Return whether what somebody else has stored reaches over all of a history, in the same log."""
        other, _ = self._found()
        if other is None or other.seed.server != history.seed.server:
            return False
        return other.seed_place <= history.seed_place and history.covered <= other.covered

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


def _digest(data: dict[str, Any], history: SchemaHistory) -> str:
    """Return what distinguishes stored definitions, however far the log was followed."""
    text = json.dumps({**data, "covered": list(history.seed_place)}, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
