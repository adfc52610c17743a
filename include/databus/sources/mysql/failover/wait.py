"""Failover wait of the walk of a new server's log: for the transactions that were delivered from the former one."""

from __future__ import annotations

from typing import Protocol

from databus.binlog.log.transactions.executed_gtids import mysql_gtid_set
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet


class Waiting(Protocol):
    """Delivered transactions that the walk has yet to meet."""

    @property
    def done(self) -> bool:
        """Return whether all were met."""
        ...

    def passed(self, gtid: str) -> None:
        """Take note of a delivered transaction of the log."""
        ...

    def fault(self, gtid: str) -> str:
        """Say why this transaction cannot follow those before it; "" when it can."""
        ...


class MysqlWaiting:
    """Counts down; each GTID lies in a log once."""

    def __init__(self, gtids: MysqlGtidSet):
        self._gtids = gtids
        self._left = sum(last - first + 1 for parts in gtids.intervals.values() for first, last in parts)
        self._met: list[str] = []

    @property
    def done(self) -> bool:
        """See `Waiting`."""
        return self._left == 0

    def passed(self, gtid: str) -> None:
        """See `Waiting`."""
        self._left -= 1
        self._met.append(gtid)

    def fault(self, gtid: str) -> str:  # noqa: ARG002 - a set has no order
        """See `Waiting`."""
        return ""

    def __str__(self) -> str:
        return str(self._gtids.minus(mysql_gtid_set(self._met)))


class MariadbWaiting:
    """Waits for the last delivered transaction of each domain, by its whole GTID, and watches the domains' order."""

    def __init__(self, delivered: MariadbGtidPosition, start: MariadbGtidPosition):
        self._delivered = delivered.domains
        self._last = {domain: sequence for domain, (_, sequence) in start.domains.items()}
        self._left = {d for d, (_, sequence) in delivered.domains.items() if self._last.get(d, 0) < sequence}

    @property
    def done(self) -> bool:
        """See `Waiting`."""
        return not self._left

    def passed(self, gtid: str) -> None:
        """See `Waiting`."""
        domain, _, sequence = map(int, gtid.split("-"))
        if sequence == self._delivered[domain][1]:
            self._left.discard(domain)

    def fault(self, gtid: str) -> str:
        """See `Waiting`."""
        if not gtid:
            return ""
        domain, origin, sequence = map(int, gtid.split("-"))
        before, self._last[domain] = self._last.get(domain, 0), sequence
        if sequence <= before:
            return f"{gtid} follows {domain}-…-{before}: an errant transaction has taken a number of that domain"
        ours = self._delivered.get(domain)
        if ours is not None and (
            (sequence == ours[1] and origin != ours[0]) or (sequence > ours[1] and domain in self._left)
        ):
            return f"it has {gtid} in place of {domain}-{ours[0]}-{ours[1]}, which was delivered"
        return ""

    def __str__(self) -> str:
        return ",".join(f"{d}-{self._delivered[d][0]}-{self._delivered[d][1]}" for d in sorted(self._left))
