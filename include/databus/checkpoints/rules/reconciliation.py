"""Adding to a checkpoint what was moved while ZooKeeper was away. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from databus.checkpoints.codec import MAX_WRITE_BYTES, encode
from databus.checkpoints.connection.transaction import Operation, check, create, delete, set_data, size_bytes
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.nodes.large_values import LARGE_BYTES
from databus.checkpoints.paths import FlowPaths
from databus.checkpoints.rules import history_entries as entries
from databus.checkpoints.rules import plans as transitions
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.positions.offsets import Ordering
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.plan import Plan
from databus.core.state.plan_outcome import PlanOutcome
from databus.core.state.snapshot import PlannedChunks

RECONCILED = "moved while ZooKeeper was away"
_CAUTION = 0.8
"""Share of the bound that a step fills, for its last operations are counted after the fact."""


@dataclass(frozen=True)
class Step:
    """Reconciliation step: one atomic write.

    Attributes:
        operations: of the multi.
        last: whether nothing is left to do after it.
    """

    operations: Sequence[Operation]
    last: bool


def due(flow: str, stored: Checkpoint | None, outcomes: Sequence[PlanOutcome]) -> Sequence[PlanOutcome]:
    """Return the outcomes that the store does not have yet.

    Raises:
        CheckpointConflictError: they do not continue what is stored.
    """
    if stored is None:
        raise CheckpointConflictError(f"flow {flow}: there is no checkpoint that batches could be added to")
    left = [o for o in outcomes if o.plan.batch > stored.batch]
    done = next((o for o in outcomes if o.plan.batch == stored.batch), None)
    if done is not None and done.plan.hash != stored.plan_hash:
        raise CheckpointConflictError(
            f"flow {flow}: batch {stored.batch} is committed under plan {stored.plan_hash}, "
            f"but plan {done.plan.hash} was moved while ZooKeeper was away",
            hint=f"Two runs moved different rows under one number: look at `databus checkpoint history {flow}` and the "
            "sinks' markers before going on.",
        )
    batch, offset = stored.batch, stored.offset
    for outcome in left:
        transitions.check_commit(outcome.checkpoint.epoch, outcome.plan, outcome.checkpoint)
        planned = outcome.plan
        if planned.batch <= batch or planned.range.start.compare(offset) is not Ordering.EQUAL:
            raise CheckpointConflictError(
                f"flow {flow}: batch {planned.batch} {planned.range} does not continue batch {batch} at {offset}"
            )
        batch, offset = planned.batch, planned.range.end
    return left


def catch_up_step(
    paths: FlowPaths, state: FlowState, outcomes: Sequence[PlanOutcome], pending: Plan | None, trim: Trim
) -> Step | None:
    """Return the next atomic write of a catch-up, None when nothing is left to do.

    Args:
        paths: the flow's.
        state: as it was read.
        outcomes: all that were moved.
        pending: the plan after them.
        trim: history number → delete of the entry that falls out with it.
    """
    previous = state.checkpoint
    left = due(state.flow, previous, outcomes)
    if pending is not None and previous is not None and pending.batch <= previous.batch:
        pending = None
    planned = state.plan
    if not left:
        return None if pending is None or planned == pending else Step(_plan_only(paths, state, pending), last=True)
    known = {o.plan.hash for o in outcomes} | ({pending.hash} if pending else set())
    # A plan of a former definition, of which nothing was written, may have been replaced by one of a higher number.
    if planned is not None and planned.hash not in known and planned.batch >= left[0].plan.batch:
        raise CheckpointConflictError(
            f"flow {state.flow}: batch {planned.batch} (plan {planned.hash}) is in flight, but other batches up to "
            f"{left[-1].plan.batch} were moved while ZooKeeper was away"
        )
    if previous is None or state.checkpoint_node is None:
        raise AssertionError("`due` has refused a flow without a checkpoint")
    number, operations = state.history_number, [check(paths.epoch, state.epoch_version)]
    stored, moved = state.stored(previous, number), 0
    chunks: PlannedChunks | None = None
    for outcome in left:
        entry = entries.commit_entry(number + 1, previous, outcome.checkpoint, outcome.receipts, outcome.counts)
        more = [create(paths.history_entry(number + 1), encode({**entry.to_json(), "why": RECONCILED}))]
        more += trim(number + 1)
        after = state.stored(outcome.checkpoint, number + 1)
        head = len(after.content) + min(len(after.outputs or b""), LARGE_BYTES)
        head += len(encode(pending.to_json())) if pending else 0
        taken = outcome.plan.chunks or chunks
        head += min(sum(len(o.data) for o in state.snapshot_writes(paths, taken)), LARGE_BYTES)
        if moved and size_bytes([*operations, *more]) + head >= MAX_WRITE_BYTES * _CAUTION:
            break
        operations += more
        previous, stored, number, moved, chunks = outcome.checkpoint, after, number + 1, moved + 1, taken
    operations += [*state.writes(paths, stored), *state.snapshot_writes(paths, chunks)]
    last = moved == len(left)
    if planned is not None and (planned.batch <= previous.batch or (last and planned != pending)):
        assert state.plan_node is not None  # noqa: S101 - it holds the plan
        operations.append(delete(paths.plan, state.plan_node.version))
        planned = None
    if last and pending is not None and planned is None:
        operations.append(create(paths.plan, encode(pending.to_json())))
    return Step(operations, last)


def _plan_only(paths: FlowPaths, state: FlowState, pending: Plan) -> list[Operation]:
    node, content = state.plan_node, encode(pending.to_json())
    write = set_data(paths.plan, content, node.version) if node else create(paths.plan, content)
    return [check(paths.epoch, state.epoch_version), write]


Trim = Callable[[int], list[Operation]]
"""History number → delete of the entry that falls out with it, if there is one."""
