"""A plan that nothing can finish any more is closed at all sinks, and what each holds of it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from databus.core.errors import SinkFencedError, StaleEpochError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.plan import Plan, SinkPlan
from databus.runtime.takeover.closing import close_for_good

PLAN = Plan(
    installation="t",
    flow="shop.quarantine",
    batch=4,
    range=OffsetRange(SequenceOffset(0), SequenceOffset(10)),
    sinks={name: SinkPlan(2, (3, 3)) for name in ("whole", "part", "none", "unmarked")},
    spec_hash="spec",
    clock=datetime(2026, 1, 1, tzinfo=UTC),
    mode="replay",
)


@dataclass
class Slots:
    """A sink that has marked slots: each holds all of the plan ("written"), a part or nothing of it."""

    held: tuple[str, ...]
    begins_anew: int = 0
    calls: list[str] = field(default_factory=list)

    def fence(self, _plan: Plan) -> Any:
        self.calls.append("fence")
        if self.begins_anew:
            self.begins_anew -= 1
            raise SinkFencedError("a writer began anew")
        slots = [slot for slot, what in enumerate(self.held) if what != "nothing"]
        return Fenced(slots, self.calls) if self.held else None

    def abandon(self, _plan: Plan) -> Mapping[int, str]:
        self.calls.append("abandon")
        return {slot: "written" if what == "written" else "abandoned" for slot, what in enumerate(self.held)}


@dataclass
class Fenced:
    slots: Sequence[int]
    calls: list[str]

    def held(self) -> Sequence[int]:
        return self.slots

    def discard(self) -> None:
        self.calls.append("discard")


@dataclass
class Claim:
    stale: bool = False

    def confirm(self) -> None:
        if self.stale:
            raise StaleEpochError("claimed again")


def sinks() -> dict[str, Any]:
    return {
        "whole": Slots(("written", "written")),
        "part": Slots(("written", "nothing")),
        "none": Slots(("nothing", "nothing")),
        "unmarked": Slots(()),
        "no part of the plan": Slots(("written", "written")),
    }


def close(opened: Mapping[str, Any], claim: Claim) -> Any:
    lease: Any = claim
    return close_for_good(opened, PLAN, lease)


def test_what_each_sink_holds_is_told() -> None:
    opened = sinks()
    closed = close(opened, Claim())
    assert closed.whole == {"whole"}
    assert closed.partly == {"part": "1 of 2 slots", "unmarked": ""}
    assert closed.slots == dict.fromkeys(("whole", "part", "none"), (4, 4))
    assert opened["no part of the plan"].calls == []
    assert opened["part"].calls == ["fence", "discard", "abandon"]


def test_a_writer_that_begins_anew_is_fenced_again() -> None:
    opened = {**sinks(), "part": replace(sinks()["part"], begins_anew=1)}
    assert close(opened, Claim()).partly["part"] == "1 of 2 slots"
    assert opened["part"].calls == ["fence", "fence", "discard", "abandon"]


def test_who_was_claimed_away_moves_no_marker() -> None:
    opened = sinks()
    with pytest.raises(StaleEpochError):
        close(opened, Claim(stale=True))
    assert "abandon" not in [call for sink in opened.values() for call in sink.calls]
