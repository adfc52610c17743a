"""Bounds of a staged range: where it ends, what it leaves out, and before which statements it stops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from databus.binlog.log.transactions.executed_gtids import DeliveredGtids
from databus.binlog.log.transactions.pending_xa import FetchPrepare, nowhere_to_fetch
from databus.binlog.log.walk_faults import rows_by_statement
from databus.binlog.segments.segment import TARGET_BYTES
from databus.binlog.server.stretches import FileStart, WalkedStretch
from databus.core.errors.root import DatabusError
from databus.core.errors.source import OffsetInvalidError, UnloggedChangeError
from databus.core.positions.offsets import BinlogOffset
from databus.core.tables.unlogged import UnloggedChange


@dataclass(frozen=True)
class RangeBounds:
    """Range bounds: a range ends at the first transaction boundary that satisfies one of these.

    Attributes:
        max_rows: row changes of captured tables; None for no bound.
        max_bytes: log bytes; None for no bound.
        end: exactly here; None when the other bounds decide.
        through: the head of the log must be read up to here at least, whatever others have kept of it; None for no such
            place.
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
    through: BinlogOffset | None = None
    segment_bytes: int = TARGET_BYTES
    without: DeliveredGtids | None = None
    stops: bool = False
    flow: str = ""
    fetch_prepare: FetchPrepare = nowhere_to_fetch

    def refusal(self, piece: WalkedStretch) -> tuple[int, DatabusError] | None:
        """Return the number of the first transaction that the range is to stop before, with what refuses it."""
        if not piece.by_statement and not (self.stops and piece.unlogged):
            return None
        left_out = self.left_out(piece)
        found: list[tuple[int, DatabusError]] = [
            (each.transaction, rows_by_statement(each, piece.transactions, self.flow))
            for each in piece.by_statement
            if not left_out[each.transaction]
        ]
        if self.stops:
            found += [
                (number, _unlogged(change, self.flow)) for number, change in piece.unlogged if not left_out[number]
            ]
        within = self._within(piece)
        return min((each for each in found if each[0] < within), key=lambda each: each[0], default=None)

    def _within(self, piece: WalkedStretch) -> int:
        """Return how many transactions of a piece lie before a given end: what comes behind it refuses nothing."""
        end, log = self.end, piece.transactions
        if end is None or log.file != end.file:
            return len(piece.offsets)
        return int(np.count_nonzero(log.end_pos <= end.pos))

    def left_out(self, piece: WalkedStretch) -> npt.NDArray[np.bool_]:
        """Return of each transaction of a piece whether it is left out."""
        if self.without is None:
            return np.zeros(len(piece.offsets), np.bool_)
        return self.without.mask(piece.transactions.gtid)

    def ends_at(self, piece: WalkedStretch, rows_before: int, open_rows: int, bytes_before: int) -> int | None:
        """Return the index of the transaction that ends the range, None when it goes on.

        Args:
            piece: what comes next.
            rows_before: row changes of the transactions that were taken.
            open_rows: of the one that was open before the piece.
            bytes_before: log bytes that were taken, less the position up to which.
        """
        n = len(piece.offsets)
        if n == 0:
            return None
        reached = np.zeros(n, np.bool_)
        if self.end is not None:
            if piece.transactions.file == self.end.file:
                reached = piece.transactions.end_pos >= self.end.pos
                if reached.any() and piece.transactions.end_pos[int(np.argmax(reached))] != self.end.pos:
                    raise OffsetInvalidError(
                        f"{self.end} is not the end of a transaction", hint="Reset the checkpoint or plan."
                    )
        else:
            rows = np.zeros(n + 1, np.int64)
            np.add.at(rows, piece.row_transactions, piece.row_counts)
            rows[0] += open_rows
            if self.max_rows is not None:
                reached |= rows_before + np.cumsum(rows[:n]) >= self.max_rows
            if self.max_bytes is not None:
                reached |= bytes_before + piece.transactions.end_pos >= self.max_bytes
        return int(np.argmax(reached)) if reached.any() else None

    def check_file(self, piece: FileStart, *, reached: bool) -> None:
        """Refuse a file behind the one of a given end that was not reached."""
        wanted = self.end
        if wanted is not None and not reached and int(piece.name.rpartition(".")[2]) > wanted.file_number:
            raise OffsetInvalidError(f"{wanted} is past the end of its log file", hint="Reset the checkpoint or plan.")


def _unlogged(change: UnloggedChange, flow: str) -> UnloggedChangeError:
    return UnloggedChangeError(
        f"{change.file}:{change.start_pos}: {change.statement}: changes rows of {', '.join(change.tables)} that no row "
        'event shows (on_partition_ddl="fail")',
        hint="What came before it is delivered. Set the sinks right, then go on behind it: `databus checkpoint skip "
        f"{flow} {change.file}:{change.end_pos} --reason … --execute`. Where reading follows a failover: let one run "
        'pass it with on_partition_ddl="event".',
    )
