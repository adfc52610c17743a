"""The open binlog source: plans ranges by dumping them once into segments, and hands the segments out as splits."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from databus.binlog.capture import TableCapture
from databus.binlog.dump import Dump, DumpRequest
from databus.binlog.kept_log import KeptLog
from databus.binlog.log_walk import LogWalk
from databus.binlog.range_staging import RangeBounds, RangeStager
from databus.binlog.schema_history.store import HistoryStore
from databus.binlog.segment_store import SegmentStore
from databus.binlog.segments import RangeIndex
from databus.core.connections import Connection
from databus.core.errors import (
    DatabusError,
    OffsetInvalidError,
    OffsetPurgedError,
    SegmentStoreFullError,
    SourceDivergedError,
    SourceUnavailableError,
)
from databus.core.findings import Finding, Level
from databus.core.flow import Batching, FlowContext
from databus.core.lag import Headroom, Lag
from databus.core.offsets import BinlogOffset, Offset, OffsetRange, Ordering
from databus.core.plan import SourcePlan
from databus.sources.claim_rules import ClaimRules
from databus.sources.dump_retries import DumpRetries
from databus.sources.followed_dump import FollowedDump
from databus.sources.mysql_binlog import MysqlBinlog
from databus.sources.mysql_boundaries import boundary_at
from databus.sources.mysql_definitions import DefinitionMissingError, MysqlDefinitions
from databus.sources.mysql_failover import MysqlFailover, Resumption
from databus.sources.mysql_headroom import headroom
from databus.sources.mysql_positions import MysqlPositions, request_after
from databus.sources.mysql_preflight import preflight
from databus.sources.mysql_purged import purged
from databus.sources.mysql_server import MysqlServer
from databus.sources.prepared_transactions import PreparedTransactions
from databus.sources.row_filters import RowFilters
from databus.sources.segment_relay import SegmentRelay
from databus.sources.segment_split import SegmentAddress, SegmentSplit
from databus.sources.shared_dump import SharedDump

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
        self._positions = MysqlPositions(self._server, self._dump)
        self._definitions = MysqlDefinitions(self._server, self._capture, self._history_store, self._logs_after)
        self._failover = MysqlFailover(self._server, self._positions)
        self._server_id = 0
        self._dumping: Dump | FollowedDump | KeptLog | None = None
        self._streams = self._at_head = False
        self._followed: FollowedDump | None = None
        self._stores: dict[str, SegmentStore] = {}
        self._relay = SegmentRelay(self._server, context.settings)
        self._shared = SharedDump(context.dump_turns, self._address(), self._relay)

    def preflight(self, start: Offset | None) -> Sequence[Finding]:
        """Probe settings, grants, retention, tables and the start offset; changes nothing."""
        subject = self._connection.conn_id
        try:
            findings = list(preflight(self._server, self._capture))
        except DatabusError as error:
            return [Finding(f"{subject}: connection", Level.ERROR, error.message, error.hint, error.code)]
        try:
            place = self.start_offset() if start is None else start
            switch = None if start is None else self._continued(self._binlog(start))
            if switch is not None:
                text = "Nothing is to be done: the next batch starts there."
                findings.append(Finding(f"{subject}: failover", Level.WARN, str(switch), text, "source_failover"))
            findings.append(Finding(f"{subject}: start", Level.OK, f"the log can be read from {place}"))
            room = self.headroom(place)
            if room is not None:
                level = Level.WARN if room.low else Level.OK
                hint = "Run the flow, or raise binlog_expire_logs_seconds, before the server deletes it."
                findings.append(
                    Finding(
                        f"{subject}: headroom", level, str(room), *((hint, "source_headroom") if room.low else ("", ""))
                    )
                )
        except DatabusError as error:
            findings.append(Finding(f"{subject}: start", Level.ERROR, error.message, error.hint, error.code))
        return findings

    def start_offset(self) -> BinlogOffset:
        """Resolve the spec's `start`."""
        return self._positions.named(self._spec.start)

    def earliest_offset(self) -> BinlogOffset:
        """Return the start of the oldest log file."""
        return self._positions.earliest()

    def latest_offset(self) -> BinlogOffset:
        """Return the head of the log."""
        return self._server.head()

    def offset_at(self, when: datetime) -> BinlogOffset:
        """Return the last transaction boundary at which every later transaction committed at or after `when`."""
        return self._relay.at_time(when) or self._positions.at_time(when)

    def boundary_at(self, when: datetime) -> BinlogOffset | None:
        """Return the place before the first transaction that committed at or after `when`; None while there is none."""
        return boundary_at(self._server, self._positions, self._relay, when)

    def plan_until(self, after: Offset, until: Offset) -> SourcePlan:
        """Dump exactly the range between two places, whatever XA is pending at the second one.

        Raises:
            OffsetInvalidError: `until` is no transaction boundary after `after`.
            SourceDivergedError, OffsetPurgedError: as `plan`.
        """
        start, end = self._binlog(after), self._binlog(until)
        index = self._stage(start, self._continued(start), RangeBounds(end=end), None)
        if index is None:
            raise OffsetInvalidError(f"{self._server.place}: nothing lies between {after} and {until}")
        self._filters.check(index.tables)
        return _plan(index)

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Dump the next range after `after` into segments.

        Returns at the log's head as soon as one transaction was seen, and waits up to `limit.max_seconds` for one.
        Transactions that touch no captured table are part of the range: they move the checkpoint and count no rows.
        Heartbeats alone are no range; rotations alone are one without bytes, to the start of the newest file.

        Raises:
            SourceDivergedError, OffsetPurgedError, OffsetInvalidError: `after` is no place of this server's log, and
                reading cannot go on there by GTID either.
            DecodeError: the log holds something that cannot be decoded; nothing is planned past it.
            SourceUnavailableError: the connection was lost.
        """
        start = self._binlog(after)
        # A dump that goes on exactly here has shown that the place is one of this log.
        follows = self._followed is not None and self._followed.stands_at(start)
        switch = None if follows else self._continued(start)
        bounds = RangeBounds(limit.max_rows, limit.max_bytes)
        if switch is not None:
            log.warning("flow %s: %s", self._context.flow, switch)
            bounds = RangeBounds(end=switch.until) if switch.until else bounds
        place, deadline = switch.place if switch else start, time.monotonic() + limit.max_seconds

        def to_head() -> RangeIndex | None:
            head = self._server.head()
            return (
                None if (head.file, head.pos) == (place.file, place.pos) else self._stage(start, switch, bounds, None)
            )

        def follow() -> RangeIndex | None:
            found = None if follows or (self._streams and self._at_head) else to_head()
            return found or self._stage(start, switch, bounds, deadline)

        index = follow() if switch else self._shared.read(place, deadline, follow, to_head)
        self._at_head = index is None or not index.more
        if index is None:
            return None
        self._filters.check(index.tables)
        return _plan(index)

    def stream(self, *, on: bool) -> None:
        """Keep the dump open from one range to the next while the flow stands at the head of the log."""
        self._streams = on
        if not on:
            self._end_followed()

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        """Describe a planned range from its segments; dumps it again, to exactly its end, when they are gone.

        Raises:
            SourceDivergedError, OffsetPurgedError, OffsetInvalidError: the server no longer has exactly this range.
        """
        return _plan(self._index(planned))

    def splits(self, plan: SourcePlan, count: int) -> Sequence[SegmentSplit]:
        """Group the segments that hold anything for this flow into at most `count` splits of about equal size."""
        index = self._index(plan.range)
        self._filters.check(index.tables)
        store = self._store(self._binlog(plan.range.end).server)
        wanted = [s for s in index.segments if s.rows or s.table_events]
        if not wanted:
            return []
        share = sum(s.size_bytes for s in wanted) / max(1, count)
        groups: dict[int, list[SegmentAddress]] = {}
        passed = 0
        for segment in wanted:
            group = min(max(1, count) - 1, int((passed + segment.size_bytes / 2) / share))
            address = SegmentAddress(
                store.address(index, segment), segment.file, segment.start_pos, sum(segment.rows.values()),
                segment.commits,
            )  # fmt: skip
            groups.setdefault(group, []).append(address)
            passed += segment.size_bytes
        server = self._binlog(index.range.end).server
        claims = ClaimRules(self._context.settings.segment_store, self._spec.claim_over_bytes)
        return [
            SegmentSplit(
                tuple(g),
                self._capture,
                index.tables,
                server,
                self._spec.decoder,
                index.definitions,
                self._filters,
                claims,
            )
            for _, g in sorted(groups.items())
        ]

    def release(self, plan: SourcePlan) -> None:
        """Delete a committed range's segments, pins of XA that it resolved, kept segments and claims over the limit."""
        store = self._store(self._binlog(plan.range.end).server)
        store.delete(plan.range)
        pending = set(self._binlog(plan.range.end).prepared)
        for prepared in self._binlog(plan.range.start).prepared:
            if prepared not in pending:
                store.unpin(prepared)
        self._relay.prune()

    def lag(self, committed: Offset) -> Lag:
        """Measure bytes to the head, and the age of the first transaction that is not committed."""
        offset = self._binlog(committed)
        switch = self._continued(offset)
        offset = switch.place if switch else offset
        head, files = self._server.head(), self._server.log_files()
        behind = (
            sum(f.size_bytes for f in files if offset.file_number <= f.number < head.file_number)
            + head.pos
            - offset.pos
        )
        first_ms = (self._relay.first_commit_ms(offset) or self._positions.first_commit_ms(offset)) if behind else None
        now = self._server.now()
        if first_ms is None:  # rotations at most: nothing to move
            return Lag(0, 0.0, str(head), now)
        return Lag(behind, max(0.0, now.timestamp() - first_ms / 1000), str(head), now)

    def headroom(self, committed: Offset) -> Headroom | None:
        """Measure how long the server still keeps what follows an offset; None for one of another server."""
        offset = self._binlog(committed)
        if offset.server and offset.server != self._server.identity:
            return None
        return headroom(self._server, offset, self._positions.created_s, self._spec.headroom_s)

    def close(self) -> None:
        """End a running dump, give the server id back, close the control connection; safe to call twice."""
        self._end_followed()
        if self._dumping is not None:
            self._dumping.close()
            self._dumping = None
        self._return_server_id()
        self._server.close()

    def _return_server_id(self) -> None:
        if self._server_id and self._context.server_ids is not None:
            self._context.server_ids.release(self._address(), self._server_id)
        self._server_id = 0

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
            if kept is None or error.missing is None or kept.compare(error.missing.end) is not Ordering.BEFORE:
                raise
            raise purged(self._server.place, offset, kept) from None
        return None

    def _index(self, planned: OffsetRange) -> RangeIndex:
        start, end = self._binlog(planned.start), self._binlog(planned.end)
        index = self._store(end.server).find(planned)
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
        again = self._stage(start, switch, RangeBounds(end=end), None)
        if again is None or again.range != planned:
            got = "nothing" if again is None else f"{again.range} with GTIDs {self._binlog(again.range.end).gtids}"
            raise OffsetInvalidError(
                f"{self._server.place}: the range {planned} with GTIDs {end.gtids} was "
                f"planned, but the server now has {got}",
                hint="The server's log is not the one that was planned from; compare "
                "its uuid and GTIDs before any rewind.",
            )
        return again

    def _stage(
        self, after: BinlogOffset, switch: Resumption | None, bounds: RangeBounds, deadline: float | None
    ) -> RangeIndex | None:
        """Dump a range into the store: to the head of the log, or with a deadline following it until something came."""
        start = switch.place if switch else after
        finder = PreparedTransactions(self._server, self._second_dump, self._store())
        bounds = dataclasses.replace(bounds, fetch_prepare=finder.fetch)
        if switch is not None:
            bounds = dataclasses.replace(bounds, without=switch.delivered)
        identity, retries = self._server.identity, DumpRetries(self._server.place, self._return_server_id)
        while True:
            try:
                index = self._stage_once(start, after, bounds, deadline)
            except DefinitionMissingError as missing:
                self._definitions.learn(missing, start)
            except SegmentStoreFullError:
                raise
            except SourceUnavailableError as lost:
                retries.after(lost)
                if self._server.identity != identity:  # file and position mean something else there
                    raise
            else:
                return index

    def _stage_once(
        self, start: BinlogOffset, after: BinlogOffset, bounds: RangeBounds, deadline: float | None
    ) -> RangeIndex | None:
        kept = self._relay.log_from(start) if deadline is None and bounds.without is None else None
        if kept is not None and bounds.end is not None and not kept.reaches(bounds.end):
            kept = None
        definitions = self._definitions.begin(start)
        store = self._store()
        staging = store.stage()
        walk = LogWalk(self._capture, f"{self._server.place}: {start}", definitions)
        stager = RangeStager(staging.folder, walk, self._capture, start, bounds)
        try:
            with kept or self._reading(start, bounds, deadline, staging.folder) as dump:
                full = self._follow(dump, walk, stager, deadline)
            index = stager.finish(more=full)
            if full or not (
                self._followed and self._followed.ends_at(self._binlog(index.range.end) if index else start)
            ):
                self._end_followed()
            if index is None:
                staging.discard()
                return None
            if full or kept:
                head = self._server.head()
                end = self._binlog(index.range.end)
                index = dataclasses.replace(index, more=(end.file_number, end.pos) < (head.file_number, head.pos))
            end = self._binlog(index.range.end)
            self._definitions.end(end)
            # After a failover the range begins where it was planned: in the former server's log.
            index = dataclasses.replace(
                index, definitions=definitions.used(end), range=OffsetRange(after, index.range.end)
            )
            for pin in stager.pins(staging.folder):
                store.pin(pin)
            if kept is None and bounds.without is None:
                self._relay.keep(staging.folder, index)
            store.publish(staging, index)
        except BaseException:
            self._end_followed()
            stager.discard()
            staging.discard()
            raise
        return index

    def _reading(
        self, start: BinlogOffset, bounds: RangeBounds, deadline: float | None, spool: Path
    ) -> Dump | FollowedDump:
        if not self._streams or deadline is None or bounds.without is not None:
            return self._dump(request_after(start, follow=deadline is not None), spool)
        if self._followed is None or not self._followed.stands_at(start):
            self._followed = FollowedDump(self._dump(request_after(start, follow=True)), start)
        return self._followed

    def _end_followed(self) -> None:
        if self._followed is not None:
            self._followed.close()
            self._followed = None

    def _follow(
        self, dump: Dump | FollowedDump | KeptLog, walk: LogWalk, stager: RangeStager, deadline: float | None
    ) -> bool:
        """Feed the stager; True when it reached its bounds, False at the log's head or when the waiting was over."""

        def until() -> float:
            # Once a transaction is there, only take what has arrived already.
            assert deadline is not None  # noqa: S101 - asked in following dumps only
            return 0.0 if stager.transactions else deadline

        self._dumping = dump
        for batch in dump.batches(None if deadline is None else until):
            for piece in walk.walk(batch):
                if isinstance(dump, FollowedDump):
                    dump.passed(piece)
                if stager.take(piece):
                    return True
            if deadline is not None and (batch.waited or (stager.transactions and time.monotonic() > deadline)):
                return False
        return False

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
        yield self._dump(request_after(start, follow=False))

    def _dump(self, request: DumpRequest, spool: Path | None = None) -> Dump:
        self._end_followed()  # two dumps under one server id would end each other
        if not self._server_id and self._context.server_ids is not None:
            self._server_id = self._context.server_ids.lease(self._address())
        return Dump(
            self._connection,
            dataclasses.replace(request, server_id=self._server_id, server=self._server.identity),
            spool,
        )

    @contextlib.contextmanager
    def _second_dump(self, request: DumpRequest) -> Iterator[Dump]:
        """Dump beside a running dump, under a server id of its own: a server ends the older of two with one id."""
        leases, address = self._context.server_ids, self._address()
        server_id = leases.lease(address) if leases is not None else 0
        try:
            with Dump(self._connection, dataclasses.replace(request, server_id=server_id)) as dump:
                yield dump
        finally:
            if leases is not None:
                leases.release(address, server_id)

    def _address(self) -> str:
        return f"{self._connection.host or 'localhost'}:{self._connection.port or 3306}"

    def _store(self, server: str = "") -> SegmentStore:
        """Return the store of this server's segments, or of a former server's."""
        server = server or self._server.identity
        if server not in self._stores:
            self._stores[server] = SegmentStore(self._context.settings.segment_store, self._context.flow, server)
        return self._stores[server]

    def _history_store(self) -> HistoryStore:
        # A backfill of a flow knows the tables as the flow does.
        flow = self._context.flow.partition(".")[0]
        return HistoryStore(self._context.settings.segment_store, flow, self._server.identity)

    def _binlog(self, offset: Offset) -> BinlogOffset:
        if not isinstance(offset, BinlogOffset):
            raise OffsetInvalidError(
                f"{self._server.place}: {offset} is an offset of kind {offset.kind}, not of a binlog",
                hint="Reset the flow's checkpoint.",
            )
        return offset


def _plan(index: RangeIndex) -> SourcePlan:
    def at(stamp_ms: int | None) -> datetime | None:
        return None if stamp_ms is None else datetime.fromtimestamp(stamp_ms / 1000, UTC)

    statements = sum(len(segment.table_events) for segment in index.segments)
    first, newest = at(index.first_ts_ms), at(index.max_ts_ms)
    return SourcePlan(index.range, index.tables, index.rows, index.bytes, first, newest, index.more, statements)
