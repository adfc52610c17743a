"""Missing parts of a range: what neither the live flow nor another backfill has moved, by their ledgers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from databus.core.errors.checkpoint import BackfillOpenError
from databus.core.flow import Flow
from databus.core.positions.offset_ranges import overlap, without
from databus.core.positions.offsets import BinlogOffset, Offset, OffsetRange
from databus.core.state.backfill import Backfill, Mode, dag_name
from databus.core.state.ledger import SpanState
from databus.ops.backfill.places import moment
from databus.ops.backfill.status import PieceState, piece_state
from databus.ops.ledger.range import spans_over
from databus.runtime.context import Services

_DELIVERED = {SpanState.DISPATCHED, SpanState.PARTLY_QUARANTINED, SpanState.QUARANTINED, SpanState.FILTERED}
"""States of a span of which nothing is missing: it was moved, held back in the quarantine, or is not for this flow."""

_Taken = tuple[Backfill, OffsetRange, PieceState | None]
"""A backfill, one of its pieces, and what that one's ledger shows; None where the backfill is known to be done."""


def missing_pieces(flow: Flow, services: Services, wanted: OffsetRange) -> tuple[OffsetRange, ...]:
    """Return what is missing of a range, in log order.

    What another backfill took up is left to it once its ledger shows it moved. Until then nobody can say that it will
    be, so nothing is planned over it: that one is run to its end first.

    Raises:
        BackfillOpenError: a part of what is missing was taken up by a backfill that is not done; names it.
        SourceDivergedError: the ranges are not of one log.
    """
    spans = spans_over(flow, services, wanted)
    moved = [OffsetRange(span.start, span.end) for span in spans if span.state in _DELIVERED]
    taken = list(_taken_up(flow, services, without(wanted, moved)))
    left = without(wanted, [*moved, *(piece for _, piece, state in taken if state is None or state.done)])
    _refuse_open(flow, taken, left)
    return left


def _taken_up(flow: Flow, services: Services, ranges: Sequence[OffsetRange]) -> Iterator[_Taken]:
    """Yield each piece that a backfill of mode `missing` took up of some ranges; ledgers of others are not read."""
    store = services.backfills
    if store is None or not ranges:
        return
    finished = store.finished(flow.name)
    for other in store.backfills(flow.name, lambda one: one.startswith(f"{Mode.MISSING}-")):
        for number, piece in enumerate(other.pieces):
            if any(overlap(piece, one) for one in ranges):
                state = None if other.id in finished else piece_state(flow, services, other, number)
                yield other, piece, state


def _refuse_open(flow: Flow, taken: Sequence[_Taken], left: Sequence[OffsetRange]) -> None:
    for other, _, piece in taken:
        if piece is None or piece.done or not any(overlap(piece.range, one) for one in left):
            continue
        start, end = again(other)
        raise BackfillOpenError(
            f"flow {flow.name}: of this range {piece.range} was taken up by backfill {other.id} {other.range} (from "
            f"{other.wanted[0]} to {other.wanted[1]}, asked for by {other.who}), which is not done: it stands at "
            f"{piece.stands or 'its start'}",
            hint=f"Run that one to its end first: `databus backfill {flow.name} --from {start} --to {end} --execute`, "
            f"or clear its run of {dag_name(flow.name)} in Airflow. What is left then is shown and moved.",
        )


def again(backfill: Backfill) -> tuple[str, str]:
    """Return the words, for a shell, that ask for the same range later on."""
    start, end = zip(backfill.wanted, (backfill.range.start, backfill.range.end), strict=True)
    return _again(*start), _again(*end)


def _again(word: str, place: Offset) -> str:
    """Return a word that means the same place later on: the place of a time is fixed, that of "latest" is not.

    FILE:POS is of the first server and its first log; of what followed them it may be another place.
    """
    if moment(word) is not None:
        return shlex.quote(word)
    if isinstance(place, BinlogOffset) and not (place.timeline or place.generation):
        return str(place)
    return shlex.quote(json.dumps(place.to_json()))
