"""Dumping one range of a server's log into segments: begun again after a cut, published whole or not at all."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from pathlib import Path

from databus.binlog.log.capture import TableCapture
from databus.binlog.segments.kept_log import KeptLog
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.range_staging import RangeStager
from databus.binlog.segments.segment import RangeIndex
from databus.binlog.server.dump import Dump
from databus.binlog.server.log_walk import LogWalk
from databus.core.errors.source import SegmentStoreFullError, ServerIdTakenError, SourceUnavailableError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.protocols.optional_source import Turns
from databus.sources.mysql.dump.dumps import MysqlDumps
from databus.sources.mysql.dump.kept_segments import SegmentRelay
from databus.sources.mysql.dump.open_dump import FollowedDump
from databus.sources.mysql.failover.failover import Resumption
from databus.sources.mysql.failover.replaced_log import ReplacedLogCheck
from databus.sources.mysql.flow_stores import FlowStores
from databus.sources.mysql.positions import request_after
from databus.sources.mysql.segments.prepared_transactions import PreparedTransactions
from databus.sources.mysql.tables.definitions import DefinitionMissingError, MysqlDefinitions
from databus.sources.mysql.tables.information_schema import MysqlColumns
from databus.sources.mysql.tables.visibility import MysqlSight

log = logging.getLogger(__name__)

PAUSES_S = (0.2, 1.0, 3.0, 5.0, 5.0)
"""Pauses between attempts; together longer than a server's restart takes."""


class DumpRetries:
    """Counts the attempts of one range, and takes another server id where another reader has this one."""

    def __init__(self, place: str, renew_id: Callable[[], None], pauses_s: tuple[float, ...] = PAUSES_S):
        """Begin to count.

        Args:
            place: the server, for the log.
            renew_id: gives the server id back and leases another at the next dump.
            pauses_s: pause before each further attempt.
        """
        self._place, self._renew_id = place, renew_id
        self._pauses = list(pauses_s)

    def after(self, error: SourceUnavailableError) -> None:
        """Wait before the next attempt.

        Raises:
            SourceUnavailableError: the error given, after the last attempt.
        """
        if isinstance(error, ServerIdTakenError):
            self._renew_id()
        if not self._pauses:
            raise error
        pause_s = self._pauses.pop(0)
        log.warning("%s: dumping the range again in %g s: %s", self._place, pause_s, error)
        time.sleep(pause_s)


