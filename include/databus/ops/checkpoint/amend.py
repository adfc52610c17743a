"""Pause, resume and move a flow's checkpoint by hand: said who and why, never beside a running batch."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from databus.checkpoints.rules.amendments import check_amendment, require_started
from databus.core.errors.checkpoint import LeaseBusyError
from databus.core.errors.config import ConfigError
from databus.core.errors.sink import SinkSettingError
from databus.core.flow import Flow
from databus.core.positions.gaps import PURGED, SKIPPED, Gap
from databus.core.positions.replaced_logs import REPLACED, ReplaceableSource
from databus.core.state.amendments import Action, Amendment, Pause
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan
from databus.ops.checkpoint.preview import CheckpointMove, lacking, look
from databus.ops.checkpoint.targets import Target
from databus.ops.checkpoint.version import require_version
from databus.ops.services import Ends, opened_ends
from databus.runtime.context import Services
from databus.runtime.takeover.takeover import ClaimedFlow, take_over

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Attribution:
    """Author of an amendment, and the reason.

    Attributes:
        who: user; in Airflow the one who is signed in.
        why: reason, not empty.
        consents: whether the user agrees to what a sink would refuse.
        what: what is done, for the error of one who does not say why.
        seen: version of the checkpoint that the user looked at (`version_of`); "" where any will do.
    """

    who: str
    why: str
    consents: bool = False
    what: str = "a change of a checkpoint"
    seen: str = ""

    def __post_init__(self) -> None:
        if not self.why.strip() or not self.who.strip():
            raise ConfigError(f"{self.what} needs who and why", hint="Give --reason.", code="reason_missing")


def preview(flow: Flow, services: Services, action: Action, target: Target, *, repair: bool = False) -> CheckpointMove:
    """Say what moving the checkpoint would do; changes nothing."""
    with opened_ends(flow, services) as ends:
        return look(flow, services, ends, action, target, repair)


def execute(
    flow: Flow, services: Services, action: Action, target: Target, said: Attribution, *, repair: bool = False
) -> tuple[CheckpointMove, Checkpoint]:
    """Move the checkpoint under a claim of the flow's lease, and return what was done.

    A plan in flight is closed first: each slot of each sink commits an `abandoned` marker unless it holds all of its
    share. When that is cut off, no run can go on until the amendment is repeated; repeating it is safe. With `repair` a
    snapshot of all tables begins in the step that moves the checkpoint: a kill leaves both or neither.

    Raises:
        LeaseBusyError: a run holds the flow.
        CheckpointMovedError: the flow is not where the user saw it; nothing was closed.
        CheckpointConflictError: a sink stands behind the others; nothing was closed.
        SinkSettingError: a sink refuses the move, and the user did not consent.
        MarkerDivergedError: a sink's marker has nothing to do with the plan in flight.
        MarkersAheadError: sinks hold batches that ZooKeeper does not know.
    """
    if services.store.load(flow.name) is None:
        preview(
            flow, services, action, target, repair=repair
        )  # raises, before a claim makes nodes for a flow that never ran
    lease = claimed(flow.name, flow, services, f"{action} by {said.who}")
    try:
        with opened_ends(flow, services) as ends:
            # What a holder has moved without ZooKeeper belongs to the checkpoint; from here on it moves nothing more.
            take_over(ClaimedFlow(flow, services.settings, services.store, ends.sinks, lease))
            require_version(flow.name, services.store, said.seen)
            move = look(flow, services, ends, action, target, repair)
            _require_consent(move, said)
            made = _amendment(services, action, target, said, move)
            # What the store will refuse is refused before anything is closed for it: runs could not go on then.
            standing = require_started(flow.name, services.store.load(flow.name))
            behind = lacking(flow.name, services.store, (standing, move.pending))
            check_amendment(flow.name, made, standing, move.pending, behind)
            made = replace(made, slots=_closed(flow, ends, move.pending))
            if target.new_log and isinstance(ends.source, ReplaceableSource):
                ends.source.forget_former_log(move.start)
            amended = services.store.amend(flow.name, lease, made)
    finally:
        lease.release()
    log.warning("flow %s: %s from %s to %s by %s: %s", flow.name, action, move.start, move.end, said.who, said.why)
    return move, amended


def pause(flow: Flow, services: Services, said: Attribution) -> Pause:
    """Stop a flow: a window that runs ends after its batch, others end at once, until it is resumed."""
    require_version(flow.name, services.store, said.seen)
    return services.store.pause(flow.name, said.who, said.why)


def resume(flow: Flow, services: Services, said: Attribution) -> Pause | None:
    """End a pause and return it; None when there was none."""
    require_version(flow.name, services.store, said.seen)
    return services.store.resume(flow.name, said.who, said.why)


def claimed(name: str, flow: Flow, services: Services, who: str) -> Lease:
    """Claim the lease of a flow, or of what moves rows beside it under another name, at once.

    Raises:
        LeaseBusyError: a run holds it; says how to end that run.
    """
    try:
        return services.store.claim(name, who, 0.0)
    except LeaseBusyError as error:
        hint = (
            f"`databus checkpoint pause {flow.name} --reason … --execute` makes the run end after its batch; "
            f"then amend, and resume. {error.hint}"
        )
        raise LeaseBusyError(error.message, hint=hint.strip()) from error


def _require_consent(move: CheckpointMove, said: Attribution) -> None:
    refused = [f"{effect.sink}: {effect.refused}" for effect in move.effects if effect.refused]
    if refused and not said.consents:
        raise SinkSettingError(
            f"flow {move.flow}: {move.action} to {move.end} is refused by {'; '.join(refused)}",
            hint="Give --accept if its readers can bear it, or fill a new topic by a flow of another name.",
            code="sink_refuses_move",
        )


def _amendment(
    services: Services, action: Action, target: Target, said: Attribution, move: CheckpointMove
) -> Amendment:
    now = services.clock.now()
    cause = PURGED if target.past_gap else REPLACED if target.new_log else action
    gap = None if move.back else Gap(0, move.start, move.end, cause, SKIPPED, said.who, said.why, now)
    gone = {name: {output.output: output.found for output in found} for name, found in move.changed.items()}
    return Amendment(action, said.who, said.why, move.end, move.pending, {}, gap, gone, move.repair)


def _closed(flow: Flow, ends: Ends, pending: Plan | None) -> dict[str, tuple[int, ...]]:
    """Close the plan in flight at every sink that it names; return what the markers hold afterwards."""
    if pending is None:
        return {}
    log.warning("flow %s: batch %d %s is abandoned", flow.name, pending.batch, pending.range)
    closed = {name: ends.sinks[name].abandon(pending) for name in pending.sinks if name in ends.sinks}
    return {name: pending.sinks[name].marks_after(pending.batch) for name, slots in closed.items() if slots}
