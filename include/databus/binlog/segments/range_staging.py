"""Cut a dump into the segments of one range: written as they come, ended at transaction boundaries only."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.events import MAGIC
from databus.binlog.log.transactions.executed_gtids import ExecutedGtids
from databus.binlog.log.transactions.pending_xa import (
    PendingXa,
    StagedPrepare,
    in_log_order,
)
from databus.binlog.log.transactions.xa import CommitPlace
from databus.binlog.log.walk import XaEvent, XaPhase
from databus.binlog.log.walk_faults import nothing_delivered
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.segment import PinnedPrepare, RangeIndex, Segment
from databus.binlog.segments.segment_writer import SegmentWriter
from databus.binlog.server.log_walk import LogWalk
from databus.binlog.server.stretches import FileStart, WalkedStretch, part
from databus.core.errors.root import DatabusError
from databus.core.errors.source import DecodeError, OffsetInvalidError
from databus.core.positions.offsets import BinlogOffset, OffsetRange, PreparedTransaction

Ints = npt.NDArray[np.int64]


class RangeStager:
    """Writes one range. Bytes go to the segment file as they come, so that memory stays bounded."""

    def __init__(self, folder: Path, walk: LogWalk, capture: TableCapture, start: BinlogOffset, bounds: RangeBounds):
        self._folder, self._walk, self._capture, self._start, self._bounds = folder, walk, capture, start, bounds
        self._gtids = ExecutedGtids(start.flavor, start.gtids)
        self._segments: list[Segment] = []
        self._writer: SegmentWriter | None = None
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

    def take(self, piece: FileStart | WalkedStretch) -> bool:
        """Take what the log walk yields, in order; True once the range has reached its bounds.

        Raises:
            OffsetInvalidError: the wanted end is no transaction boundary of this log.
            UnloggedChangeError: the range is to stop before a statement that it begins with.
            DecodeError: it begins with a statement that changes rows and has no row events.
        """
        if isinstance(piece, FileStart):
            self._bounds.check_file(piece, reached=self._full)
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
        stops_at = self._bounds.refusal(piece)
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

    def _take_all(self, piece: WalkedStretch) -> bool:
        if not piece.xa:
            return self._take(piece)
        # An XA phase is a part of its own: what it does shows before the next transaction is looked at.
        edges = {0, len(piece.offsets)}
        for event in piece.xa:
            edges |= {event.transaction, event.transaction + 1}
        return any(self._take(part(piece, first, last)) for first, last in pairwise(sorted(edges)))

    def _take(self, piece: WalkedStretch) -> bool:
        left_out = self._bounds.left_out(piece)
        phases = [event for event in piece.xa if not left_out[event.transaction]]
        for event in phases:
            if event.phase is XaPhase.COMMIT and (error := self._commit(event, piece)) is not None:
                return self._stopped(error)
        opened = sum(self._open_rows.values())
        stop = self._bounds.ends_at(piece, self._rows, opened, self._bytes - self._mark[1])
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

    def _commit(self, event: XaEvent, piece: WalkedStretch) -> DecodeError | None:
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

    def _prepare(self, event: XaEvent, piece: WalkedStretch) -> None:
        log = piece.transactions
        start, end = int(log.start_pos[event.transaction]), int(log.end_pos[event.transaction])
        assert self._written is not None  # noqa: S101 - its events have just been written
        self._xa.prepare(PreparedTransaction(event.xid, log.file, start, end), self._written)

    def _take_run(self, piece: WalkedStretch, first: int, last: int, left_out: npt.NDArray[np.bool_]) -> None:
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

    def _cuts(self, piece: WalkedStretch, last: int, left_out: npt.NDArray[np.bool_]) -> list[int]:
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

    def _write(self, piece: WalkedStretch, first: int, last: int) -> None:
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

    def _write_tail(self, piece: WalkedStretch, last: int) -> None:
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

    def _writing(self, piece: WalkedStretch, begin: int) -> SegmentWriter:
        if self._writer is None:
            self._writer = self._begun(piece.pos + begin)
        return self._writer

    def _begun(self, start_pos: int) -> SegmentWriter:
        assert self._file is not None  # noqa: S101 - the walk yields a file before its events
        # Begun anew here, so that the texts of all segments together take one pass over the GTIDs.
        gtids = self._gtids.text()
        self._gtids = ExecutedGtids(self._start.flavor, gtids)
        return SegmentWriter(self._folder, self._file, start_pos, gtids)

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
