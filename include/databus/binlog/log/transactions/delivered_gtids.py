"""Which transactions a reader has: a MySQL GTID set with its holes, or a MariaDB position per domain."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet


class DeliveredGtids:
    """Tells by GTID whether a transaction was delivered."""

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
        """Tell of one transaction; one without GTID ("") never was, as far as can be known."""
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
