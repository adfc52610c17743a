"""Move a piece of a backfill: the flow's own path over a fixed range, under a name, epoch and markers of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.positions.offsets import Offset, OffsetRange
from databus.core.protocols.source import Source
from databus.core.state.backfill import Backfill, FailoverSource, RangedSource
from databus.runtime.beside.bounded_source import Locate, between, unmoved
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
    changes = {"name": backfill.piece_name(number), "source": flow.source.replayed(), "sinks": sinks}
    return flow.model_copy(update={**changes, "on_zookeeper_loss": "stop"})


def locating(source: Source, standing: Offset) -> Locate:
    """Return what finds places of the flow's past in the log that its source reads now.

    Args:
        source: open source.
        standing: where the live flow stands.
    """
    if not isinstance(source, FailoverSource):
        return unmoved
    found = source
    return lambda place: found.located(place, standing)


def piece_source(source: RangedSource, piece: OffsetRange, standing: Offset) -> Source:
    """Return the source as a piece sees it, from one of its ends to the other, wherever they lie now."""
    return between(source, piece, source.plan_exactly, locating(source, standing))


@contextmanager
def piece_session(
    flow: Flow,
    services: Services,
    run: tuple[Any, RunIdentity],
    piece: tuple[Backfill, int],
    *,
    accept: bool = False,
) -> Iterator[FlowSession]:
    """Open the flow that moves a piece; everything is closed at the end.

    Args:
        flow: the live flow.
        services: the installation.
        run: Spark session, and who runs.
        piece: the backfill, and which of its pieces.
        accept: whether rows may come once more where nothing shows whether they came.

    Raises:
        DatabusError: as `open_session`.
    """
    backfill, number = piece
    moved, checkpoint = piece_flow(flow, backfill, number), services.store.load(flow.name)
    standing = checkpoint.offset if checkpoint else backfill.range.end
    # Turns to dump are for flows at the head of the log.
    with open_session(moved, replace(services, dump_turns=None), *run) as session:
        session.source = piece_source(require_ranged(flow, session.source), backfill.pieces[number], standing)
        session.replays, session.consents = True, accept
        session.live_standing = services.store.load(flow.name)
        yield session
