"""Transactions logged by statement in a backfill's range: passed where a person decided on them, and named."""

from __future__ import annotations

import logging

from databus.core.errors.checkpoint import LeaseBusyError
from databus.core.errors.source import DecodeError, SourceDivergedError
from databus.core.flow import Flow
from databus.core.positions.offset_ranges import overlap
from databus.core.positions.offsets import OffsetRange, Ordering
from databus.core.state.backfill import Backfill, Mode
from databus.core.state.checkpoint_store import Amendments
from databus.ops.backfill.missing import again
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.runtime.beside.backfill import piece_flow
from databus.runtime.context import Services

log = logging.getLogger(__name__)

_WITHIN = {Ordering.BEFORE, Ordering.EQUAL}


def pass_by_statement(
    flow: Flow, services: Services, which: tuple[Backfill, int], stopped: DecodeError, by: tuple[str, bool]
) -> None:
    """Move a piece behind the transaction that it stands in front of; its ledger names that as a gap.

    What a skip of the live flow passed over is decided: it is passed without another word.

    Args:
        flow: the live flow.
        services: the installation.
        which: the backfill, and which of its pieces.
        stopped: what the piece stopped with.
        by: who runs it, and whether what nobody decided on is passed too.

    Raises:
        DecodeError: nobody has decided on it, or it is nothing that could be passed; says what to do.
    """
    (backfill, number), (who, passes) = which, by
    if not stopped.behind:
        raise stopped
    piece, target = piece_flow(flow, backfill, number), Target(place=stopped.behind)
    move = mediation.preview(piece, services, "skip", target)
    if move.pending is not None or move.end.compare(backfill.pieces[number].end) not in _WITHIN:
        raise stopped
    decided = _decided(services.store, flow.name, OffsetRange(move.start, move.end))
    if not decided and not passes:
        raise DecodeError(stopped.message, hint=_way_on(flow, backfill)) from stopped
    why = "the flow was moved over it" if decided else "passed on request"
    try:
        mediation.execute(piece, services, "skip", target, Attribution(who, f"logged by statement: {why}"))
    except LeaseBusyError:
        return  # another run of the same backfill goes on with the piece: look again once it is free
    log.warning("flow %s: backfill %s passed over %s: %s", flow.name, backfill.id, stopped.message, why)


def _decided(store: Amendments, flow: str, passed: OffsetRange) -> bool:
    """Return whether a person moved the live flow over a range."""
    for gap in store.gaps(flow):
        try:
            if gap.passed and not gap.of_sink and overlap(passed, OffsetRange(gap.start, gap.end)):
                return True
        except SourceDivergedError:
            continue  # of another log
    return False


def _way_on(flow: Flow, backfill: Backfill) -> str:
    aim, (start, end) = backfill.aim, again(backfill)
    words = [f"databus backfill {flow.name} --from {start} --to {end}", f"--mode {aim.mode}"]
    if aim.mode is Mode.REPLAY:
        words += [f"--suffix {aim.suffix}" if aim.suffix else "--into-live", *([f"--name {aim.name}"] * bool(aim.name))]
    return (
        "What came before it is moved; whether it wrote a table of the flow, its text alone shows. Set the sinks right "
        f"if it did, then run the same range with --past-statements: `{' '.join(words)} --past-statements --execute`. "
        "It is passed over and named in the backfill's ledger; all else is moved."
    )
