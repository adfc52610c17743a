"""Connections from AIRFLOW_CONN_<CONN_ID> environment variables, as Airflow reads them too."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from databus.connections.airflow_format import parse_connection, to_json
from databus.connections.file import FileConnections
from databus.core.connections import Connection, ConnectionSource
from databus.core.errors.config import ConnectionMissingError

_PREFIX = "AIRFLOW_CONN_"


class EnvironmentConnections:
    """A ConnectionSource over the environment; JSON and URI form."""

    def __init__(self, environ: Mapping[str, str] | None = None):
        """Use the process's environment unless another is given."""
        self._environ = os.environ if environ is None else environ

    def get(self, conn_id: str) -> Connection:
        """Return the connection.

        Raises:
            ConnectionMissingError: no such variable.
            ConfigError: its value is neither JSON nor a URI.
        """
        text = self._environ.get(variable_of(conn_id), "")
        if not text:
            raise ConnectionMissingError(
                f"no connection {conn_id!r} in the environment",
                hint=f"Set {variable_of(conn_id)} to JSON or a URI. Known: {', '.join(self.known()) or 'none'}.",
            )
        return parse_connection(conn_id, text)

    def known(self) -> tuple[str, ...]:
        """Return the ids of all connections, sorted, in lower case: the variables do not keep the case."""
        return tuple(sorted(n[len(_PREFIX) :].lower() for n, v in self._environ.items() if n.startswith(_PREFIX) and v))


def variable_of(conn_id: str) -> str:
    """Return the name of a connection's variable."""
    return f"{_PREFIX}{conn_id.upper()}"


def environment_of(connections: Iterable[Connection]) -> dict[str, str]:
    """Return the variables that hand connections to another process; the values hold secrets in clear."""
    return {variable_of(connection.conn_id): to_json(connection) for connection in connections}


class ChainedConnections:
    """A ConnectionSource that asks others in order; the first that knows the id wins."""

    def __init__(self, sources: Sequence[ConnectionSource]):
        """Keep the sources in the order in which they are asked."""
        self._sources = tuple(sources)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return the usual chain: environment variables, then the file of DATABUS_CONNECTIONS if that is set."""
        file = FileConnections.from_environment(environ)
        return cls([EnvironmentConnections(environ), *([file] if file else [])])

    def get(self, conn_id: str) -> Connection:
        """Return the connection of the first source that has it.

        Raises:
            ConnectionMissingError: none has it; the hint joins theirs.
            ConfigError: the first that has it cannot read it; the others are not asked.
        """
        missing: list[ConnectionMissingError] = []
        for source in self._sources:
            try:
                return source.get(conn_id)
            except ConnectionMissingError as error:
                missing.append(error)
        own = f"no connection {conn_id!r} "
        told = "; ".join(dict.fromkeys(error.message.replace(own, "none ", 1) for error in missing))
        hints = " Or: ".join(dict.fromkeys(error.hint for error in missing if error.hint))
        raise ConnectionMissingError(
            f"no connection {conn_id!r}: {told or 'no source is set up'}",
            hint=hints or f"Set {variable_of(conn_id)} to JSON or a URI.",
        )
