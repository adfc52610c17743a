"""Subject of a `SimpleSource` for the source contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from databus.core.connections import Connection
from databus.core.positions.offsets import Offset
from databus.core.protocols.source import Source
from databus.sources.simple import SimpleSource
from databus.testing.contract.simple_sink import FixedConnections, context


class SimpleSubject:
    """A source whose log begins at `earliest` and holds 60 changes of two tables, or gets them.

    Args:
        spec: the source.
        grow: adds at least 20 transactions with 60 changes of two tables; None where they are there.
        connections: connections that the source names.
    """

    def __init__(
        self, spec: SimpleSource, grow: Callable[[], None] | None = None, connections: Sequence[Connection] = ()
    ):
        self._spec, self._grow, self._connections = spec, grow, connections
        self._begin = spec.earliest()

    def open(self) -> Source:
        """Open the source once more."""
        return self._spec.open(FixedConnections(self._connections), context("contract"))

    def grow(self) -> None:
        """Add changes."""
        if self._grow is not None:
            self._grow()

    @property
    def begin(self) -> Offset:
        """Offset before everything."""
        return self._begin
