"""Moments that were fixed in a log which was replaced since mean nothing in the log that took its place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databus import Flow, MysqlBinlog, Noop
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.positions.replaced_logs import is_of_former_log
from databus.core.state.backfill import Boundary, LogMoment
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.ops.backfill.range import Places

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
FLOW = Flow(name="orders", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=(Noop(),))


def minute(number: int) -> datetime:
    return NOON + timedelta(minutes=number)


def place(minutes: int, generation: int) -> BinlogOffset:
    """The place of a moment; the former log's places have greater files and GTIDs than the newer one's."""
    file, last = (42 if not generation else 1), 900 * (1 - generation) + minutes
    gtids = f"{U}:1-{last}"
    return BinlogOffset(
        f"bin.{file:06d}", 1000 + minutes, gtids, "mysql", U, timeline=generation, generation=generation
    )


class Source:
    """Tells moments of the log that is there now, as a server does that knows of no generation."""

    def boundary_at(self, when: datetime) -> LogMoment:
        found = place(int((when - NOON).total_seconds()) // 60, 1)
        return LogMoment(BinlogOffset(found.file, found.pos, found.gtids, "mysql", U), open=False)


class Services:
    """Keeps boundaries as ZooKeeper does: what was fixed first in the log that is there stands."""

    def __init__(self, *fixed: Boundary) -> None:
        self.fixed = {boundary.at: boundary for boundary in fixed}
        self.backfills, self.clock = self, self

    def now(self) -> datetime:
        return minute(600)

    def fix(self, _flow: str, _lease: Any, boundary: Boundary) -> Boundary:
        kept = self.fixed.get(boundary.at)
        if kept is None or is_of_former_log(kept.offset, boundary.offset):
            self.fixed[boundary.at] = boundary
        return self.fixed[boundary.at]


def resolved(*fixed: Boundary, lease: bool) -> tuple[OffsetRange, dict[datetime, Boundary]]:
    """Resolve the range from minute 10 to minute 20, beside boundaries that were fixed before."""
    services: Any = Services(*fixed)
    source: Any = Source()
    under: Any = object() if lease else None
    standing = Checkpoint(place(300, 1), 4, Epoch(1), "r", "", {}, None, NOON)
    places = Places(FLOW, services, source, standing, fixed, under)
    return places.range(minute(10).isoformat(), minute(20).isoformat()), services.fixed


@pytest.mark.parametrize("lease", [False, True], ids=["a look", "under the lease"])
@pytest.mark.parametrize(
    "fixed",
    [
        (10,),
        (20,),
        (10, 20),
        (5, 15),  # neighbours would push a moment into the former log, or make it one that cannot be ordered
        (5, 10, 15, 20, 30),
    ],
)
def test_boundaries_of_the_former_log_are_neither_taken_nor_compared_with(fixed: tuple[int, ...], lease: bool) -> None:
    former = {minute(n): Boundary(minute(n), place(n, 0)) for n in fixed}
    found, kept = resolved(*former.values(), lease=lease)
    assert (found.start, found.end) == (place(10, 1), place(20, 1))
    anew = {minute(n): Boundary(minute(n), place(n, 1)) for n in (10, 20)} if lease else {}
    assert kept == former | anew


def test_boundaries_of_the_log_that_is_there_hold_as_ever() -> None:
    former = Boundary(minute(20), place(20, 0))
    fixed = Boundary(minute(10), place(11, 1)), Boundary(minute(15), place(25, 1))
    found, kept = resolved(former, *fixed, lease=True)
    assert (found.start, found.end) == (place(11, 1), place(25, 1))  # moments keep their order whatever clocks did
    assert kept[minute(20)] == Boundary(minute(20), place(25, 1))
