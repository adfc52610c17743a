"""Errors of decoding with the flow and the connection that they are of: they are raised where only the log is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from databus.core.errors.source import DecodeError
from databus.core.flow import Flow


@contextmanager
def naming_flow(flow: Flow) -> Iterator[None]:
    """Write flow and connection into an error of decoding that the block raises."""
    try:
        yield
    except DecodeError as error:
        of = f"flow {flow.name}: "
        if not error.message.startswith(of):
            where = ", ".join(conn_id for conn_id, _ in flow.source.conn_ids() if conn_id not in error.message)
            error.message = f"{of}{f'{where}: ' if where else ''}{error.message}"
        raise
