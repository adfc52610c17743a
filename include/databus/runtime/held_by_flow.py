"""Rows that the flow held back where a sink that is behind has yet to pass: they are the replays' alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from databus.core.checkpoint_store import CheckpointStore
from databus.core.errors import SourceDivergedError
from databus.core.events import RowState
from databus.core.offset_ranges import overlap
from databus.core.offsets import OffsetRange
from databus.core.protocols import Recorder
from databus.runtime.check import STATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ALL_HISTORY = 1_000_000


@dataclass(frozen=True)
class HeldByFlow:
    """What checks held back in the flow's own batches, for a sink that is behind.

    No sink got such a row, and a replay sends it to all of them. The sink leaves it out on its way, even if the check
    has been mended since: else it got the row twice.

    Attributes:
        flow: flow name.
        flows: the flow's checkpoint store.
        own: the view of the sink.
        recorder: knows the quarantine.
    """

    flow: str
    flows: CheckpointStore
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
        found = self.recorder.checked_batches(self.flow)
        if not found:
            return frozenset()
        since = next((e.batch for e in self.own.history(self.flow, _ALL_HISTORY) if e.action == "detach"), 0)
        ranges = {batch: told for batch, told in found.items() if batch > since}
        if None in ranges.values():
            # Reports may lag behind the commit; what neither they nor the history tell was not committed.
            for entry in self.flows.history(self.flow, _ALL_HISTORY):
                if entry.action == "commit" and entry.previous is not None and entry.batch in ranges:
                    ranges[entry.batch] = ranges[entry.batch] or OffsetRange(entry.previous, entry.offset)
        batches = [batch for batch, told in ranges.items() if told is not None and _may_overlap(told, moved)]
        return self.recorder.held_by_checks(self.flow, batches) if batches else frozenset()


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
