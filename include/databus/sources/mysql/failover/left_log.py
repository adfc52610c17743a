"""Remaining log, whose files up to a place were deleted: whether it can be the log that the place is of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from databus.binlog.log.events import HEADER_BYTES, EventType, parse_header
from databus.binlog.log.transactions.gtid_codec import decode_gtid_list
from databus.binlog.server.stretches import WalkedStretch
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.failover.replaced_log import begun

GtidList = Mapping[tuple[int, int], int]
"""(domain, server id) → last sequence number."""

_CLOCK_SLACK_S = 60
"""A later file may say that it was begun this much earlier: clocks are set."""


@dataclass(frozen=True)
class LeftLog:
    """The files that a server still has, all behind a place that it deleted.

    Attributes:
        start: where they begin, with the GTIDs executed before.
        head: GTIDs executed at their end.
        purged: MySQL's `gtid_purged`: executed, and in none of the files.
        listed: last number of each server in each domain before them, as MariaDB's first file says; None where it
            does not.
    """

    start: BinlogOffset
    head: str
    purged: str = ""
    listed: GtidList | None = None

    def contradicts(self, offset: BinlogOffset) -> str:
        """Say what shows that a deleted place is not of this log; "" where nothing does.

        Nothing shows it once a log that was begun anew has deleted all up to the GTIDs of the place and past them.
        """
        if offset.created_s and 0 < self.start.created_s < offset.created_s - _CLOCK_SLACK_S:
            return (
                f"{self.start.file} was begun at {begun(self.start.created_s)}, before the file of that place, at "
                f"{begun(offset.created_s)}"
            )
        if not offset.gtids:
            return ""
        return self._mysql(offset) if offset.flavor == "mysql" else self._mariadb(offset)

    def _mysql(self, offset: BinlogOffset) -> str:
        """Look for transactions of before the place in the files that are left; others never were in any file.

        `gtid_purged` may hold more than the first file's PREVIOUS_GTIDS: what was set by hand, and what a replica
        executed without writing it to its log.
        """
        before = MysqlGtidSet.parse(self.start.gtids).union(MysqlGtidSet.parse(self.purged))
        left = MysqlGtidSet.parse(self.head).minus(before)
        executed = MysqlGtidSet.parse(offset.gtids)
        again = executed.minus(executed.minus(left))
        if not again.intervals:
            return ""
        return f"{again}, executed before that place, lies behind {self.start} in this log"

    def _mariadb(self, offset: BinlogOffset) -> str:
        """Compare each domain's last transaction before the place with the last ones before the files that are left.

        A domain that is unknown to all of the log was deleted from it (FLUSH BINARY LOGS DELETE_DOMAIN_ID).
        """
        known = MariadbGtidPosition.parse(self.head).domains
        absent = [
            f"{domain}-{server}-{number}"
            for domain, (server, number) in MariadbGtidPosition.parse(offset.gtids).domains.items()
            if domain in known and not self._lies_before(domain, server, number)
        ]
        if not absent:
            return ""
        return f"{', '.join(absent)}, executed before that place, does not lie before {self.start} in this log"

    def _lies_before(self, domain: int, server: int, number: int) -> bool:
        if self.listed is not None:
            return self.listed.get((domain, server), 0) >= number
        last = MariadbGtidPosition.parse(self.start.gtids).domains.get(domain, (server, 0))
        return last[1] > number or last == (server, number)


def gtid_list(first: WalkedStretch) -> GtidList | None:
    """Return what the GTID_LIST event that a MariaDB log file begins with says; None where there is none."""
    if len(first.events) <= HEADER_BYTES or first.events[4] != EventType.GTID_LIST:
        return None
    size = parse_header(first.events[:HEADER_BYTES].tobytes()).size_bytes
    return decode_gtid_list(first.events[HEADER_BYTES:size].tobytes())