class RangeDumper:
    """Stages ranges of one server's log for one flow, from what others kept of it or from a dump."""

    def __init__(
        self,
        dumps: MysqlDumps,
        capture: TableCapture,
        relay: SegmentRelay,
        stores: FlowStores,
        definitions: MysqlDefinitions,
    ):
        """Prepare; nothing is read.

        Args:
            dumps: opens dumps of the server.
            capture: the flow's tables.
            relay: what flows keep of the log for each other.
            stores: where segments go.
            definitions: completes tables whose events do not describe them.
        """
        self._dumps, self._server = dumps, dumps.server
        self.capture, self._relay, self._stores, self._definitions = capture, relay, stores, definitions
        self._running: Dump | FollowedDump | KeptLog | None = None
        self.turns: Turns | None = None
        self.tables_moved = False
        """Whether what was read since somebody set it back holds a statement by which the flow's tables come or go."""

    def stage(
        self, after: BinlogOffset, switch: Resumption | None, bounds: RangeBounds, deadline: float | None
    ) -> RangeIndex | None:
        """Dump a range into the store: to the head of the log, or with a deadline following it until something came.

        Args:
            after: where the range begins.
            switch: how reading goes on there after a failover; None on the server that `after` is of.
            bounds: where the range ends at the latest.
            deadline: monotonic time until which to wait at the head for a transaction; None to end at the head.

        Returns:
            What was staged; None when there was nothing.

        Raises:
            OffsetInvalidError, DecodeError: see `LogWalk` and `RangeStager`.
            SourceDivergedError: the log was replaced since `after` was read.
            SegmentStoreFullError: there is no room; nothing is left behind.
            SourceUnavailableError: the connection was lost again and again, or another server answers now.
        """
        start = switch.place if switch else after
        finder = PreparedTransactions(self._server, self._dumps.beside, self._stores, self._relay, start)
        bounds = dataclasses.replace(bounds, fetch_prepare=finder.fetch)
        if switch is not None:
            bounds = dataclasses.replace(bounds, without=switch.delivered)
        identity, retries = self._server.identity, DumpRetries(self._server.place, self._dumps.return_id)
        while True:
            try:
                index = self._once(start, after, bounds, deadline)
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

    def _once(
        self, start: BinlogOffset, after: BinlogOffset, bounds: RangeBounds, deadline: float | None
    ) -> RangeIndex | None:
        kept = self._relay.log_from(start) if deadline is None and bounds.without is None else None
        if kept is not None and not all(kept.reaches(place) for place in (bounds.end, bounds.through) if place):
            kept = None
        definitions = self._definitions.begin(start)
        store = self._stores.segments()
        staging = store.stage()
        capture = dataclasses.replace(self.capture, folds=self._server.folds_names)
        place = f"{self._server.place}: {start}"
        walk = LogWalk(
            capture,
            place,
            definitions,
            definitions.of_prepare,
            passes_statements=True,
            exists=self._exists,
        )
        stager = RangeStager(staging.folder, walk, capture, start, bounds)
        try:
            with kept or self._reading(start, bounds, deadline, staging.folder) as dump:
                overlaps = bounds.without is not None
                check = ReplacedLogCheck(self._server.place, start, bounds.flow, overlaps=overlaps)
                full = self._follow(dump, walk, stager, check, deadline)
            self.tables_moved = self.tables_moved or walk.moved
            index = stager.finish(more=full)
            end = self._server.binlog(index.range.end) if index else start
            if full or not self._dumps.stands_at(end):
                self._dumps.end_followed()
            if index is None:
                staging.discard()
                return None
            if full or kept:
                head = self._server.head()
                index = dataclasses.replace(index, more=(end.file_number, end.pos) < (head.file_number, head.pos))
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
            self._dumps.end_followed()
            stager.discard()
            staging.discard()
            raise
        return index

    def _exists(self, database: str, table: str) -> bool:
        """Return whether there is a captured table beside temporary ones, or may be, out of the account's sight."""
        return (
            f"{database}.{table}" in self.capture.include
            or MysqlColumns(self._server).has(database, table)
            or not MysqlSight.of(self._server.query("SHOW GRANTS")).shows(database, table)
        )

    def _reading(
        self, start: BinlogOffset, bounds: RangeBounds, deadline: float | None, spool: Path
    ) -> Dump | FollowedDump:
        if deadline is None or bounds.without is not None:
            return self._dumps.open(request_after(start, follow=deadline is not None), spool)
        return self._dumps.following(start, spool)

    def _follow(
        self,
        dump: Dump | FollowedDump | KeptLog,
        walk: LogWalk,
        stager: RangeStager,
        check: ReplacedLogCheck,
        deadline: float | None,
    ) -> bool:
        """Feed the stager; True when it reached its bounds, False at the log's head or when the waiting was over."""

        def until() -> float:
            # Once a transaction is there, only take what has arrived already.
            assert deadline is not None  # noqa: S101 - asked in following dumps only
            if stager.transactions:
                return 0.0
            if self.turns is not None:
                self.turns.give_back()  # nobody is kept waiting by who waits for changes
            return deadline

        self._running = dump
        for batch in dump.batches(None if deadline is None else until):
            if self.turns is not None and deadline is not None and batch.arrived:
                self.turns.take()
            for piece in walk.walk(batch):
                check.look(piece)
                if isinstance(dump, FollowedDump):
                    dump.passed(piece)
                if stager.take(piece):
                    return True
            if deadline is not None and (batch.waited or (stager.transactions and time.monotonic() > deadline)):
                return False
        return False

    def close(self) -> None:
        """End a running dump; safe to call twice."""
        self._dumps.end_followed()
        if self._running is not None:
            self._running.close()
            self._running = None
