"""Rows that the flow held back where a sink that is behind has yet to pass: they are the replays' alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from databus.core.batches.report import BatchPlan, CheckedBatch
from databus.core.errors.source import SourceDivergedError
from databus.core.events import RowState
from databus.core.positions.offset_ranges import overlap
from databus.core.positions.offsets import OffsetRange
from databus.core.protocols.recorder import Recorder
from databus.core.state.checkpoint_store import CheckpointStore
from databus.runtime.check import STATE
from databus.runtime.takeover.flow_commits import FlowCommits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ALL_HISTORY = 1_000_000


@dataclass(frozen=True)
class HeldByFlow:
    """Held rows of the flow's own batches, for a lagging sink: what checks held back.

    No sink got such a row, and a replay sends it to all of them. The sink leaves it out on its way, even if the check
    has been mended since: else it got the row twice.

    Attributes:
        flow: flow name.
        commits: the flow's own.
        own: the view of the sink.
        recorder: knows the quarantine.
    """

    flow: str
    commits: FlowCommits
    own: CheckpointStore
    recorder: Recorder

    def over(self, moved: OffsetRange) -> frozenset[str]:
        """Return the event ids of rows that the flow held back in a range, whatever became of them since.

        The answer is the same for every attempt of a batch: the flow has committed the range, and does not pass it
        again while a sink is behind.

        Raises:
            RecordingError: the quarantine does not answer; the sink cannot go on without it.
            CheckpointUnavailableError: no answer.
        """
        since, paged = self._since(), self.recorder.paged(self.flow)
        while True:
            found = self.recorder.checked_batches(self.flow, since)
            if all(checked.paged and checked.range is not None for checked in found):
                break
            # Reports and pages may lag behind the commit; what neither they nor the history have was not committed.
            told, before = self.commits.behind(paged), paged
            paged = self.recorder.paged(self.flow)
            if paged == before:  # else pages came in between: what one answer leaves to the other may be in neither
                found = [checked for batch in found if (checked := _committed(batch, told)) is not None]
                break
        batches = {batch.plan for batch in found if batch.range is not None and _may_overlap(batch.range, moved)}
        return self.recorder.held_by_checks(self.flow, batches) if batches else frozenset()

    def _since(self) -> int:
        """Return the flow's last batch when the sink left: a rewind may have brought what was held until then."""
        own = self.own.load(self.flow)
        if own is not None and own.detached is not None:
            return own.detached
        # Sinks that left under an earlier databus have it in their history alone, until that is trimmed.
        return next((e.batch for e in self.own.history(self.flow, _ALL_HISTORY) if e.action == "detach"), 0)


def _committed(found: CheckedBatch, told: Mapping[BatchPlan, OffsetRange]) -> CheckedBatch | None:
    """Return a batch with its range; None for one that was not committed, or in an earlier life of the flow."""
    number, plan_hash = found.plan
    if not plan_hash:  # entries from before plans were kept: the number has to do
        known = (moved for (batch, _), moved in told.items() if batch == number)
        return replace(found, range=found.range or next(known, None))
    moved = told.get(found.plan)
    return replace(found, range=found.range or moved) if moved is not None or found.paged else None


def held_still(spark: Any, checked: DataFrame, event_ids: Collection[str]) -> DataFrame:
    """Return checked rows of which some are held back, whatever the checks say of them now.

    Args:
        spark: the session.
        checked: rows with their state.
        event_ids: which.
    """
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812

    held = spark.createDataFrame(pa.table({"held_event": sorted(event_ids)}))
    joined = checked.join(F.broadcast(held), F.col("event_id") == F.col("held_event"), "left")
    state = F.when(F.col("held_event").isNotNull(), F.lit(RowState.QUARANTINED)).otherwise(F.col(STATE))
    return joined.withColumn(STATE, state).drop("held_event")


def _may_overlap(told: OffsetRange, moved: OffsetRange) -> bool:
    try:
        return overlap(told, moved)
    except SourceDivergedError:
        return True  # a failover lies between: event ids decide
