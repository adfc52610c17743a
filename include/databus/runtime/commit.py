"""Commit: move the checkpoint after every sink's receipt, in one step that checks the epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from databus.core.batches.counts import TableCounts
from databus.core.batches.receipts import WriteReceipt
from databus.core.positions.offset_ranges import unreached
from databus.core.state.checkpoint import Checkpoint, merged_slots
from databus.core.state.checkpoint_store import Lease
from databus.core.state.known_outputs import merged_outputs, still_first
from databus.core.times import AHEAD
from databus.runtime.context import FlowSession
from databus.runtime.pacing.batch_sizing import Pace
from databus.runtime.plan import PlannedBatch


def commit(
    session: FlowSession,
    lease: Lease,
    batch: PlannedBatch,
    counts: Mapping[str, TableCounts],
    receipts: Sequence[WriteReceipt],
    pace: Pace,
) -> Checkpoint:
    """Return the new checkpoint, which is in ZooKeeper when this returns.

    Raises:
        StaleEpochError: a newer claim exists; nothing changed.
        CheckpointUnavailableError: the store cannot be reached; the next claim finds the plan and finishes it.
    """
    end = batch.plan.range.end
    now = session.clock.now()
    # A mark that lies ahead of the time, of a clock that was wrong once, would stand for ever.
    marks = [mark for mark in (batch.previous.watermark, batch.source.watermark) if mark and mark <= now + AHEAD]
    checkpoint = Checkpoint(
        offset=end,
        batch=batch.plan.batch,
        epoch=lease.epoch,
        run_id=session.identity.run_id,
        plan_hash=batch.plan.hash,
        counts=counts,
        watermark=max(marks, default=None),
        updated_at=now,
        slots=merged_slots(
            batch.previous.slots, {name: batch.plan.sinks[name].marks_after(batch.plan.batch) for name in session.sinks}
        ),
        bytes=batch.source.bytes,
        replay_until=unreached(end, batch.previous.replay_until),
        closed_until=unreached(end, batch.previous.closed_until, batch.plan.closed_until),
        pace=pace.to_json(session.flow.batching),
        output_ids=merged_outputs(
            batch.previous.output_ids, {name: batch.plan.sinks[name].ids for name in session.sinks}
        ),
        output_names=merged_outputs(
            batch.previous.output_names, {name: batch.plan.sinks[name].names for name in session.sinks}
        ),
        first=still_first(
            batch.previous.first,
            {name: batch.plan.sinks[name].first for name in session.sinks},
            _written(receipts),
        ),
        detached=batch.previous.detached,
    )
    session.store.commit(lease, batch.plan, checkpoint, [r.to_json() for r in receipts], counts)
    return checkpoint


def _written(receipts: Sequence[WriteReceipt]) -> dict[str, set[str]]:
    """Return sink → outputs that its slots report."""
    written: dict[str, set[str]] = {}
    for receipt in receipts:
        written.setdefault(receipt.sink, set()).update(receipt.outputs)
    return written
