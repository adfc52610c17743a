"""Distance of a flow to the head of its source's log, and to the part that the server deletes."""

from __future__ import annotations

from datetime import UTC, datetime

from databus.core.flow import Flow
from databus.core.positions.lag import Headroom, Lag
from databus.core.positions.offsets import Offset
from databus.core.protocols.source import Source
from databus.core.state.checkpoint_store import CheckpointStore


def rests(flow: Flow, store: CheckpointStore) -> bool:
    """Tell whether a flow wants nothing of the log: it reads no changes, and its snapshot is over.

    A snapshot that is paused goes on with the log from where the flow stands, and so does a sink that fell behind.

    Args:
        flow: a flow that has a checkpoint.
        store: the flow's store, which is asked only where the source reads no changes.

    Raises:
        CheckpointError: the store cannot be used.
    """
    if flow.source.reads_changes():
        return False
    snapshot = store.snapshot(flow.name)
    return (snapshot is None or not snapshot.unfinished) and not store.sinks_behind(flow.name)


def distance(flow: Flow, store: CheckpointStore, source: Source, at: Offset) -> tuple[Lag, Headroom | None]:
    """Measure how far a flow is behind, and how long the server keeps what it needs next.

    Args:
        flow: the flow.
        store: its store.
        source: its source, open.
        at: where the flow stands, or the sink of it that is furthest behind.

    Returns:
        Lag, and headroom: None where nothing is deleted. Of a flow that rests the lag is nothing, and no part of the
        log is needed.

    Raises:
        SourceError: the source cannot be asked, or its log no longer has the place.
        CheckpointError: the store cannot be used.
    """
    if rests(flow, store):
        return Lag(0, 0.0, str(source.latest_offset()), datetime.now(UTC)), None
    return source.lag(at), source.headroom(at)
