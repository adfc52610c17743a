"""Cut a dump into the segments of one range: written as they come, ended at transaction boundaries only."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.events import MAGIC
from databus.binlog.log.mapped import windows
from databus.binlog.log.transactions.delivered_gtids import Delivered
from databus.binlog.log.transactions.executed_gtids import ExecutedGtids
from databus.binlog.log.transactions.pending_xa import (
    FetchPrepare,
    PendingXa,
    StagedPrepare,
    in_log_order,
    nowhere_to_fetch,
)
from databus.binlog.log.transactions.xa import CommitPlace
from databus.binlog.log.walk import XaEvent, XaPhase
from databus.binlog.log.walk_faults import nothing_delivered, rows_by_statement
from databus.binlog.segments.segment import TARGET_BYTES, PinnedPrepare, RangeIndex, Segment, segment_name
from databus.binlog.segments.store_space import writing
from databus.binlog.server.log_walk import FileStart, LogWalk, Stretch, part
from databus.core.errors.root import DatabusError
from databus.core.errors.source import DecodeError, OffsetInvalidError, UnloggedChangeError
from databus.core.positions.offsets import BinlogOffset, OffsetRange, PreparedTransaction
from databus.core.private_files import private_opener
from databus.core.tables.unlogged import UnloggedChange

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RangeBounds:
    """Where a range ends: at the first transaction boundary that satisfies one of these.

    Attributes:
        max_rows: row changes of captured tables; None for no bound.
        max_bytes: log bytes; None for no bound.
        end: exactly here; None when the other bounds decide.
        segment_bytes: a segment ends at the first boundary after this many bytes, counted as if nothing were
            compressed: that is what reading it takes.
        without: transactions to leave out: they are passed over, and lie in no segment. None for none.
        stops: whether it ends before a statement that changes captured rows without row events. One that it would begin
            with, or that lies before a given `end`, is refused.
        flow: whose range it is, for what errors say is to be done.
        fetch_prepare: finds the events of XA transactions that were prepared before the range and committed in it.
    """

    max_rows: int | None = None
    max_bytes: int | None = None
    end: BinlogOffset | None = None
    segment_bytes: int = TARGET_BYTES
    without: Delivered | None = None
    stops: bool = False
    flow: str = ""
    fetch_prepare: FetchPrepare = nowhere_to_fetch


class RangeStager:
    """Writes one range. Bytes go to the segment file as they come, so that memory stays bounded."""

    def __init__(self, folder: Path, walk: LogWalk, capture: TableCapture, start: BinlogOffset, bounds: RangeBounds):
        self._folder, self._walk, self._capture, self._start, self._bounds = folder, walk, capture, start, bounds
        self._gtids = ExecutedGtids(start.flavor, start.gtids)
        self._segments: list[Segment] = []
        self._writer: _SegmentWriter | None = None
        self._file: FileStart | None = None
        self._end: tuple[str, int] | None = None
        self._created_s = {start.file: start.created_s}
        self._mark = (start.file, start.pos)
        self._rows = self._bytes = 0
        self._open_rows: dict[int, int] = {}
        self._full = False
        self._written: StagedPrepare | None = None
        self._xa = PendingXa(folder, walk, start, bounds.fetch_prepare)
        self.transactions = 0

    def take(self, piece: FileStart | Stretch) -> bool:
        """Take what the log walk yields, in order; True once the range has reached its bounds.

        Raises:
            OffsetInvalidError: the wanted end is no transaction boundary of this log.
            UnloggedChangeError: the range is to stop before a statement that it begins with.
            DecodeError: it begins with a statement that changes rows and has no row events.
        """
        if isinstance(piece, FileStart):
            self._check_file(piece)
            self._end_segment()
            self._file = piece
            self._created_s[piece.name] = piece.created_s or self._created_s.get(piece.name, 0)
            if piece.name != self._mark[0]:
                self._mark = (piece.name, piece.pos)
            wanted = self._bounds.end
            if wanted is not None and (wanted.file, wanted.pos) == (piece.name, len(MAGIC)):
                self._full = True
            return self._full
        for schema, count in piece.taken_back.items():
            self._open_rows[schema] -= count
        stops_at = self._stops_at(piece)
        if stops_at is None:
            return self._take_all(piece)
        number, error = stops_at
        if self._bounds.end is None and number and self._take_all(part(piece, 0, number)):
            return True
        return self._stopped(error, number)

    def _stopped(self, error: DatabusError, before: int = 0) -> bool:
        """End the range in front of what refuses it; raise that where nothing lies before it, or it must be passed.

        Args:
            error: what refuses it.
            before: transactions in front of it that were not taken.
        """
        if self._bounds.end is not None and self.transactions + before:
            raise nothing_delivered(error)
        if not self.transactions:
            raise error
        self._full = True
        self._end_segment()
        return True

    def _stops_at(self, piece: Stretch) -> tuple[int, DatabusError] | None:
        """Return the number of the first transaction that the range is to stop before, with what refuses it."""
        if not piece.by_statement and not (self._bounds.stops and piece.unlogged):
            return None
        left_out, flow = self._left_out(piece), self._bounds.flow
        found: list[tuple[int, DatabusError]] = [
            (each.transaction, rows_by_statement(each, piece.transactions, flow))
            for each in piece.by_statement
            if not left_out[each.transaction]
        ]
        if self._bounds.stops:
            found += [(number, _unlogged(change, flow)) for number, change in piece.unlogged if not left_out[number]]
        within = self._within(piece)
        return min((each for each in found if each[0] < within), key=lambda each: each[0], default=None)

    def _within(self, piece: Stretch) -> int:
        """Return how many transactions of a piece lie before a given end: what comes behind it refuses nothing."""
        end, log = self._bounds.end, piece.transactions
        if end is None or log.file != end.file:
            return len(piece.offsets)
        return int(np.count_nonzero(log.end_pos <= end.pos))

    def _take_all(self, piece: Stretch) -> bool:
        if not piece.xa:
            return self._take(piece)
        # An XA phase is a part of its own: what it does shows before the next transaction is looked at.
        edges = {0, len(piece.offsets)}
        for event in piece.xa:
            edges |= {event.transaction, event.transaction + 1}
        return any(self._take(part(piece, first, last)) for first, last in pairwise(sorted(edges)))

    def _take(self, piece: Stretch) -> bool:
        left_out = self._left_out(piece)
        phases = [event for event in piece.xa if not left_out[event.transaction]]
        for event in phases:
            if event.phase is XaPhase.COMMIT and (error := self._commit(event, piece)) is not None:
                return self._stopped(error)
        stop = self._stop(piece)
        last = len(piece.offsets) if stop is None else stop + 1
        done = 0
        for cut in self._cuts(piece, last, left_out):
            self._take_run(piece, done, cut, left_out)
            self._end_segment()
            done = cut
        if done < last:
            self._take_run(piece, done, last, left_out)
        for event in phases:
            if event.phase is XaPhase.PREPARE:
                self._prepare(event, piece)
            elif event.phase is XaPhase.ROLLBACK:
                self._xa.rollback(event.xid)
        if stop is not None:
            self._full = True
            self._end_segment()
            return True
        self._write_tail(piece, last)
        return False

    def finish(self, *, more: bool) -> RangeIndex | None:
        """End the range at the last boundary seen; None when no transaction ended in it and no later file began.

        Args:
            more: whether the log is known to go on after the range.

        Raises:
            OffsetInvalidError: the wanted end was not reached.
        """
        self._end_segment()
        wanted = self._bounds.end
        if wanted is not None and not self._full:
            raise OffsetInvalidError(
                f"the log ends before {wanted}", hint="The server lost part of its log: compare SHOW BINARY LOGS."
            )
        start = self._start
        if self._end is None:
            if self._file is None or self._file.name == start.file:
                return None
            # Rotations alone: the start of the newest file is a boundary, and the older files may now be deleted.
            self._end = (self._file.name, len(MAGIC))
        end = BinlogOffset(
            self._end[0], self._end[1], self._gtids.text(), start.flavor, start.server, start.timeline,
            self._xa.pending, self._created_s[self._end[0]], start.generation,
        )  # fmt: skip
        segments, tables = in_log_order(self._segments, self._walk.tables)
        return RangeIndex(
            OffsetRange(start, end), str(self._capture), tables, segments, self._bytes, more,
            folds=self._capture.folds,
        )  # fmt: skip

    def pins(self, folder: Path) -> list[PinnedPrepare]:
        """Write the events of what the range prepared and left pending into a folder; after `finish`."""
        return self._xa.pin(folder)

    def discard(self) -> None:
        """Close what is open; the folder is the caller's."""
        if self._writer is not None:
            self._writer.file.close()
            self._writer = None

    def _commit(self, event: XaEvent, piece: Stretch) -> DecodeError | None:
        """Put the rows of a committed XA transaction between the segments before and behind its XA COMMIT.

        Returns:
            What refuses it, where they are in no row event.
        """
        place = CommitPlace.of(piece.transactions, event.transaction)
        segment = self._xa.commit(event.xid, place, self._bounds.flow)
        if isinstance(segment, DecodeError):
            return segment
        if segment is not None:
            self._split_segment()
            self._segments.append(segment)
            self._rows += sum(segment.rows.values())
        return None

    def _prepare(self, event: XaEvent, piece: Stretch) -> None:
        log = piece.transactions
        start, end = int(log.start_pos[event.transaction]), int(log.end_pos[event.transaction])
        assert self._written is not None  # noqa: S101 - its events have just been written
        self._xa.prepare(PreparedTransaction(event.xid, log.file, start, end), self._written)

    def _stop(self, piece: Stretch) -> int | None:
        """Return the index of the transaction that ends the range, None when it goes on."""
        bounds, n = self._bounds, len(piece.offsets)
        if n == 0:
            return None
        reached = np.zeros(n, np.bool_)
        if bounds.end is not None:
            if piece.transactions.file == bounds.end.file:
                reached = piece.transactions.end_pos >= bounds.end.pos
                if reached.any() and piece.transactions.end_pos[int(np.argmax(reached))] != bounds.end.pos:
                    raise OffsetInvalidError(
                        f"{bounds.end} is not the end of a transaction", hint="Reset the checkpoint or plan."
                    )
        else:
            rows = np.zeros(n + 1, np.int64)
            np.add.at(rows, piece.row_transactions, piece.row_counts)
            rows[0] += sum(self._open_rows.values())
            if bounds.max_rows is not None:
                reached |= self._rows + np.cumsum(rows[:n]) >= bounds.max_rows
            if bounds.max_bytes is not None:
                reached |= self._bytes + piece.transactions.end_pos - self._mark[1] >= bounds.max_bytes
        return int(np.argmax(reached)) if reached.any() else None

    def _left_out(self, piece: Stretch) -> npt.NDArray[np.bool_]:
        without = self._bounds.without
        return np.zeros(len(piece.offsets), np.bool_) if without is None else without.mask(piece.transactions.gtid)

    def _take_run(self, piece: Stretch, first: int, last: int, left_out: npt.NDArray[np.bool_]) -> None:
        """Write transactions first … last − 1, or pass over them: a run is left out as a whole or not at all."""
        if not left_out[first]:
            self._write(piece, first, last)
            return
        self._end_segment()  # drops what the segment has of the first of them
        if first == 0:
            self._open_rows = {}
        self._end = (piece.transactions.file, int(piece.transactions.end_pos[last - 1]))
        self._bytes += self._end[1] - self._mark[1]
        self._mark = self._end
        self.transactions += last - first

    def _cuts(self, piece: Stretch, last: int, left_out: npt.NDArray[np.bool_]) -> list[int]:
        """Return after how many transactions of the piece a segment ends."""
        cuts = {i + 1 for i in piece.table_events if i < last}
        cuts |= {int(i) + 1 for i in np.flatnonzero(left_out[1:last] != left_out[: last - 1])} if last else set()
        written, at = (self._writer.plain_bytes if self._writer else 0), 0
        while True:
            after = int(np.searchsorted(piece.plain_offsets[:last], at + self._bounds.segment_bytes - written))
            if after >= last:
                break
            cuts.add(after + 1)
            written, at = 0, int(piece.plain_offsets[after])
        return sorted(cuts)

    def _write(self, piece: Stretch, first: int, last: int) -> None:
        """Write transactions first … last − 1 of a piece, with what lies before them since the previous boundary."""
        begin = int(piece.offsets[first - 1]) if first else 0
        end = int(piece.offsets[last - 1])
        writer = self._writing(piece, begin)
        writer.append(piece.events[begin:end])
        writer.plain_bytes += int(piece.plain_offsets[last - 1]) - (int(piece.plain_offsets[first - 1]) if first else 0)
        log = piece.transactions
        chosen = (piece.row_transactions >= first) & (piece.row_transactions < last)
        for schema, count in zip(piece.row_schemas[chosen].tolist(), piece.row_counts[chosen].tolist(), strict=True):
            writer.rows[schema] = writer.rows.get(schema, 0) + count
        self._rows += int(piece.row_counts[chosen].sum())
        if first == 0:
            self._rows += sum(self._open_rows.values())
            for schema, count in self._open_rows.items():
                if count == 0:  # all of them taken back
                    continue
                writer.rows[schema] = writer.rows.get(schema, 0) + count
            self._open_rows = {}
        writer.boundary(log.ts_ms[first:last], int(log.end_pos[last - 1]))
        writer.table_events.extend(int(log.end_pos[i]) for i in piece.table_events if first <= i < last)
        writer.unlogged.extend(change for i, change in piece.unlogged if first <= i < last)
        writer.others = writer.others or any(first <= i < last for i in piece.others)
        self._written = writer.staged()
        self._gtids.add(log.gtid[first:last])
        self._end = (log.file, int(log.end_pos[last - 1]))
        self._bytes += self._end[1] - self._mark[1]
        self._mark = self._end
        self.transactions += last - first

    def _write_tail(self, piece: Stretch, last: int) -> None:
        begin = int(piece.offsets[last - 1]) if last else 0
        if begin < len(piece.events):
            writer = self._writing(piece, begin)
            writer.append(piece.events[begin:])
            writer.plain_bytes += piece.plain_bytes - (int(piece.plain_offsets[last - 1]) if last else 0)
        still_open = piece.row_transactions >= last
        for schema, count in zip(
            piece.row_schemas[still_open].tolist(), piece.row_counts[still_open].tolist(), strict=True
        ):
            self._open_rows[schema] = self._open_rows.get(schema, 0) + count

    def _writing(self, piece: Stretch, begin: int) -> _SegmentWriter:
        if self._writer is None:
            self._writer = self._begun(piece.pos + begin)
        return self._writer

    def _begun(self, start_pos: int) -> _SegmentWriter:
        assert self._file is not None  # noqa: S101 - the walk yields a file before its events
        # Begun anew here, so that the texts of all segments together take one pass over the GTIDs.
        gtids = self._gtids.text()
        self._gtids = ExecutedGtids(self._start.flavor, gtids)
        return _SegmentWriter(self._folder, self._file, start_pos, gtids)

    def _split_segment(self) -> None:
        """End the segment at its last boundary; what it has of the next transaction begins the next segment."""
        writer = self._writer
        if writer is None or not writer.ended:
            return
        tail, plain_bytes = writer.tail(), writer.tail_plain_bytes
        self._end_segment()
        if len(tail):
            self._writer = self._begun(writer.end_pos)
            self._writer.append(tail)
            self._writer.plain_bytes = plain_bytes

    def _end_segment(self) -> None:
        if self._writer is not None:
            segment = self._writer.close()
            if segment is not None:
                self._segments.append(segment)
            self._writer = None

    def _check_file(self, piece: FileStart) -> None:
        wanted = self._bounds.end
        if wanted is not None and not self._full and int(piece.name.rpartition(".")[2]) > wanted.file_number:
            raise OffsetInvalidError(f"{wanted} is past the end of its log file", hint="Reset the checkpoint or plan.")


