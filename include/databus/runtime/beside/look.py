"""A look at a flow's log: its source, open under a name of its own beside the flow.

What is staged and kept under the flow's name belongs to who holds its lease. A look reads the copies of prepared XA
transactions that the flow keeps, and changes nothing there; what it stages itself goes with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import fsspec.core

from databus.core.connections import ConnectionSource
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.protocols.source import Source
from databus.core.protocols.staging import StagingSource
from databus.runtime.context import FlowSession


@contextmanager
def look(flow: Flow, connections: ConnectionSource, context: FlowContext) -> Iterator[Source]:
    """Open a flow's source for a look; at the end it is closed and what it staged is deleted.

    Args:
        flow: the flow.
        connections: where its source is.
        context: the flow's own.

    Raises:
        DatabusError: a connection is missing, a server refused or cannot be reached.
    """

    def opened(name: str) -> Source:
        return flow.source.open(connections, replace(context, staged=name))

    with _staged_beside(context.flow, context.settings.segment_store, opened) as source:
        yield source


@contextmanager
def looking(session: FlowSession) -> Iterator[FlowSession]:
    """Return a view of an open flow that looks at its log."""
    if session.reopen_source is None:
        raise AssertionError("a session that reads rows can open its source once more")
    with _staged_beside(session.flow.name, session.settings.segment_store, session.reopen_source) as source:
        yield replace(session, source=source)


@contextmanager
def _staged_beside(flow: str, root: str, opened: Callable[[str], Source]) -> Iterator[Source]:
    name = f"{flow}.look_{uuid.uuid4().hex[:12]}"
    source = opened(name)
    try:
        yield source
    finally:
        source.close()
        if isinstance(source, StagingSource):
            files, path = fsspec.core.url_to_fs(root)
            # What cannot be deleted now goes with the flow's next sweep.
            with suppress(OSError):
                files.rm(f"{path.rstrip('/')}/{name}", recursive=True)
