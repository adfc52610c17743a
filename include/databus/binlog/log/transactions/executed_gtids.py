"""The GTIDs executed at a place of the log, moved along as transactions pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.core.positions.gtid import Interval, MariadbGtidPosition, MysqlGtidSet


class ExecutedGtids:
    """Collects the GTIDs of transactions and adds them to a starting point once, when asked."""

    def __init__(self, flavor: str, start: str):
        """Begin at the GTIDs executed at some place.

        Args:
            flavor: "mysql" or "mariadb".
            start: GTID set or position in text form; "" for none.
        """
        self._flavor = flavor
        self._start = start
        self._passed: list[pa.StringArray] = []

    def add(self, gtids: pa.StringArray) -> None:
        """Take note of transactions in log order; "" for one without GTID."""
        if len(gtids):
            self._passed.append(gtids)

    def text(self) -> str:
        """Return the GTID set (MySQL) or position (MariaDB) after all transactions."""
        passed = (text for array in self._passed for text in array.to_pylist() if text)
        if self._flavor == "mariadb":
            return str(_mariadb(MariadbGtidPosition.parse(self._start), passed))
        return str(MysqlGtidSet.parse(self._start).union(mysql_gtid_set(passed)))


def mysql_gtid_set(gtids: Iterable[str]) -> MysqlGtidSet:
    """Return the set of GTIDs of the form "uuid:number" or "uuid:tag:number"."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for text in gtids:
        source, _, number = text.rpartition(":")
        numbers[source].append(int(number))
    return MysqlGtidSet({source: _intervals(np.array(found, np.int64)) for source, found in sorted(numbers.items())})


def _intervals(numbers: np.ndarray) -> tuple[Interval, ...]:
    numbers = np.unique(numbers)
    breaks = np.flatnonzero(np.diff(numbers) > 1)
    first = numbers[np.concatenate(([0], breaks + 1))]
    last = numbers[np.concatenate((breaks, [len(numbers) - 1]))]
    return tuple(zip(first.tolist(), last.tolist(), strict=True))


def _mariadb(start: MariadbGtidPosition, gtids: Iterable[str]) -> MariadbGtidPosition:
    domains = dict(start.domains)
    for text in gtids:
        domain, server, number = (int(part) for part in text.split("-"))
        domains[domain] = (server, number)
    return MariadbGtidPosition(dict(sorted(domains.items())))


class DeliveredGtids:
    """Delivered transactions, by GTID."""

    def __init__(self, flavor: str, gtids: str):
        """Take what a checkpoint says.

        Args:
            flavor: "mysql" or "mariadb".
            gtids: GTID set or position in text form.

        Raises:
            OffsetInvalidError: the text is neither.
        """
        self._intervals = MysqlGtidSet.parse(gtids).intervals if flavor == "mysql" else {}
        self._domains = MariadbGtidPosition.parse(gtids).domains if flavor == "mariadb" else {}
        self._flavor = flavor

    def __contains__(self, gtid: str) -> bool:
        """Return whether one transaction was; one without GTID ("") never was, as far as can be known."""
        if not gtid:
            return False
        if self._flavor == "mysql":
            source, _, number = gtid.rpartition(":")
            return any(first <= int(number) <= last for first, last in self._intervals.get(source, ()))
        domain, _, sequence = (int(part) for part in gtid.split("-"))
        return domain in self._domains and sequence <= self._domains[domain][1]

    def mask(self, gtids: pa.StringArray) -> npt.NDArray[np.bool_]:
        """Return per transaction whether it was delivered."""
        return np.array([gtid in self for gtid in gtids.to_pylist()], np.bool_)