def _unlogged(change: UnloggedChange, flow: str) -> UnloggedChangeError:
    return UnloggedChangeError(
        f"{change.file}:{change.start_pos}: {change.statement}: changes rows of {', '.join(change.tables)} that no row "
        'event tells (on_partition_ddl="fail")',
        hint="What came before it is delivered. Set the sinks right, then go on behind it: `databus checkpoint skip "
        f"{flow} {change.file}:{change.end_pos} --reason … --execute`. Where reading follows a failover: let one run "
        'pass it with on_partition_ddl="event".',
    )


class _SegmentWriter:
    """One segment file while it is written."""

    def __init__(self, folder: Path, file: FileStart, start_pos: int, gtids: str):
        self._log, self._start_pos, self._gtids = file, start_pos, gtids
        self._path = folder / segment_name(file.name, start_pos)
        with writing(self._path, len(file.description)):
            self.file: BinaryIO = open(self._path, "wb", buffering=0, opener=private_opener)  # noqa: SIM115
            self.file.write(file.description)
        self.written = self.plain_bytes = 0
        self._kept = self._kept_plain = 0
        self.end_pos = start_pos
        self._stamps: list[Ints] = []
        self.rows: dict[int, int] = {}
        self.table_events: list[int] = []
        self.unlogged: list[UnloggedChange] = []
        self.others = False

    def append(self, events: npt.NDArray[np.uint8]) -> None:
        """Write raw events."""
        self.written += len(events)
        with writing(self._path, len(events)):
            for window in windows(events):
                left = np.ascontiguousarray(window).data.cast("B")
                while len(left):
                    left = left[self.file.write(left) :]

    def boundary(self, ts_ms: Ints, end_pos: int) -> None:
        """Note that transactions with these commit times end where the file ends now."""
        self._stamps.append(ts_ms)
        self._kept, self._kept_plain, self.end_pos = self.written, self.plain_bytes, end_pos

    @property
    def ended(self) -> bool:
        """Whether a transaction ended in it."""
        return bool(self._stamps)

    @property
    def tail_plain_bytes(self) -> int:
        """Size of what lies behind the last boundary if nothing were compressed."""
        return self.plain_bytes - self._kept_plain

    def tail(self) -> npt.NDArray[np.uint8]:
        """Return the raw events behind the last boundary."""
        return np.fromfile(self._path, np.uint8, offset=len(self._log.description) + self._kept)

    def staged(self) -> StagedPrepare:
        """Return where the last transaction that was written ends."""
        size = len(self._log.description)
        return StagedPrepare(self._path, size, size + self._kept)

    def close(self) -> Segment | None:
        """Cut the file at its last boundary and describe it; None, and no file, when no transaction ended in it."""
        with self.file:
            size = len(self._log.description) + self._kept
            self.file.truncate(size)
        if not self._stamps:
            self._path.unlink()
            return None
        stamps = np.concatenate(self._stamps)
        return Segment(
            self._path.name, self._log.name, self._start_pos, self.end_pos, size, len(stamps),
            dict(sorted(self.rows.items())),
            int(stamps[0]), int(stamps[-1]), int(stamps.max()), self._log.checksum, tuple(self.table_events),
            min_ts_ms=int(stamps.min()), gtids_before=self._gtids, unlogged=tuple(self.unlogged),
            others=self.others,
        )  # fmt: skip
