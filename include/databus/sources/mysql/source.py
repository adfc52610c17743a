"""The open binlog source: plans ranges by dumping them once into segments, and hands the segments out as splits."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from databus.binlog.log.capture import TableCapture
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.segment import RangeIndex
from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.errors.root import DatabusError
from databus.core.errors.source import OffsetPurgedError, SourceDivergedError
from databus.core.findings import Finding, Level
from databus.core.flow_specs import FlowContext
from databus.core.positions.lag import Headroom, Lag
from databus.core.positions.offsets import BinlogOffset, Offset, OffsetRange
from databus.core.protocols.optional_source import Turns
from databus.core.protocols.splits import DirectSplit
from databus.core.protocols.staging import StagedPlans
from databus.core.state.backfill import LogMoment
from databus.core.state.plan import SourcePlan
from databus.core.tables.wanted import TablesNow
from databus.sources.mysql.boundaries import boundary_at
from databus.sources.mysql.dump.range_dumper import RangeDumper
from databus.sources.mysql.dump.shared_dump import SharedDump
from databus.sources.mysql.failover.former_places import FormerPlaces
from databus.sources.mysql.failover.purged_log import purged_at_start
from databus.sources.mysql.flow_log import FlowLog
from databus.sources.mysql.headroom import headroom, headroom_finding
from databus.sources.mysql.planned_ranges import PlannedRanges
from databus.sources.mysql.preflight import preflight
from databus.sources.mysql.row_filters import RowFilters
from databus.sources.mysql.segments.address import LargeValueRules
from databus.sources.mysql.snapshot.chunk_planning import ChunkPlanner
from databus.sources.mysql.snapshot.server_load import ServerLoad
from databus.sources.mysql.snapshot.snapshot_preflight import or_without_rows
from databus.sources.mysql.spec import MysqlBinlog
from databus.sources.mysql.table_reads import MysqlTableReads
from databus.sources.mysql.tables.changes import changes_of
from databus.sources.mysql.tables.current import tables_gone, tables_now
from databus.sources.mysql.tables.definitions import MysqlDefinitions

log = logging.getLogger(__name__)


class MysqlBinlogSource(MysqlTableReads):
    """An open binlog source of one flow."""

    def __init__(
        self,
        spec: MysqlBinlog,
        connection: Connection,
        context: FlowContext,
        replicas: Mapping[str, Connection] = MappingProxyType({}),
    ):
        """Prepare; connections are made when first needed.

        Args:
            spec: what the flow wrote down.
            connection: the server.
            context: flow name, settings, and who leases server ids.
            replicas: conn_id → those of its replicas that the spec names.
        """
        self._spec, self._connection, self._context = spec, connection, context
        self._capture = TableCapture(spec.tables, spec.exclude_tables)
        self._filters = RowFilters(spec.row_filters)
        self._log = FlowLog(connection, spec, context)
        self._server, self._positions, self._relay = self._log.server, self._log.positions, self._log.relay
        self._dumps, self._stores, self._same_log = self._log.dumps, self._log.stores, self._log.same_log
        self._former_places = FormerPlaces(self._server, self._positions)
        definitions = MysqlDefinitions(self._server, self._capture, self._stores.histories, self._log.after)
        self._ranges = RangeDumper(self._dumps, self._capture, self._relay, self._stores, definitions)
        self._large = large = LargeValueRules(context.settings.segment_store, spec.large_values_over_bytes)
        self._planned = PlannedRanges(self._ranges, self._log, self._filters, spec, large)
        self._chunks = ChunkPlanner(self._log, self._ranges, self._planned, self._filters, spec, replicas)
        self._load = ServerLoad(self._server, replicas, spec.snapshot_options)
        self._shared = SharedDump(context.dump_turns, self._dumps.address, self._relay)
        self._at_head = False
        self._history_known: BinlogOffset | None = None

    def preflight(self, start: Offset | None) -> Sequence[Finding]:
        """Probe settings, grants, retention, tables and the start offset; changes nothing."""
        subject = self._connection.conn_id
        try:
            findings = list(preflight(self._server, self._capture))
            if self._spec.begins_with_snapshot() and start is None:
                findings += map(or_without_rows, self.snapshot_findings())
        except DatabusError as error:
            return [Finding.of(f"{subject}: connection", error)]
        try:
            place = self.start_offset() if start is None else start
            switch = None if start is None else self._log.continued(self._server.binlog(start))
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
        """Return whether statements were read since by which tables of the flow may have come or gone."""
        return self._ranges.tables_moved

    def start_offset(self) -> BinlogOffset:
        """Resolve the spec's `start`; raises OffsetPurgedError with what can be done before a flow's first run."""
        try:
            place = self._positions.named(self._spec.start)
        except OffsetPurgedError as error:
            raise purged_at_start(error) from error
        if self._spec.begins_with_snapshot() and place.flavor == "mysql" and place.gtids:
            # The server counts a transaction as executed after it is in the log: the log itself says what lies before.
            return self._positions.at_position(place.file, place.pos)
        return place

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
        return self._planned.exactly(wanted)

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
        self._chunks.drop_ahead()
        start = self._server.binlog(after)
        # A dump that goes on exactly here has shown that the place is one of this log.
        follows = self._dumps.stands_at(start)
        switch = None if follows else self._log.continued(start)
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

        with self._log.naming(start, switch):
            index = follow() if switch else self._shared.read(place, deadline, follow, to_head)
        self._at_head = index is None or not index.more
        # What is read on from here in this claim is of one log.
        self._history_known = start if index is None else self._server.binlog(index.range.end)
        if index is None:
            return None
        self._filters.check(index.tables)
        return self._planned.described(index)

    def stream(self, *, on: bool, turns: Turns | None = None) -> None:
        """Keep the dump open from one range to the next while the flow stands at the head of the log."""
        self._dumps.streams, self._ranges.turns = on, turns
        if not on:
            self._dumps.end_followed()

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        """Describe a planned range from its segments; see `PlannedRanges`."""
        return self._planned.reopen(planned)

    def splits(self, plan: SourcePlan, count: int) -> Sequence[DirectSplit]:
        """Group the segments that hold anything for this flow into at most `count` splits of about equal size.

        Chunks of a snapshot are one more, which stands before them.
        """
        chunks = self._chunks.splits(plan, count, self._large)
        return [*chunks, *self._planned.splits(plan, max(1, count - len(chunks)))]

    def discard(self, plan: SourcePlan) -> None:
        """Delete a range's segments; kept segments and large values over the limit, too."""
        self._planned.discard(plan)

    def release(self, plan: SourcePlan) -> None:
        """Discard a committed range, and delete the kept copies of the XA transactions that it resolved."""
        self._planned.release(plan)
        self._chunks.discard(plan)

    def sweep(self, plans: StagedPlans) -> None:
        """Delete staged ranges that a kill left and nobody planned, also beside the flow's own, and copies of XA."""
        self._stores.sweep(plans)

    def lag(self, committed: Offset) -> Lag:
        """Measure bytes to the head, and the age of the first transaction that is not committed."""
        return self._log.lag(self._server.binlog(committed))

    def log_replaced(self, standing: Offset) -> SourceDivergedError | None:
        """Return the error that says how the server's log replaced the one of a place; None where it is the same."""
        return self._same_log.replaced(self._server.binlog(standing))

    def forget_former_log(self, standing: Offset) -> None:
        """Delete what is kept under this server's name of a log that was replaced: segments and tables' definitions."""
        self._relay.forget(self._server.binlog(standing), self._positions.file_start)
        self._stores.forget()

    def changed_since(self, after: Offset) -> bool:
        """Return whether a captured table was changed behind a place; True where the log does not report."""
        offset = self._server.binlog(after)
        if offset.server != self._server.identity:
            return True
        changes = changes_of(self._server, self._dumps.address, offset.generation)
        return changes.since(offset, self._capture, self._server, self._dumps.open)

    def rest(self) -> None:
        """Close the control connection; the next question opens one again, and what the server is stays known."""
        self._chunks.rest()
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
        self.rest()
        self._load.close()
