"""The open binlog source: plans ranges by dumping them once into segments, and hands the segments out as splits."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime

from databus.binlog.log.capture import TableCapture
from databus.binlog.segments.kept_log import KeptLog
from databus.binlog.segments.range_staging import RangeBounds
from databus.binlog.segments.segment import RangeIndex
from databus.binlog.server.dump import Dump
from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.errors import (
    DatabusError,
    OffsetInvalidError,
    OffsetPurgedError,
    SourceDivergedError,
)
from databus.core.findings import Finding, Level
from databus.core.flow_specs import FlowContext
from databus.core.positions.lag import Headroom, Lag
from databus.core.positions.offsets import BinlogOffset, Offset, OffsetRange, Ordering
from databus.core.protocols import StagedPlans, Turns
from databus.core.state.backfill import LogMoment
from databus.core.state.plan import SourcePlan
from databus.core.tables.wanted import TablesNow
from databus.core.trace import log_prefix
from databus.sources.mysql.boundaries import boundary_at
from databus.sources.mysql.dump.dumps import MysqlDumps
from databus.sources.mysql.dump.kept_segments import SegmentRelay
from databus.sources.mysql.dump.range_dumper import RangeDumper
from databus.sources.mysql.dump.shared_dump import SharedDump
from databus.sources.mysql.failover.failover import MysqlFailover, Resumption
from databus.sources.mysql.failover.former_places import FormerPlaces
from databus.sources.mysql.failover.purged_log import purged, purged_at_start
from databus.sources.mysql.failover.same_log import SameLog
from databus.sources.mysql.flow_stores import FlowStores
from databus.sources.mysql.headroom import headroom, headroom_finding
from databus.sources.mysql.positions import MysqlPositions, request_after
from databus.sources.mysql.preflight import preflight
from databus.sources.mysql.row_filters import RowFilters
from databus.sources.mysql.segments.large_value_rules import LargeValueRules
from databus.sources.mysql.segments.split import SegmentAddress, SegmentSplit
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.spec import MysqlBinlog
from databus.sources.mysql.staged_range import shared_out, source_plan
from databus.sources.mysql.tables.changes import changes_of
from databus.sources.mysql.tables.current import tables_gone, tables_now
from databus.sources.mysql.tables.definitions import MysqlDefinitions

log = logging.getLogger(__name__)


class MysqlBinlogSource:
    """An open binlog source of one flow."""

    def __init__(self, spec: MysqlBinlog, connection: Connection, context: FlowContext):
        """Prepare; connections are made when first needed.

        Args:
            spec: what the flow wrote down.
            connection: the server.
            context: flow name, settings, and who leases server ids.
        """
        self._spec, self._connection, self._context = spec, connection, context
        self._capture = TableCapture(spec.tables, spec.exclude_tables)
        self._filters = RowFilters(spec.row_filters)
        self._server = MysqlServer(connection, spec.flavor)
        self._dumps = MysqlDumps(self._server, context.server_ids)
        self._positions = MysqlPositions(self._server, self._dumps.open, context.flow)
        self._failover = MysqlFailover(self._server, self._positions)
        self._former_places = FormerPlaces(self._server, self._positions)
        self._stores = FlowStores(self._server, context.settings.segment_store, context.flow, context.staged)
        self._relay = SegmentRelay(self._server, context.settings)
        self._same_log = SameLog(self._server, self._positions, self._relay, context.flow)
        definitions = MysqlDefinitions(self._server, self._capture, self._stores.histories, self._logs_after)
        self._ranges = RangeDumper(self._dumps, self._capture, self._relay, self._stores, definitions)
        self._shared = SharedDump(context.dump_turns, self._dumps.address, self._relay)
        self._at_head = False
        self._history_known: BinlogOffset | None = None

    def preflight(self, start: Offset | None) -> Sequence[Finding]:
        """Probe settings, grants, retention, tables and the start offset; changes nothing."""
        subject = self._connection.conn_id
        try:
            findings = list(preflight(self._server, self._capture))
        except DatabusError as error:
            return [Finding.of(f"{subject}: connection", error)]
        try:
            place = self.start_offset() if start is None else start
            switch = None if start is None else self._continued(self._server.binlog(start))
            if switch is None and start is not None:
                self._same_log.check_history(self._server.binlog(start))
                self._same_log.check_created(self._server.binlog(start))
            if switch is not None:
                text = "Nothing is to be done: the next batch starts there."
                findings.append(Finding(f"{subject}: failover", Level.WARN, str(switch), text, "source_failover"))
            findings.append(Finding(f"{subject}: start", Level.OK, f"the log can be read from {place}"))
            room = self.headroom(place)
            if room is not None:
                findings.append(headroom_finding(subject, room))
        except DatabusError as error:
            findings.append(Finding.of(f"{subject}: start", error))
        return findings

    def tables_now(self) -> TablesNow:
        """Ask information_schema for the tables of the flow."""
        return tables_now(self._server, self._capture)

    def tables_gone(self, standing: Offset | None = None) -> Sequence[str]:  # noqa: ARG002 - it names no tables
        """Ask information_schema for the tables of the flow; return names and patterns without any."""
        self._ranges.tables_moved = False
        return tables_gone(self._server, self._capture)

    def tables_may_be_gone(self) -> bool:
        """Tell whether statements were read since by which tables of the flow may have come or gone."""
        return self._ranges.tables_moved

    def start_offset(self) -> BinlogOffset:
        """Resolve the spec's `start`; raises OffsetPurgedError with what can be done before a flow's first run."""
        try:
            return self._positions.named(self._spec.start)
        except OffsetPurgedError as error:
            raise purged_at_start(error) from error

    def earliest_offset(self) -> BinlogOffset:
        """Return the start of the oldest log file."""
        return self._positions.earliest()

    def latest_offset(self) -> BinlogOffset:
        """Return the head of the log."""
        return self._server.head()

    def offset_at(self, when: datetime) -> BinlogOffset:
        """Return the last transaction boundary at which every later transaction committed at or after `when`."""
        return self._relay.at_time(when) or self._positions.at_time(when)

    def boundary_at(self, when: datetime) -> LogMoment:
        """Return the place before the first transaction that committed at or after `when`, the head while none has."""
        head = self._server.head()
        found = boundary_at(self._server, self._positions, self._relay, when)
        return LogMoment(found or head, open=found is None)

    def located(self, place: Offset, standing: Offset) -> Offset:
        """Return a place as one of this server's log, on the timeline on which the flow stands; see `FormerPlaces`."""
        return self._former_places.located(self._server.binlog(place), self._server.binlog(standing))

    def plan_exactly(self, wanted: OffsetRange) -> SourcePlan:
        """Dump exactly the range between two places, whatever XA is pending at the second one.

        Raises:
            OffsetInvalidError: its end is no transaction boundary after its start.
            SourceDivergedError, OffsetPurgedError: as `plan`.
        """
        start, end = self._server.binlog(wanted.start), self._server.binlog(wanted.end)
        switch = self._continued(start)
        with self._named(start, switch):
            index = self._ranges.stage(start, switch, RangeBounds(end=end, flow=self._context.flow), None)
        if index is None:
            raise OffsetInvalidError(f"{self._server.place}: nothing lies in {wanted}")
        self._filters.check(index.tables)
        return self._described(index)

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Dump the next range after `after` into segments.

        Returns at the log's head as soon as one transaction was seen, and waits up to `limit.max_seconds` for one.
        Transactions that touch no captured table are part of the range: they move the checkpoint and count no rows.
        Heartbeats alone are no range; rotations alone are one without bytes, to the start of the newest file.

        Raises:
            SourceDivergedError, OffsetPurgedError, OffsetInvalidError: `after` is no place of this server's log (also
                not of one that replaced it under the same names), and reading cannot go on there by GTID either.
            DecodeError: the log holds something that cannot be decoded; nothing is planned past it.
            UnloggedChangeError: it goes on with a statement on partitions before which the flow is to stop.
            SourceUnavailableError: the connection was lost.
        """
        return self._plan(after, limit, stops=self._spec.on_partition_ddl == "fail")

    def plan_decided(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Plan as `plan`, but stop before no statement: what lies before the flow's checkpoint, it has passed."""
        return self._plan(after, limit, stops=False)

    def _plan(self, after: Offset, limit: Batching, *, stops: bool) -> SourcePlan | None:
        start = self._server.binlog(after)
        # A dump that goes on exactly here has shown that the place is one of this log.
        follows = self._dumps.stands_at(start)
        switch = None if follows else self._continued(start)
        if switch is None and not follows and start != self._history_known:
            self._same_log.check_history(start)
        bounds = RangeBounds(limit.max_rows, limit.max_bytes, stops=stops, flow=self._context.flow)
        if switch is not None:
            log.warning("flow %s: %s", self._context.flow, switch)
            bounds = RangeBounds(end=switch.until, stops=stops, flow=bounds.flow) if switch.until else bounds
        place, deadline = switch.place if switch else start, time.monotonic() + limit.max_seconds

        def to_head() -> RangeIndex | None:
            head = self._server.head()
            at_head = (head.file, head.pos) == (place.file, place.pos)
            return None if at_head else self._ranges.stage(start, switch, bounds, None)

        def follow() -> RangeIndex | None:
            found = None if follows or (self._dumps.streams and self._at_head) else to_head()
            return found or self._ranges.stage(start, switch, bounds, deadline)

        with self._named(start, switch):
            index = follow() if switch else self._shared.read(place, deadline, follow, to_head)
        self._at_head = index is None or not index.more
        # What is read on from here in this claim is of one log.
        self._history_known = start if index is None else self._server.binlog(index.range.end)
        if index is None:
            return None
        self._filters.check(index.tables)
        return self._described(index)

    def stream(self, *, on: bool, turns: Turns | None = None) -> None:
        """Keep the dump open from one range to the next while the flow stands at the head of the log."""
        self._dumps.streams, self._ranges.turns = on, turns
        if not on:
            self._dumps.end_followed()

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        """Describe a planned range from its segments, also those of the flow beside which this one looks.

        Dumps it again, to exactly its end, when they are gone.

        Raises:
            SourceDivergedError, OffsetPurgedError, OffsetInvalidError: the server no longer has exactly this range.
        """
        end = self._server.binlog(planned.end)
        lent = self._stores.staged_by_flow(planned, end.server)
        if lent and lent[1].capture == str(self._capture):
            return source_plan(lent[1], lent[0], self._capture)
        return self._described(self._index(planned))

    def splits(self, plan: SourcePlan, count: int) -> Sequence[SegmentSplit]:
        """Group the segments that hold anything for this flow into at most `count` splits of about equal size."""
        index = self._index(plan.range)
        self._filters.check(index.tables)
        store = self._stores.segments(self._server.binlog(plan.range.end).server)
        server = self._server.binlog(index.range.end).server
        claims = LargeValueRules(self._context.settings.segment_store, self._spec.claim_over_bytes)
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
                claims,
                log_prefix(self._server.binlog(plan.range.end).generation),
            )
            for segments in shared_out(index, count)
        ]

    def discard(self, plan: SourcePlan) -> None:
        """Delete a range's segments; kept segments and large values over the limit, too."""
        self._stores.segments(self._server.binlog(plan.range.end).server).delete(plan.range)
        self._relay.prune()

    def release(self, plan: SourcePlan) -> None:
        """Discard a committed range, and delete the kept copies of the XA transactions that it resolved."""
        self.discard(plan)
        store = self._stores.segments(self._server.binlog(plan.range.end).server)
        pending = set(self._server.binlog(plan.range.end).prepared)
        resolved = [p for p in self._server.binlog(plan.range.start).prepared if p not in pending]
        for prepared in resolved:
            store.unpin(prepared)
        for former in self._stores.former() if resolved else ():
            for prepared in resolved:
                former.unpin(prepared, named=True)

    def sweep(self, plans: StagedPlans) -> None:
        """Delete staged ranges that a kill left and nobody planned, also beside the flow's own, and copies of XA."""
        self._stores.sweep(plans)

    def lag(self, committed: Offset) -> Lag:
        """Measure bytes to the head, and the age of the first transaction that is not committed."""
        offset = self._server.binlog(committed)
        switch = self._continued(offset)
        offset = switch.place if switch else offset
        head, files = self._server.head(), self._server.log_files()
        behind = (
            sum(f.size_bytes for f in files if offset.file_number <= f.number < head.file_number)
            + head.pos
            - offset.pos
        )
        if not behind and switch is None:
            self._same_log.check_at_head(offset, head)
        with self._named(offset, switch):
            first_ms = self._first_commit_ms(offset, switch) if behind else None
        now = self._server.now()
        if first_ms is None:  # rotations at most: nothing to move
            return Lag(0, 0.0, str(head), now)
        return Lag(behind, max(0.0, now.timestamp() - first_ms / 1000), str(head), now)

    def _first_commit_ms(self, offset: BinlogOffset, switch: Resumption | None) -> int | None:
        kept = self._relay.first_commit_ms(offset)
        return kept or self._positions.first_commit_ms(offset, overlaps=switch is not None)

    def log_replaced(self, standing: Offset) -> SourceDivergedError | None:
        """Return the error that says how the server's log replaced the one of a place; None where it is the same."""
        return self._same_log.replaced(self._server.binlog(standing))

    def forget_former_log(self, standing: Offset) -> None:
        """Delete what is kept under this server's name of a log that was replaced: segments and tables' definitions."""
        self._relay.forget(self._server.binlog(standing), self._positions.file_start)
        self._stores.forget()

    def changed_since(self, after: Offset) -> bool:
        """Tell whether a captured table was changed behind a place; True where the log does not tell."""
        offset = self._server.binlog(after)
        if offset.server != self._server.identity:
            return True
        changes = changes_of(self._server, self._dumps.address, offset.generation)
        return changes.since(offset, self._capture, self._server, self._dumps.open)

    def rest(self) -> None:
        """Close the control connection; the next question opens one again, and what the server is stays known."""
        self._server.close()

    def headroom(self, committed: Offset) -> Headroom | None:
        """Measure how long the server still keeps what follows an offset; None for one of another server."""
        offset = self._server.binlog(committed)
        if offset.server and offset.server != self._server.identity:
            return None
        return headroom(self._server, offset, self._positions.created_s, self._spec.headroom_s)

    def close(self) -> None:
        """End a running dump, give the server id back, close the control connection; safe to call twice."""
        self._ranges.close()
        self._dumps.return_id()
        self._server.close()

    def _named(self, offset: BinlogOffset, switch: Resumption | None) -> AbstractContextManager[None]:
        """Name a replaced log where reading from a place of this server fails."""
        return self._same_log.naming(offset) if switch is None else nullcontext()

    def _continued(self, offset: BinlogOffset) -> Resumption | None:
        """Return how a checkpoint of another server is read on; check one of this server, and return None."""
        if self._failover.concerns(offset):
            return self._failover.resume(offset)
        if self._positions.is_deleted(offset) and self._relay.log_from(offset):
            return None
        try:
            self._positions.check(offset)
        except OffsetPurgedError as error:
            kept = self._relay.first_after(offset)
            kept = None if kept is None else kept.counted_as(offset)
            if kept is None or error.missing is None or kept.compare(error.missing.end) is not Ordering.BEFORE:
                raise
            raise purged(self._server.place, offset, kept, self._context.flow) from None
        return None

    def _described(self, index: RangeIndex) -> SourcePlan:
        store = self._stores.segments(self._server.binlog(index.range.end).server)
        return source_plan(index, store, self._capture)

    def _index(self, planned: OffsetRange) -> RangeIndex:
        start, end = self._server.binlog(planned.start), self._server.binlog(planned.end)
        index = self._stores.segments(end.server).find(planned)
        if index is not None and index.capture == str(self._capture):
            return index
        if self._failover.concerns(end):
            raise SourceDivergedError(
                f"{self._server.place}: the range {planned} was planned from server {end.server}, and its "
                f"segments are gone; this is server {self._server.identity}",
                hint="Bring back the segment store (DATABUS_SEGMENT_STORE) or the former server until this one batch "
                "is committed; what follows is read by GTID.",
            )
        switch = self._continued(start)
        kept = None if switch else self._relay.log_from(start)
        if kept is None or not kept.reaches(end):
            self._positions.check(end)
        log.info("segments of %s are not in the store: dumping the range again", planned)
        with self._named(start, switch):
            again = self._ranges.stage(start, switch, RangeBounds(end=end, flow=self._context.flow), None)
        if again is None or again.range != planned:
            ends = self._server.binlog
            got = "nothing" if again is None else f"{again.range} with GTIDs {ends(again.range.end).gtids}"
            raise OffsetInvalidError(
                f"{self._server.place}: the range {planned} with GTIDs {end.gtids} was "
                f"planned, but the server now has {got}",
                hint="The server's log is not the one that was planned from; compare "
                "its uuid and GTIDs before any rewind.",
            )
        return again

    def _logs_after(self, start: BinlogOffset) -> Iterator[Dump | KeptLog]:
        """Yield what to read for the log from an offset to its head: what is kept, then the rest from the server."""
        kept = self._relay.log_from(start)
        if kept is not None:
            yield kept
            start, head, earliest = kept.end, self._server.head(), self._positions.earliest()
            if (start.file, start.pos) == (head.file, head.pos):
                return
            if start.file_number < earliest.file_number and start.same_gtids(earliest):
                start = earliest
        yield self._dumps.open(request_after(start, follow=False))
