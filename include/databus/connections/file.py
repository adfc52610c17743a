"""Connections from a YAML or JSON file, as `airflow connections export` writes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from databus.connections.airflow_format import from_fields, parse_connection
from databus.core.connections import Connection
from databus.core.errors.config import ConfigError, ConnectionMissingError

_VARIABLE = "DATABUS_CONNECTIONS"


class FileConnections:
    """A ConnectionSource over one file: conn_id → fields, or conn_id → URI. Read once, at the first `get`."""

    def __init__(self, path: Path):
        """Name the file; no I/O."""
        self.path = path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self | None:
        """Return the file that DATABUS_CONNECTIONS names, None when it is not set."""
        path = (os.environ if environ is None else environ).get(_VARIABLE, "")
        return cls(Path(path)) if path else None

    def get(self, conn_id: str) -> Connection:
        """Return the connection.

        Raises:
            ConnectionMissingError: the file has no such connection.
            ConfigError: the file or the entry cannot be read.
        """
        entry = self._entries.get(conn_id)
        if entry is None:
            raise ConnectionMissingError(
                f"no connection {conn_id!r} in {self.path}",
                hint=f"Add it to the file. Known: {', '.join(self.known()) or 'none'}.",
            )
        if isinstance(entry, str):
            return parse_connection(conn_id, entry)
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{self.path}: {conn_id!r} must hold fields or a URI, not {type(entry).__name__}")
        return from_fields(conn_id, entry)

    def known(self) -> tuple[str, ...]:
        """Return the ids of all connections, sorted. Raises as `get`."""
        return tuple(sorted(self._entries))

    @cached_property
    def _entries(self) -> Mapping[str, Any]:
        import yaml  # JSON is YAML, so one reader serves both

        try:
            entries = yaml.safe_load(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(
                f"the file of connections {self.path} cannot be read: {error.strerror}",
                hint=f"{_VARIABLE} names it; write it with `airflow connections export`.",
            ) from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f", line {mark.line + 1}" if mark else ""
            # The parser's own text quotes the line, and with it perhaps a password.
            raise ConfigError(f"the file of connections {self.path}{where} is neither YAML nor JSON") from None
        if entries is None:
            return {}
        if not isinstance(entries, Mapping):
            raise ConfigError(
                f"the file of connections {self.path} must hold conn_id → fields, not {type(entries).__name__}"
            )
        return {str(conn_id): entry for conn_id, entry in entries.items()}
