"""Backfill a range of a flow's log beside the live flow: planned once, moved piece by piece, proved by its ledger."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from databus.core.batches.receipts import outputs_told
from databus.core.errors.checkpoint import (
    BackfillIncompleteError,
    BackfillOpenError,
    BackfillWaitsError,
    CheckpointError,
    LeaseBusyError,
)
from databus.core.errors.config import BackfillRangeError
from databus.core.errors.sink import SinkSettingError
from databus.core.errors.source import DecodeError
from databus.core.flow import Flow
from databus.core.positions.offset_ranges import later
from databus.core.positions.offsets import BinlogOffset, OffsetRange, Ordering, is_foreign
from databus.core.positions.replaced_logs import is_of_former_log
from databus.core.state.backfill import PLANNING, Aim, Backfill, BackfillStore, Mode, backfill_id
from databus.core.state.checkpoint_store import Lease
from databus.ops.backfill.missing import missing_pieces
from databus.ops.backfill.passed_statements import pass_by_statement
from databus.ops.backfill.places import asked_before, is_same, moment, require_places
from databus.ops.backfill.range import Places, standing
from databus.ops.backfill.status import BackfillState, piece_state, state_of
from databus.ops.checkpoint.place_words import place_word
from databus.ops.checkpoint.targets import require_same_log
from databus.ops.mirror.run_tasks import throttled
from databus.ops.services import Ends, naming_flow, opened_ends
from databus.runtime.beside.backfill import locating, piece_flow, piece_session, require_ranged
from databus.runtime.context import RunIdentity, Services
from databus.runtime.drain import Drain
from databus.runtime.window_limits import WindowControl, WindowLimits

log = logging.getLogger(__name__)

_PLANNING_WAIT_S = 60.0
_NOT_AFTER = {Ordering.BEFORE, Ordering.EQUAL}


@dataclass(frozen=True)
class BackfillRequest:
    """Backfill request.

    Attributes:
        start: from, inclusive: a time (UTC without a zone), gtid:<set>, FILE:POS, earliest, or an offset as JSON.
        end: to, exclusive for times; as start, or latest.
        aim: what is moved, where to.
        in_order: whether it waits until earlier ranges of the same aim are done.
        consents: whether the user agrees to what a sink would refuse, and to rows that come once more where markers
            have expired and nothing shows whether they came.
        passes: whether transactions that are logged by statement are passed where no skip of the flow decided on them.
    """

    start: str
    end: str
    aim: Aim
    in_order: bool = False
    consents: bool = False
    passes: bool = False


@dataclass(frozen=True)
class BackfillRun:
    """Backfill run settings.

    Attributes:
        spark: opens the Spark session once there is something to move.
        identity: who runs.
        drain: asks it to end early.
        lease_wait_s: how long to wait for another run of the same piece.
        order_wait_s: how long to wait for another range where one is moved after the other; None for as long.
    """

    spark: Callable[[], Any]
    identity: RunIdentity
    drain: Drain
    lease_wait_s: float = 30.0
    order_wait_s: float | None = None


def preview(flow: Flow, services: Services, wanted: BackfillRequest, who: str) -> Backfill:
    """Say what a backfill would move; changes nothing.

    Raises:
        DatabusError: as `take_up`.
    """
    with opened_ends(flow, services) as ends:
        return _planned(flow, services, ends, wanted, (who, None))


def take_up(flow: Flow, services: Services, wanted: BackfillRequest, who: str) -> Backfill:
    """Plan a backfill and write it down, or return the one of the same range and aim that was planned before.

    What one backfill of mode `missing` has moved, later ones leave, and what it has yet to move keeps them waiting: all
    are planned under one lease.

    Raises:
        BackfillRangeError, BackfillFutureError, BackfillOpenError, OffsetPurgedError: see `Places.range`.
        BackfillOpenError: of mode `missing`, the live flow has not come to its end yet, or another backfill that took
            a part of it up is not done.
        SourceDivergedError, OffsetInvalidError: after a failover, an end cannot be found in the log that is read now.
        SinkSettingError: a sink refuses older rows after newer ones, and the user did not consent; or after a failover
            it does not know which are the older ones.
        LeaseBusyError: another run plans for longer than a minute.
    """
    store = _store(services)
    standing(flow, services)  # before a claim makes nodes for a flow that never ran
    with _claimed(services, f"{flow.name}.{PLANNING}", who, _PLANNING_WAIT_S) as lease:
        with opened_ends(flow, services) as ends:
            planned = _planned(flow, services, ends, wanted, (who, lease))
        return store.add(flow.name, lease, planned)


def run_backfill(flow: Flow, services: Services, wanted: BackfillRequest, run: BackfillRun) -> BackfillState:
    """Plan a backfill unless it is planned, move what is left of it, and prove that its ledger shows all of its range.

    Whoever runs it, however often, at the same time or after a kill: each row is moved once.

    Raises:
        BackfillIncompleteError: it was drained, or something else ended it early; it goes on where it stands.
        BackfillWaitsError: in order, another range is being moved just now.
        BackfillOpenError: in order, an earlier range was asked for, is not done, and nobody moves it.
        DecodeError: it has come to a transaction that is logged by statement, on which nobody has decided.
        MarkerDivergedError: it stood still in mid-batch until its markers had expired, and the user did not consent.
        DatabusError: as `take_up` and `run_window`.
    """
    backfill = take_up(flow, services, wanted, run.identity.run_id)
    order = nullcontext() if not wanted.in_order else _in_order(flow, services, backfill, run)
    with order:
        for number in range(len(backfill.pieces)):
            if run.drain.requested:
                break
            if not piece_state(flow, services, backfill, number).done:
                _move(flow, services, (backfill, number), run, wanted)
    state = state_of(flow, services, backfill)
    if not state.done:
        raise BackfillIncompleteError(
            f"flow {flow.name}: backfill {backfill.id} {backfill.range} is not done: {state.left()}",
            hint=f"Run it again: it goes on where it stands. `databus backfill {flow.name} --status` shows all.",
        )
    _store(services).note_finished(flow.name, backfill.id)
    log.info("flow %s: backfill %s %s is done: %s", flow.name, backfill.id, backfill.range, state.line())
    return state


def _move(
    flow: Flow, services: Services, which: tuple[Backfill, int], run: BackfillRun, wanted: BackfillRequest
) -> None:
    from databus.runtime.window import run_window  # with all that moves rows: a preview needs none of it

    backfill, number = which
    piece = backfill.pieces[number]
    log.info(
        "flow %s: backfill %s, piece %d of %d: %s", flow.name, backfill.id, number + 1, len(backfill.pieces), piece
    )
    limits = WindowLimits(float("inf"), until_caught_up=True, lease_wait_s=run.lease_wait_s, hands_over=False)
    while True:
        try:
            with (
                naming_flow(flow),
                piece_session(flow, services, (run.spark(), run.identity), which, accept=wanted.consents) as session,
            ):
                run_window(session, throttled(flow, WindowControl(limits, run.drain)))
                return
        except DecodeError as error:
            pass_by_statement(flow, services, which, error, (run.identity.run_id, wanted.passes))


def _planned(
    flow: Flow, services: Services, ends: Ends, wanted: BackfillRequest, by: tuple[str, Lease | None]
) -> Backfill:
    who, lease = by
    store, checkpoint = _store(services), standing(flow, services)
    source = require_ranged(flow, ends.source)
    require_same_log(source, checkpoint.offset)
    _require_aim(flow, wanted.aim)
    moved = isinstance(checkpoint.offset, BinlogOffset) and checkpoint.offset.timeline > 0  # there was a failover
    asked = store.backfills(flow.name, lambda one: one.startswith(f"{wanted.aim.mode}-")) if moved else ()
    known = asked_before(asked, wanted.aim, (wanted.start, wanted.end), checkpoint.offset)
    if known is None:
        moments = [when for when in (moment(wanted.start), moment(wanted.end)) if when is not None]
        places = Places(flow, services, source, checkpoint, store.boundaries(flow.name, *moments), lease)
        span = places.range(wanted.start, wanted.end)
        known = store.backfill(flow.name, backfill_id(wanted.aim, span))
        known = known or next((backfill for backfill in asked if is_same(backfill, wanted.aim, span)), None)
    if known is not None:
        require_places(flow, services, source, checkpoint, known)
        return known
    pieces: tuple[OffsetRange, ...] = () if span.empty else (span,)
    if wanted.aim.mode is Mode.MISSING:
        if later(span.end, checkpoint.offset).compare(checkpoint.offset) is Ordering.AFTER:
            raise BackfillOpenError(
                f"flow {flow.name}: what is missing up to {wanted.end} ({span.end}) cannot be determined yet: the live "
                f"flow stands at {checkpoint.offset} and moves what follows by itself",
                hint="Let the live flow run up to there first, or end the range where it stands: --to "
                f"{place_word(checkpoint.offset)} (in Airflow `to`).",
            )
        pieces = missing_pieces(flow, services, span)
    backfill = Backfill(flow.name, wanted.aim, span, (wanted.start, wanted.end), pieces, who, services.clock.now())
    require_places(flow, services, source, checkpoint, backfill)
    if pieces:  # refuses a place that the source's log no longer has
        source.lag(locating(source, checkpoint.offset)(pieces[0].start))
    piece_flow(flow, backfill, 0)  # refuses sinks without outputs beside the live ones
    if pieces and not wanted.aim.suffix:
        _require_consent(flow, services, ends, wanted)
    return backfill


def _require_aim(flow: Flow, aim: Aim) -> None:
    if aim.mode is Mode.MISSING and (aim.suffix or aim.name):
        raise BackfillRangeError(
            f"flow {flow.name}: what is missing goes to the live outputs: a suffix or a name means nothing to it",
            hint="Use mode=replay for outputs beside the live ones.",
        )


def _require_consent(flow: Flow, services: Services, ends: Ends, wanted: BackfillRequest) -> None:
    """Let a person decide whether readers of the live outputs can bear older rows after newer ones."""
    outputs: dict[str, dict[str, None]] = {}
    for entry in services.store.history(flow.name, 1_000):
        for receipt in entry.receipts:
            outputs.setdefault(str(receipt["sink"]), {}).update(outputs_told(receipt))
    effects = [sink.effect_of(tuple(outputs.get(name, ())), back=True) for name, sink in ends.sinks.items()]
    refused = [f"{effect.sink}: {effect.refused}" for effect in effects if effect.refused]
    if refused and not wanted.consents:
        raise SinkSettingError(
            f"flow {flow.name}: a backfill into the live outputs is refused by {'; '.join(refused)}",
            hint="Accept it (--accept, accept=true) if readers can bear older rows after newer ones, or replay beside.",
            code="sink_refuses_move",
        )


@contextmanager
def _in_order(flow: Flow, services: Services, backfill: Backfill, run: BackfillRun) -> Iterator[None]:
    """Let one range be moved at a time, and none before an earlier one of its aim that was asked for is done.

    One of a log that was replaced since is not waited for.
    """
    wait_s = run.lease_wait_s if run.order_wait_s is None else run.order_wait_s
    with ExitStack() as stack:
        try:
            stack.enter_context(_claimed(services, f"{flow.name}.{PLANNING}-order", run.identity.run_id, wait_s))
        except LeaseBusyError as error:
            raise BackfillWaitsError(error.message, hint=error.hint) from error
        store, mode = _store(services), f"{backfill.aim.mode}-"
        finished = store.finished(flow.name)  # their ledgers were read once, and need not be again
        for other in store.backfills(flow.name, lambda one: one.startswith(mode) and one not in finished):
            if other.aim == backfill.aim and _is_earlier(other, backfill) and not _is_lost(other, backfill):
                _require_done(flow, services, backfill, state_of(flow, services, other), run)
                store.note_finished(flow.name, other.id)
        yield


def _is_earlier(other: Backfill, backfill: Backfill) -> bool:
    """Return whether a range lies before another, or may: GTIDs do not order all places of two servers."""
    order = other.range.end.compare(backfill.range.start)
    start = backfill.range.start
    may_be = isinstance(start, BinlogOffset) or is_foreign(start)
    return order in _NOT_AFTER or (order is Ordering.DIVERGED and may_be)


def _is_lost(other: Backfill, backfill: Backfill) -> bool:
    """Return whether a range was of a log that another one replaced since: nobody can move what is left of it."""
    return is_of_former_log(other.range.end, backfill.range.start)


def _require_done(flow: Flow, services: Services, backfill: Backfill, earlier: BackfillState, run: BackfillRun) -> None:
    if earlier.done:
        return
    what = (
        f"flow {flow.name}: backfill {backfill.id} {backfill.range} waits for {earlier.backfill.id} "
        f"{earlier.backfill.range}"
    )
    ahead = next(piece.name for piece in earlier.pieces if not piece.done)
    try:  # stores show who holds a lease to those who want it; the epoch that this raises is nobody's
        services.store.claim(ahead, run.identity.run_id, 0).release()
    except LeaseBusyError as error:
        raise BackfillWaitsError(f"{what}, which is being moved: {error.message}", hint=error.hint) from error
    raise BackfillOpenError(
        what, hint="Ranges are moved in order: run the earlier one to its end, or choose order=parallel."
    )


@contextmanager
def _claimed(services: Services, name: str, who: str, wait_s: float) -> Iterator[Lease]:
    try:
        lease = services.store.claim(name, who, wait_s)
    except LeaseBusyError as error:
        raise LeaseBusyError(f"{name}: another run is at it: {error.message}", hint=error.hint) from error
    try:
        yield lease
    finally:
        lease.release()


def _store(services: Services) -> BackfillStore:
    if services.backfills is None:
        raise CheckpointError("this checkpoint store keeps no backfills", hint="Use ZooKeeper.")
    return services.backfills
