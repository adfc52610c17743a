"""A log that was replaced under the same names: what distinguishes it from the one that a checkpoint is a place of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from databus.binlog.log.transactions.executed_gtids import DeliveredGtids
from databus.binlog.server.stretches import FileStart, WalkedStretch
from databus.core.errors.source import SourceDivergedError
from databus.core.positions.gtid import Interval, MariadbGtidPosition, MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset


def replaced(place: str, offset: BinlogOffset, why: str, flow: str) -> SourceDivergedError:
    """Return the error for a checkpoint whose place in the server's log belongs to another log.

    Args:
        place: the server, for the message.
        offset: the checkpoint.
        why: what differs.
        flow: who reads, for the hint; of a backfill FLOW.BACKFILL.
    """
    return SourceDivergedError(
        f"{place}: the log was replaced: {offset} is not the place that was read up to: {why}",
        hint="The log was begun anew (RESET MASTER), the server was restored from a copy, or it is another one with "
        "the same server_uuid or server_id. Nothing was moved and nothing skipped. Point the connection back; or "
        f"`databus checkpoint skip {flow.partition('.')[0]} --new-log --reason … --execute` goes on with this log from "
        "its beginning, names what the former one still held as a gap, and keeps later rows above all earlier ones; "
        "with --repair it reads the flow's tables anew as well. A rewind does not. See docs/runbooks/log-replaced.md.",
    )


def lost_end(place: str, offset: BinlogOffset, size_bytes: int, flow: str) -> SourceDivergedError:
    """Return the error for a checkpoint past the end of the very file that it was read from.

    Args:
        place: the server, for the message.
        offset: the checkpoint.
        size_bytes: where the file ends now.
        flow: who reads, for the hint; of a backfill FLOW.BACKFILL.
    """
    left = f"{offset.file}:{size_bytes}"
    return SourceDivergedError(
        f"{place}: the log has lost its end: {offset} was read from a file that ends at {size_bytes} now",
        hint="The server crashed before the end was on its disk (sync_binlog), or was restored from a copy. Nothing "
        "was moved and nothing skipped. Changes that were delivered and are lost there are yours to compare; their "
        f"GTIDs are used again. `databus checkpoint skip {flow.partition('.')[0]} {left} --new-log --reason … "
        "--execute` goes on from the end that is left. See docs/runbooks/log-replaced.md.",
    )


class ReplacedLogCheck:
    """Looks at a range's first file and first transaction as they come, before anything of them is planned."""

    def __init__(self, place: str, start: BinlogOffset, flow: str, *, overlaps: bool):
        """Begin before the range.

        Args:
            place: the server, for messages.
            start: where the range begins.
            flow: who reads.
            overlaps: whether transactions behind the start may have been delivered already (a failover).
        """
        self._place, self._start, self._flow = place, start, flow
        self._looks_at_first = start.flavor == "mysql" and bool(start.gtids) and not overlaps

    def look(self, piece: FileStart | WalkedStretch) -> None:
        """Take what the log walk yields, in order.

        Raises:
            SourceDivergedError: the file was begun at another time than the checkpoint's, or its next transaction
                is one that was executed before the checkpoint.
        """
        start = self._start
        if isinstance(piece, FileStart):
            check_created(self._place, start, (piece.name, piece.created_s), self._flow)
        elif self._looks_at_first and len(piece.transactions):
            self._looks_at_first = False
            first = str(piece.transactions.gtid[0].as_py())
            if first in DeliveredGtids(start.flavor, start.gtids):
                at = f"{piece.transactions.file}:{int(piece.transactions.start_pos[0])}"
                why = f"{first}, which was executed before it, follows it at {at}"
                raise replaced(self._place, start, why, self._flow)


def check_created(place: str, offset: BinlogOffset, found: tuple[str, int], flow: str) -> None:
    """Compare when a log file was begun with what a checkpoint in it says, where both are known.

    Raises:
        SourceDivergedError: they differ.
    """
    file, created_s = found
    if file == offset.file and offset.created_s and created_s and offset.created_s != created_s:
        why = f"{file} was begun at {begun(created_s)}, that one at {begun(offset.created_s)}"
        raise replaced(place, offset, why, flow)


def begun(created_s: int) -> str:
    """Return when a log file was begun as a text, UTC."""
    return f"{datetime.fromtimestamp(created_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def beyond_head(offset: BinlogOffset, head: str) -> str:
    """Compare an offset's GTIDs with all that its server has executed; "" when it may have executed them.

    Args:
        offset: the checkpoint.
        head: GTIDs executed at the end of the server's log.
    """
    if offset.flavor == "mysql":
        lacking = MysqlGtidSet.parse(offset.gtids).minus(MysqlGtidSet.parse(head))
        return f"this server never executed {lacking}" if lacking.intervals else ""
    here = MariadbGtidPosition.parse(head).domains
    behind = [
        f"{domain}-{origin}-{number}"
        for domain, (origin, number) in MariadbGtidPosition.parse(offset.gtids).domains.items()
        if domain in here and here[domain][1] < number
    ]
    return f"this server's log has come to {head or 'no GTID'} and never held {', '.join(behind)}" if behind else ""


def contradiction(offset: BinlogOffset, here: str) -> str:
    """Compare the GTIDs that a log has at an offset's place with the offset's; "" when they may be of one history.

    Either may know less: a MySQL log of what was purged before it began, a MariaDB log of domains that were deleted
    from it, a checkpoint of domains and sources that have not written since its flow began or came by gtid_purged, a
    MySQL checkpoint of transactions that were being committed when its flow began at the head. So what both know is
    compared, MySQL's by the newest transaction of each source.

    Args:
        offset: the checkpoint.
        here: GTIDs executed at its place in the server's log.
    """
    if offset.flavor == "mysql":
        known, found = MysqlGtidSet.parse(offset.gtids).intervals, MysqlGtidSet.parse(here).intervals
        newest = {source: _newest(intervals) for source, intervals in found.items()}
        newer = [f"{s}:{number}" for s, number in newest.items() if s in known and number > _newest(known[s])]
        return f"{', '.join(newer)} lies before it in this log, and was not executed there" if newer else ""
    ours, theirs = MariadbGtidPosition.parse(offset.gtids).domains, MariadbGtidPosition.parse(here).domains
    differs = any(domain in ours and ours[domain] != last for domain, last in theirs.items())
    return f"the GTID position there is {here}, that of the checkpoint {offset.gtids}" if differs else ""


def _newest(intervals: Sequence[Interval]) -> int:
    return intervals[-1][1] if intervals else 0
