"""Shared dump for all flows at one place of a server's log: one reads the server, the others what it keeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from databus.binlog.segments.segment import RangeIndex
from databus.core.flow_specs import DumpTurns
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.dump.kept_segments import SegmentRelay

_STRETCH_BITS = 25
"""Flows within 32 MiB of a log file take turns; one that is further behind holds up nobody at the head."""


class SharedDump:
    """Takes turns where segments are kept and somebody gives turns; else each flow dumps for itself.

    Nobody waits longer than a batch may: a holder that dies or is slow costs a second dump, not a standstill.
    """

    def __init__(self, turns: DumpTurns | None, address: str, relay: SegmentRelay):
        """Prepare; nothing is asked yet.

        Args:
            turns: gives turns; None where nobody does.
            address: "host:port" of the server.
            relay: the kept segments.
        """
        self._turns, self._address, self._relay = turns, address, relay

    def read(
        self,
        place: BinlogOffset,
        deadline: float,
        follow: Callable[[], RangeIndex | None],
        to_head: Callable[[], RangeIndex | None],
    ) -> RangeIndex | None:
        """Return the next range after a place, from what is kept or from the server.

        Args:
            place: where the range begins.
            deadline: monotonic time until which to wait for a transaction.
            follow: reads to the head, and waits there until the deadline for a transaction.
            to_head: reads what is kept, else what the server has now; None when that is nothing.
        """
        if self._turns is None or not self._relay.shares(place):
            return follow()
        while True:
            if self._relay.log_from(place) is not None and (index := to_head()) is not None:
                return index
            if time.monotonic() >= deadline:
                return to_head()
            with self._turn(place) as ours:
                if ours:
                    # Somebody may have kept it between the look and the turn.
                    return follow() if self._relay.log_from(place) is None else to_head()
            self._turns.wait(self._address, _stretch(place), max(0.0, deadline - time.monotonic()))

    @contextmanager
    def _turn(self, place: BinlogOffset) -> Iterator[bool]:
        assert self._turns is not None  # noqa: S101 - asked before
        ours = self._turns.take(self._address, _stretch(place))
        try:
            yield ours
        finally:
            if ours:
                self._turns.release(self._address, _stretch(place))


def _stretch(place: BinlogOffset) -> str:
    return f"{place.file}.{place.pos >> _STRETCH_BITS}"
