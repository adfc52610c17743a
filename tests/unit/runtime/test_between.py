"""A source between two places goes by where they lie now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from databus.core.batching import Batching
from databus.core.errors import UnloggedChangeError
from databus.core.positions.offsets import BinlogOffset, Offset, OffsetRange
from databus.core.protocols import Source
from databus.core.state.plan import SourcePlan
from databus.runtime.beside.bounded_source import between

OLD, NEW = "old", "new"


def old(pos: int) -> BinlogOffset:
    return BinlogOffset("a.000001", pos, f"0-1-{pos}", "mariadb", OLD)


def new(pos: int) -> BinlogOffset:
    return BinlogOffset("b.000003", pos + 1000, f"0-1-{pos}", "mariadb", NEW, timeline=1)


def located(place: Offset) -> Offset:
    assert isinstance(place, BinlogOffset)
    return new(place.pos) if place.server == OLD else place


@dataclass
class Log:
    """Plans up to 10 positions at once, of the new server only."""

    planned: list[OffsetRange] = field(default_factory=list)
    asked: list[Offset] = field(default_factory=list)

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        assert isinstance(after, BinlogOffset)
        return self.exactly(OffsetRange(after, new(after.pos - 1000 + 10)))

    def exactly(self, wanted: OffsetRange) -> SourcePlan:
        self.planned.append(wanted)
        return SourcePlan(wanted, (), 0, 0, None, None)

    def discard(self, plan: SourcePlan) -> None:
        self.planned.remove(plan.range)

    def lag(self, committed: Offset) -> Any:
        self.asked.append(committed)


def test_both_ends_and_the_place_between_are_looked_for_in_the_log_of_now() -> None:
    log = Log()
    piece = between(cast("Source", log), OffsetRange(old(10), old(25)), log.exactly, located)
    assert piece.start_offset() == new(10)
    place: Offset = old(10)  # begun on the former server
    while (plan := piece.plan(place, Batching())) is not None:
        place = plan.range.end
    assert log.planned == [OffsetRange(new(10), new(20)), OffsetRange(new(20), new(25))]
    assert piece.plan(old(25), Batching()) is None
    piece.lag(old(20))
    assert log.asked == [new(20)]


class StoppingLog(Log):
    """Stops before each place until a person decides."""

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        raise UnloggedChangeError("a statement on partitions")

    def plan_decided(self, after: Offset, limit: Batching) -> SourcePlan | None:
        return super().plan(after, limit)


def test_what_lies_before_the_place_of_the_flow_is_decided() -> None:
    log = StoppingLog()
    view = between(cast("Source", log), OffsetRange(new(0), new(15)), log.exactly)
    first = view.plan(new(0), Batching())
    assert first is not None
    second = view.plan(first.range.end, Batching())
    assert second is not None
    assert (first.range.end, second.range.end) == (new(10), new(15))
