"""Ranges that are planned: staged as segments, described, handed out as splits, and given back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.segment import RangeIndex
from databus.core.errors.source import OffsetInvalidError, SourceDivergedError
from databus.core.positions.offsets import OffsetRange
from databus.core.state.plan import SourcePlan
from databus.core.trace import log_prefix
from databus.sources.mysql.dump.range_dumper import RangeDumper
from databus.sources.mysql.flow_log import FlowLog
from databus.sources.mysql.row_filters import RowFilters
from databus.sources.mysql.segments.address import LargeValueRules, SegmentAddress
from databus.sources.mysql.segments.split import SegmentSplit
from databus.sources.mysql.spec import MysqlBinlog
from databus.sources.mysql.staged_range import shared_out, source_plan

log = logging.getLogger(__name__)


class PlannedRanges:
    """Planned ranges of one flow, in its segment store.

    Args:
        ranges: stages them.
        from_log: the log that they are of.
        filters: the flow's row filters, which must fit the tables of each.
        spec: what the flow wrote down.
        large: which values are stored outside their rows.
    """

    def __init__(
        self, ranges: RangeDumper, from_log: FlowLog, filters: RowFilters, spec: MysqlBinlog, large: LargeValueRules
    ):
        self._ranges, self._log, self._filters, self._spec, self._large = ranges, from_log, filters, spec, large
        self._capture = ranges.capture

    def exactly(self, wanted: OffsetRange) -> SourcePlan:
        """Dump exactly the range between two places, whatever XA is pending at the second one.

        Raises:
            OffsetInvalidError: its end is no transaction boundary after its start.
            SourceDivergedError, OffsetPurgedError: as `MysqlBinlogSource.plan`.
        """
        start, end = self._log.server.binlog(wanted.start), self._log.server.binlog(wanted.end)
        switch = self._log.continued(start)
        with self._log.naming(start, switch):
            index = self._ranges.stage(start, switch, RangeBounds(end=end, flow=self._log.flow), None)
        if index is None:
            raise OffsetInvalidError(f"{self._log.server.place}: nothing lies in {wanted}")
        self._filters.check(index.tables)
        return self.described(index)

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        """Describe a planned range from its segments, also those of the flow beside which this one looks.

        Dumps it again, to exactly its end, when they are gone.

        Raises:
            SourceDivergedError, OffsetPurgedError, OffsetInvalidError: the server no longer has exactly this range.
        """
        end = self._log.server.binlog(planned.end)
        if planned.empty:  # of a batch of chunks alone
            return SourcePlan(planned, (), 0, 0)
        lent = self._log.stores.staged_by_flow(planned, end.server)
        if lent and lent[1].capture == str(self._capture):
            return source_plan(lent[1], lent[0], self._capture)
        return self.described(self._index(planned))

    def splits(self, plan: SourcePlan, count: int) -> Sequence[SegmentSplit]:
        """Group the segments that hold anything for this flow into at most `count` splits of about equal size."""
        if plan.range.empty:
            return []
        index = self._index(plan.range)
        self._filters.check(index.tables)
        store = self._log.stores.segments(self._log.server.binlog(plan.range.end).server)
        server = self._log.server.binlog(index.range.end).server
        return [
            SegmentSplit(
                tuple(
                    SegmentAddress(
                        store.address(index, s), s.file, s.start_pos, sum(s.rows.values()), s.commits, s.definitions
                    )
                    for s in segments
                ),
                replace(self._capture, folds=index.folds),
                index.tables,
                server,
                self._spec.decoder,
                index.definitions,
                self._filters,
                self._large,
                log_prefix(self._log.server.binlog(plan.range.end).generation),
            )
            for segments in shared_out(index, count)
        ]

    def discard(self, plan: SourcePlan) -> None:
        """Delete a range's segments; kept segments and large values over the limit, too."""
        self._log.stores.segments(self._log.server.binlog(plan.range.end).server).delete(plan.range)
        self._log.relay.prune()

    def release(self, plan: SourcePlan) -> None:
        """Discard a committed range, and delete the kept copies of the XA transactions that it resolved."""
        self.discard(plan)
        store = self._log.stores.segments(self._log.server.binlog(plan.range.end).server)
        pending = set(self._log.server.binlog(plan.range.end).prepared)
        resolved = [p for p in self._log.server.binlog(plan.range.start).prepared if p not in pending]
        for prepared in resolved:
            store.unpin(prepared)
        for former in self._log.stores.former() if resolved else ():
            for prepared in resolved:
                former.unpin(prepared, named=True)

    def described(self, index: RangeIndex) -> SourcePlan:
        """Return what a plan says of a staged range."""
        store = self._log.stores.segments(self._log.server.binlog(index.range.end).server)
        return source_plan(index, store, self._capture)

    def _index(self, planned: OffsetRange) -> RangeIndex:
        start, end = self._log.server.binlog(planned.start), self._log.server.binlog(planned.end)
        index = self._log.stores.segments(end.server).find(planned)
        if index is not None and index.capture == str(self._capture):
            return index
        if self._log.failover.concerns(end):
            raise SourceDivergedError(
                f"{self._log.server.place}: the range {planned} was planned from server {end.server}, and its "
                f"segments are gone; this is server {self._log.server.identity}",
                hint="Bring back the segment store (DATABUS_SEGMENT_STORE) or the former server until this one batch "
                "is committed; what follows is read by GTID.",
            )
        switch = self._log.continued(start)
        kept = None if switch else self._log.relay.log_from(start)
        if kept is None or not kept.reaches(end):
            self._log.positions.check(end)
        log.info("segments of %s are not in the store: dumping the range again", planned)
        with self._log.naming(start, switch):
            again = self._ranges.stage(start, switch, RangeBounds(end=end, flow=self._log.flow), None)
        if again is None or again.range != planned:
            ends = self._log.server.binlog
            got = "nothing" if again is None else f"{again.range} with GTIDs {ends(again.range.end).gtids}"
            raise OffsetInvalidError(
                f"{self._log.server.place}: the range {planned} with GTIDs {end.gtids} was "
                f"planned, but the server now has {got}",
                hint="The server's log is not the one that was planned from; compare "
                "its uuid and GTIDs before any rewind.",
            )
        return again
