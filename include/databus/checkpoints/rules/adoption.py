"""Adoption and acceptance: a checkpoint set to the sinks' markers, and outputs taken as they are. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from databus.checkpoints.codec import encode
from databus.checkpoints.connection.transaction import check, create, delete
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.paths import FlowPaths
from databus.checkpoints.rules.amendments import require_timeline
from databus.checkpoints.rules.history_entries import entry
from databus.checkpoints.rules.reconciliation import Step, Trim
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.state.amendments import AcceptedOutputs
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import Plan


def check_adoption(flow: str, previous: Checkpoint | None, checkpoint: Checkpoint) -> None:
    """Refuse to go back.

    Raises:
        CheckpointConflictError: the checkpoint stands at this batch under another plan, or at a later one, or on a
            later timeline.
    """
    if previous is not None and previous.batch >= checkpoint.batch:
        raise CheckpointConflictError(
            f"flow {flow}: the checkpoint stands at batch {previous.batch}, which is not before "
            f"batch {checkpoint.batch} of the sinks"
        )
    if previous is not None:
        require_timeline(flow, checkpoint.offset, previous.offset)


def adopt_step(paths: FlowPaths, state: FlowState, adopted: tuple[Checkpoint, str, int], trim: Trim) -> Step | None:
    """Return the write that sets the checkpoint to where the sinks stand, None when it stands there already.

    Args:
        paths: the flow's, or those of a sink that is behind.
        state: as it was read.
        adopted: the checkpoint, why, and the number of the newest history entry that is known elsewhere.
        trim: history number → delete of the entry that falls out with it.

    Raises:
        CheckpointConflictError: see `check_adoption`.
    """
    (checkpoint, why, after), previous = adopted, state.checkpoint
    if previous == checkpoint:
        return None
    check_adoption(state.flow, previous, checkpoint)
    number = 1 + max(state.history_number, after)
    adopted_entry = entry(number, "adopt", why, previous.offset if previous else None, checkpoint)
    operations = [
        check(paths.epoch, state.epoch_version),
        *state.writes(paths, state.stored(checkpoint, number)),
        create(paths.history_entry(number), encode(adopted_entry.to_json())),
        *trim(number),
    ]
    if state.plan_node is not None:
        operations.append(delete(paths.plan, state.plan_node.version))
    return Step(operations, last=True)


def accepted_checkpoint(stored: Checkpoint, accepted: AcceptedOutputs, epoch: Epoch) -> Checkpoint:
    """Return the checkpoint that knows these outputs as they are now; the flow stands where it stood."""
    ids = {sink: _now(known, accepted.outputs.get(sink, {})) for sink, known in stored.output_ids.items()}
    names = {sink: _kept(known, accepted.outputs.get(sink, {})) for sink, known in stored.output_names.items()}
    return replace(stored, epoch=epoch, output_ids=ids, output_names=names)


def accepted_plan(plan: Plan, accepted: AcceptedOutputs) -> Plan:
    """Return the plan that expects these outputs as they are now; its hash, which markers hold, is the same."""
    sinks = dict(plan.sinks)
    for sink, now in accepted.outputs.items():
        if pinned := sinks.get(sink):
            sinks[sink] = replace(pinned, ids=_now(pinned.ids, now), names=_kept(pinned.names, now))
    return replace(plan, sinks=sinks)


def without_outputs(stored: Checkpoint, gone: Mapping[str, Mapping[str, str | None]]) -> dict[str, Mapping[str, str]]:
    """Return what a checkpoint knows of outputs but of those (sink → output → anything) that a person gave up."""
    return {
        sink: {output: id_ for output, id_ in known.items() if output not in gone.get(sink, {})}
        for sink, known in stored.output_ids.items()
    }


def _now(known: Mapping[str, str], now: Mapping[str, str | None]) -> dict[str, str]:
    new = {output: now.get(output, id_) for output, id_ in known.items()}
    return {output: id_ for output, id_ in new.items() if id_ is not None}


def _kept(names: Mapping[str, str], now: Mapping[str, str | None]) -> dict[str, str]:
    return {output: exact for output, exact in names.items() if now.get(output, "") is not None}
