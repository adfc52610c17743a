"""Refusals of replays: why a batch's rows cannot be sent as things are, and the messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from databus.core.batches.receipts import CHECK
from databus.core.errors.batch import ReplaysRefusedError
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.errors.root import DatabusError
from databus.core.errors.source import OffsetPurgedError, SourceDivergedError
from databus.core.flow import Flow
from databus.core.positions.offset_ranges import unreached
from databus.core.positions.offsets import Offset, OffsetRange
from databus.core.positions.replaced_logs import is_of_former_log
from databus.core.state.checkpoint_store import LaggingSinks
from databus.ops.quarantine.outcome import ReplayResult
from databus.ops.quarantine.replay_range import RANGE_UNKNOWN
from databus.records.quarantine.held_row import HeldRow
from databus.runtime.beside.replay import ROWS_GONE

SINK_BEHIND = "quarantine_sink_behind"
"""Code of the error for rows whose range a sink has yet to pass."""


@dataclass(frozen=True)
class ReplayRefusal:
    """Rows of a batch that cannot be replayed as things are; those of other batches may be.

    Attributes:
        batch: number of the batch that holds them.
        rows: how many.
        error: why.
    """

    batch: int
    rows: int
    error: DatabusError

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        told = {"code": self.error.code, "why": self.error.message, "hint": self.error.hint}
        return {"batch": self.batch, "rows": self.rows, **told}


def is_gone(error: DatabusError, moved: OffsetRange, standing: Offset | None) -> bool:
    """Return whether an error says that the rows of a range cannot be read any more.

    Args:
        error: what reading it raised.
        moved: the range.
        standing: where the flow stands.
    """
    former = standing is not None and is_of_former_log(moved.end, standing)
    return (
        isinstance(error, OffsetPurgedError)
        or (isinstance(error, SourceDivergedError) and former)
        or error.code == ROWS_GONE
    )


def concerns_its_rows_alone(error: DatabusError) -> bool:
    """Return whether an error that a replay met at its range says nothing of other ranges."""
    return error.code in {SINK_BEHIND, RANGE_UNKNOWN}


def require_none(flow: str, done: Sequence[ReplayResult], refused: Sequence[ReplayRefusal]) -> None:
    """Raise the refused replays together, once the others are done.

    Raises:
        ReplaysRefusedError: some were; it holds what the others did.
        DatabusError: the reason, where there is only one.
    """
    if not refused:
        return
    if len(refused) == 1 and not done:
        raise refused[0].error
    told = "; ".join(f"batch {one.batch} ({one.rows} rows): {one.error.message}" for one in refused)
    rows = sum(result.replayed for result in done)
    error = ReplaysRefusedError(
        f"flow {flow}: {rows} rows were replayed, {sum(one.rows for one in refused)} cannot be: {told}",
        hint=" ".join(dict.fromkeys(one.error.hint for one in refused)),
    )
    error.done = tuple(done)
    raise error


def lost_hint(flow: str) -> str:
    """Return what to do about rows that cannot be read any more."""
    return (
        f"`databus quarantine export {flow}` gives them with their payload: write by hand what is wanted, then "
        f"`databus quarantine discard {flow} --event …` them; nothing can replay them."
    )


def require_passed(flow: Flow, store: LaggingSinks, moved: OffsetRange, taken: Sequence[HeldRow]) -> None:
    """Refuse to send rows to a sink that has yet to pass the range that they come from.

    It would get older rows of their keys after them.

    Args:
        flow: the flow.
        store: its checkpoint store.
        moved: range of the batch that held the rows.
        taken: the rows.

    Raises:
        CheckpointConflictError: names the sink and where it stands.
    """
    stages = {row.stage for row in taken}
    for spec in flow.sinks:
        name = spec.sink_name
        if not stages & {CHECK, name} or name not in store.sinks_behind(flow.name):
            continue
        own = store.of_sink(name).load(flow.name)
        if own is not None and unreached(own.offset, moved.end) is not None:
            raise CheckpointConflictError(
                f"flow {flow.name}: sink {name} is behind: it stands at {own.offset}, and has yet to pass "
                f"{moved.start} to {moved.end}, where the rows are",
                hint=f"Run the flow until it has caught up (`databus checkpoint show {flow.name}` shows where it "
                "stands), then replay.",
                code=SINK_BEHIND,
            )
