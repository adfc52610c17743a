"""Move a piece of a backfill: the flow's own path over a fixed range, under a name, epoch and markers of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from databus.core.backfill import Backfill, RangedSource
from databus.core.errors import ConfigError
from databus.core.flow import Flow
from databus.core.offsets import OffsetRange
from databus.core.protocols import Source
from databus.runtime.between import between
from databus.runtime.context import FlowSession, RunIdentity, Services, open_session


def require_ranged(flow: Flow, source: Source) -> RangedSource:
    """Return the source as one that has moments and places.

    Raises:
        ConfigError: this kind of source has none.
    """
    if not hasattr(source, "boundary_at") or not hasattr(source, "plan_exactly"):
        raise ConfigError(
            f"flow {flow.name}: a source of kind {flow.source.kind} cannot be backfilled",
            hint="It has no range of its log that could be read again between two moments.",
        )
    return cast("RangedSource", source)


def piece_flow(flow: Flow, backfill: Backfill, number: int) -> Flow:
    """Return the flow that moves a piece: the live one's path to the outputs that the backfill aims at.

    Raises:
        ConfigError: a sink has no outputs beside the live ones.
    """
    sinks = tuple(spec.beside(flow.name, backfill.aim.suffix) for spec in flow.sinks)
    return flow.model_copy(update={"name": backfill.piece_name(number), "sinks": sinks, "on_zookeeper_loss": "stop"})


def piece_source(source: RangedSource, piece: OffsetRange) -> Source:
    """Return the source as a piece sees it, from one of its ends to the other."""
    return between(source, piece, source.plan_exactly)


@contextmanager
def piece_session(
    flow: Flow, services: Services, run: tuple[Any, RunIdentity], backfill: Backfill, number: int
) -> Iterator[FlowSession]:
    """Open the flow that moves a piece; everything is closed at the end.

    Raises:
        DatabusError: as `open_session`.
    """
    moved = piece_flow(flow, backfill, number)
    # Turns to dump are for flows at the head of the log.
    with open_session(moved, replace(services, dump_turns=None), *run) as session:
        session.source = piece_source(require_ranged(flow, session.source), backfill.pieces[number])
        session.replays = True
        session.live_standing = services.store.load(flow.name)
        yield session
