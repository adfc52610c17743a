"""Setting a checkpoint to where the markers of the sinks stand. Pure functions."""

from __future__ import annotations

from databus.checkpoints.codec import encode
from databus.checkpoints.connection.transaction import check, create, delete
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.paths import FlowPaths
from databus.checkpoints.rules.amendments import require_timeline
from databus.checkpoints.rules.history_entries import entry
from databus.checkpoints.rules.reconciliation import Step, Trim
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.state.checkpoint import Checkpoint


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
