"""Several connection sources in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from databus.connections.environment import EnvironmentConnections, variable_of
from databus.connections.file import FileConnections
from databus.core.connections import Connection, ConnectionSource
from databus.core.errors.config import ConnectionMissingError


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
