"""The range that a replay reads: that of the batch which held its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from databus.core.errors.config import ConfigError
from databus.core.positions.offset_ranges import moved_part
from databus.core.positions.offsets import OffsetRange
from databus.core.protocols.sink import Sink
from databus.core.state.checkpoint_store import CheckpointStore
from databus.core.state.plan import Plan
from databus.core.state.sink_markers import MarkedSink
from databus.ops.checkpoint.targets import ALL_HISTORY
from databus.records.quarantine.rows import HeldRows

RANGE_UNKNOWN = "quarantine_range_unknown"
"""Code of the error for a batch whose range nothing shows any more."""


@dataclass(frozen=True)
class BatchRanges:
    """Ranges of a flow's batches, as reports and history records them.

    Attributes:
        flow: flow name.
        store: checkpoint store.
        rows: the flow's quarantine.
        sinks: names of the flow's sinks: batches of one that was behind stand in its own history alone.
    """

    flow: str
    store: CheckpointStore
    rows: HeldRows
    sinks: Sequence[str] = ()

    def of(self, batch: int) -> OffsetRange:
        """Return the range of a batch, without the partitions that it did not move where there are many.

        It is the same before and after a report is filled in from history: it is part of the hash of a replay's plan.

        Raises:
            ConfigError: neither a report nor the history records it.
        """
        for found in self.told(batch):
            return found
        raise ConfigError(
            f"flow {self.flow}: neither a report nor the history says what range batch {batch} had",
            hint=f"`databus quarantine export {self.flow}` gives the rows; write them by hand, then discard them.",
            code=RANGE_UNKNOWN,
        )

    def surely(self, batch: int, plan_hash: str) -> OffsetRange | None:
        """Return the range of the very batch that held a row, None where that is not known.

        Numbers are given again where a flow is begun anew: without the plan, of several reports none is sure.
        """
        reported = self.rows.batch_ranges(batch)
        if not plan_hash:
            return next(iter(reported.values())) if len(reported) == 1 else None
        return reported.get(plan_hash) or next(self._committed(batch, plan_hash), None)

    def as_written(self, plan: Plan, batch: int, sinks: Mapping[str, Sink]) -> OffsetRange:
        """Return the range of a batch in that of its forms which markers of a replay's plan hold.

        `021bfd3` took a range with all its partitions where only the history had it.

        Args:
            plan: the replay's plan, found unfinished.
            batch: number of the batch whose range it reads.
            sinks: open sinks by name, with the replay's own markers.

        Raises:
            ConfigError: as `of`.
            SinkUnavailableError: no answer.
        """
        held = {
            mark.plan_hash
            for name, sink in sinks.items()
            if isinstance(sink, MarkedSink) and sink.marked
            for mark in sink.marks(plan.sinks[name].slots, settled=False)
            if mark is not None
        }
        mine = (found for found in self.told(batch) if replace(plan, range=found).hash in held)
        return next(mine, None) or self.of(batch)

    def told(self, batch: int) -> Iterator[OffsetRange]:
        """Yield the forms in which the range of a batch is recorded."""
        reported = self.rows.batch_range(batch)
        if reported is not None:
            yield reported
        for whole in self._committed(batch):
            yield from (moved_part(whole), whole)

    def _committed(self, batch: int, plan_hash: str = "") -> Iterator[OffsetRange]:
        """Yield the ranges of commits of a batch, of one plan where it is given."""
        for store in (self.store, *(self.store.of_sink(name) for name in self.sinks)):
            for entry in store.history(self.flow, ALL_HISTORY):
                if entry.action != "commit" or entry.batch != batch or entry.previous is None:
                    continue
                if not plan_hash or entry.plan_hash == plan_hash:
                    yield OffsetRange(entry.previous, entry.offset)
