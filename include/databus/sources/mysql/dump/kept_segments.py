"""Relay of kept segments: one flow's dump serves the server's other flows, and backfills past its own retention."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.transactions.executed_gtids import ExecutedGtids
from databus.binlog.segments.former_segments import former_segments
from databus.binlog.segments.kept_log import KeptLog, chain_from
from databus.binlog.segments.kept_segments import KeptSegment, KeptSegments
from databus.binlog.segments.large_values import LargeValueStore
from databus.binlog.segments.retention import KeepLimit
from databus.binlog.segments.segment import RangeIndex
from databus.binlog.server.log_walk import LogWalk
from databus.binlog.server.stretches import WalkedStretch
from databus.core.errors.root import DatabusError
from databus.core.errors.source import OffsetInvalidError
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset
from databus.core.settings import Settings
from databus.sources.mysql.positions import CLOCK_SLACK
from databus.sources.mysql.server import MysqlServer, ServerLogFile

log = logging.getLogger(__name__)

_VALUES_EVERY_S = 3600.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TABLES = TableCapture(("re:",))


class SegmentRelay:
    """Kept segments of the server that a source reads; does nothing unless DATABUS_SEGMENT_KEEP is set.

    Only logs with GTIDs are shared: they prove that segments belong to this server's history (a RESET MASTER begins
    file numbers anew) and follow each other without a gap.
    """

    def __init__(self, server: MysqlServer, settings: Settings):
        """Prepare; the server and the store are asked when first needed.

        Raises:
            ConfigError: DATABUS_SEGMENT_KEEP cannot be read.
        """
        self._server, self._root = server, settings.segment_store
        self._limit = KeepLimit.parse(settings.segment_keep)
        self._known: KeptSegments | None = None
        self._gtids: bool | None = None
        self._values_pruned = -_VALUES_EVERY_S

    def shares(self, start: BinlogOffset) -> bool:
        """Return whether what is read from a place on is kept for others."""
        return self._on() and bool(start.gtids)

    def log_from(self, start: BinlogOffset) -> KeptLog | None:
        """Return what is kept from a place on; None when the place is not in it, or is of another history."""
        if not self.shares(start):
            return None
        chain = chain_from(self._kept().list(), _normal(start))
        if not chain or not self._same_history(chain[0], start):
            return None
        created_s = self._kept().created_s(chain[0]) if chain[0].file == start.file else 0
        if created_s and start.created_s and created_s != start.created_s:
            return None  # of a log that was replaced, whose GTIDs begin anew
        return KeptLog(self._kept(), chain, start)

    def keep(self, folder: Path, index: RangeIndex) -> None:
        """Keep the segments of a staged range; a store that cannot take them does not stop the flow."""
        if self._on() and isinstance(index.range.start, BinlogOffset) and index.range.start.gtids:
            try:
                self._kept().keep(folder, index)
            except DatabusError as error:
                log.warning("%s", error)

    def forget(self, standing: BinlogOffset, start_of: Callable[[ServerLogFile], BinlogOffset]) -> None:
        """Delete what is kept of a log that was replaced, and nothing of the one that took its place; safe to repeat.

        Args:
            standing: a place of the former log.
            start_of: returns the start of a file of this server, with GTIDs and when it was begun.
        """
        segments = self._kept().list()
        named = {segment.file for segment in segments}
        files = self._server.log_files() if segments else []
        log = {f.name: start_of(f) for number, f in enumerate(files) if not number or f.name in named}
        self._kept().forget(former_segments(segments, self._kept().created_s, log, standing))

    def prune(self) -> None:
        """Delete what is over the limit; a failure is logged, and the next batch tries again.

        Large values are looked at once an hour: each takes a look at its file.
        """
        if self._limit and time.monotonic() - self._values_pruned > _VALUES_EVERY_S:
            self._values_pruned = time.monotonic()
            try:
                for value in LargeValueStore(self._root).prune(self._limit):
                    log.info("large value %s is no longer kept", value.path)
            except DatabusError as error:
                log.warning("%s", error)
        if self._on():
            try:
                for segment in self._kept().prune(self._limit):
                    log.info("segment %s of server %s is no longer kept", segment.name, segment.server)
            except DatabusError as error:
                log.warning("%s", error)

    def first_commit_ms(self, after: BinlogOffset) -> int | None:
        """Return the commit time of the first transaction after a place, None when it is not kept."""
        kept = self.log_from(after)
        if kept is None:
            return None
        walk = LogWalk(_NO_TABLES, str(after))
        for batch in kept.batches():
            for piece in walk.walk(batch):
                if isinstance(piece, WalkedStretch) and len(piece.transactions):
                    return int(piece.transactions.ts_ms[0])
        return None

    def first_after(self, offset: BinlogOffset) -> BinlogOffset | None:
        """Return the first place behind an offset from which the log is kept, None when there is none."""
        if not self._on():
            return None
        starts = [chain[0].start for chain in self._chains()]
        return next((s for s in starts if (s.file_number, s.pos) > (offset.file_number, offset.pos)), None)

    def log_at(self, file: str, pos: int, start: BinlogOffset) -> KeptLog | None:
        """Return the kept segment that holds a transaction, from that on.

        Args:
            file: log file of the transaction.
            pos: its position.
            start: a later place of the same history, which distinguishes it from a log that was reset since.

        Returns:
            None when none is kept.
        """
        for segment in self._kept().list() if self.shares(start) else ():
            if segment.file == file and segment.start_pos <= pos < segment.end_pos and _before(segment, start):
                return KeptLog(self._kept(), [segment], BinlogOffset(file, pos, "", segment.flavor, segment.server))
        return None

    def stretches_before(self, start: BinlogOffset) -> Iterator[Sequence[WalkedStretch]]:
        """Yield what is kept without a gap before a place, the newest segment first; transactions and XA phases only.

        The segment that holds the place comes whole.
        """
        for chain in self._chains() if self.shares(start) else []:
            behind = [n for n, s in enumerate(chain) if (s.number, s.start_pos) >= (start.file_number, start.pos)]
            earlier = chain[: behind[0]] if behind else chain
            if earlier and _before(earlier[-1], start) and (behind or _reaches(earlier[-1], start)):
                for segment in reversed(earlier):
                    yield self._pieces(segment)
                return

    def at_time(self, when: datetime) -> BinlogOffset | None:
        """Return the last boundary at which every later transaction committed at or after a time, by the kept index.

        None when what is kept is not enough: nothing that is kept committed earlier, or nothing clearly later.
        """
        if not self._on():
            return None
        when_ms = -((_EPOCH - when) // timedelta(milliseconds=1))
        late_ms = when_ms + CLOCK_SLACK // timedelta(milliseconds=1)
        for chain in reversed(self._chains()):
            early = [n for n, segment in enumerate(chain) if segment.min_ts_ms < when_ms]
            if not any(s.max_ts_ms >= late_ms for s in chain[early[-1] if early else 0 :]):
                continue
            if early:
                return self._last_before(chain[early[-1]], when_ms)
            if chain[0].number < self._server.log_files()[0].number:
                return chain[0].start  # nothing earlier is left anywhere
        return None

    def _chains(self) -> list[list[KeptSegment]]:
        rest: Sequence[KeptSegment] = self._kept().list()
        chains: list[list[KeptSegment]] = []
        while rest:
            chain = chain_from(rest, rest[0].start) or [rest[0]]
            chains.append(chain)
            last = chain[-1]
            rest = [s for s in rest if (s.number, s.end_pos) > (last.number, last.end_pos)]
        return chains

    def _last_before(self, segment: KeptSegment, when_ms: int) -> BinlogOffset | None:
        place = segment.start
        gtids = ExecutedGtids(segment.flavor, segment.gtids_before)
        for piece in self._pieces(segment):
            transactions = piece.transactions
            early = np.flatnonzero(transactions.ts_ms < when_ms)
            if len(early):
                last = int(early[-1]) + 1
                gtids.add(transactions.gtid.slice(0, last))
                end = int(transactions.end_pos[last - 1])
                place = BinlogOffset(segment.file, end, gtids.text(), segment.flavor, segment.server)
                gtids = ExecutedGtids(segment.flavor, place.gtids)
                gtids.add(transactions.gtid.slice(last))
            else:
                gtids.add(transactions.gtid)
        return place

    def _same_history(self, segment: KeptSegment, start: BinlogOffset) -> bool:
        """Compare the GTIDs executed at a place in the segment with those of the offset."""
        gtids = ExecutedGtids(segment.flavor, segment.gtids_before)
        if segment.file == start.file and segment.start_pos < start.pos:
            try:
                for piece in self._pieces(segment):
                    passed = int(np.searchsorted(piece.transactions.end_pos, start.pos, side="right"))
                    gtids.add(piece.transactions.gtid.slice(0, passed))
                    if passed < len(piece.transactions):
                        break
            except OffsetInvalidError:
                return False
        return gtids.text() == _normal(start).gtids

    def _pieces(self, segment: KeptSegment) -> list[WalkedStretch]:
        walk = LogWalk(_NO_TABLES, str(segment.start))
        alone = KeptLog(self._kept(), [segment], segment.start)
        return [p for b in alone.batches() for p in walk.walk(b) if isinstance(p, WalkedStretch)]

    def _kept(self) -> KeptSegments:
        if self._known is None:
            self._known = KeptSegments(self._root, self._server.identity)
        return self._known

    def _on(self) -> bool:
        if not self._limit:
            return False
        if self._gtids is None:
            mariadb = self._server.flavor == "mariadb"
            self._gtids = mariadb or self._server.variables("gtid_mode").get("gtid_mode") == "ON"
        return self._gtids


def _before(segment: KeptSegment, place: BinlogOffset) -> bool:
    """Return whether a segment's transactions begin before a place of the same history."""
    kind = MysqlGtidSet if segment.flavor == "mysql" else MariadbGtidPosition
    before = kind.parse(segment.gtids_before)
    return bool(kind.parse(place.gtids).contains(before))  # type: ignore[arg-type]


def _reaches(segment: KeptSegment, place: BinlogOffset) -> bool:
    """Return whether nothing lies between the start of a segment and a later place but what is in the segment."""
    inside = segment.file == place.file and place.pos <= segment.end_pos
    return inside or segment.end.same_gtids(place)


def _normal(offset: BinlogOffset) -> BinlogOffset:
    """Return the offset with its GTIDs spelled as segments have them."""
    kind = MysqlGtidSet if offset.flavor == "mysql" else MariadbGtidPosition
    return BinlogOffset(offset.file, offset.pos, str(kind.parse(offset.gtids)), offset.flavor, offset.server)
