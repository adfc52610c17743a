"""Timetable of flows: at an interval, each with an offset of its own so that flows do not all begin at once."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

from airflow.timetables.interval import DeltaDataIntervalTimetable
from pendulum import DateTime

_WITHIN = timedelta(minutes=10)
"""Runs of flows with a longer interval are spread over so much of it: a daily run stays near midnight."""


class StaggeredTimetable(DeltaDataIntervalTimetable):
    """Data intervals of one length, side by side, on a grid of their own.

    Airflow's own timetable counts intervals from 1970, so that the runs of all flows with one interval begin in the
    same second; here each grid is moved by its phase.

    Args:
        delta: length of an interval.
        phase: how much later than Airflow's own intervals these begin.
    """

    def __init__(self, delta: timedelta, phase: timedelta) -> None:
        super().__init__(delta)
        self._phase = phase

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> StaggeredTimetable:
        """Return what `serialize` described."""
        return cls(timedelta(seconds=data["delta"]), timedelta(seconds=data["phase"]))

    def serialize(self) -> dict[str, Any]:
        """Return both times in seconds."""
        return {"delta": self._delta.total_seconds(), "phase": self._phase.total_seconds()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StaggeredTimetable):
            return NotImplemented
        return self.serialize() == other.serialize()

    def __hash__(self) -> int:
        return hash((self._delta, self._phase))

    def _round(self, dt: DateTime, anchor: DateTime) -> DateTime:
        rounded: DateTime = super()._round(dt - self._phase, anchor) + self._phase
        return rounded

    def _align_to_prev(self, current: DateTime) -> DateTime:
        # The interval before was another timetable's when a flow's file has changed.
        return self._round(current, current)


def staggered(name: str, every: timedelta) -> StaggeredTimetable:
    """Return the timetable of a flow; its phase follows from its name, and is the same for ever.

    Args:
        name: flow name.
        every: time between runs.
    """
    digest = hashlib.sha256(name.encode()).digest()  # spreads names that differ in their last digit, as a CRC does not
    share = int.from_bytes(digest[:4], "big") / 2**32
    return StaggeredTimetable(every, timedelta(seconds=round(share * min(every, _WITHIN).total_seconds(), 1)))
