"""When markers that are gone are written again: only where they are of before the plan, and nothing of the plan is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databus.core.errors import MarkerDivergedError, SinkUnavailableError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.sink_markers import SlotMark
from databus.runtime.takeover.forgotten_markers import recall, recall_piece

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
WEEK_S = 7 * DAY.total_seconds()


@dataclass
class Slots:
    """What one sink's slots hold; it forgets after a week."""

    held: list[SlotMark | None]
    marked: bool = True
    remembered: list[str] = field(default_factory=list)

    def marks(self, slots: int, *, settled: bool = True) -> Sequence[SlotMark | None]:
        return self.held[:slots]

    def register(self) -> Any:
        raise AssertionError("nobody claims here")

    def marker_retention_s(self) -> float:
        return WEEK_S

    def refresh(self, after_s: float = 0.0) -> int:
        raise AssertionError("nothing is refreshed here")

    def fence(self, plan: Plan) -> Slots:
        self.remembered.append("fence")
        return self

    def confirm(self) -> None:
        self.remembered.append("confirm")

    def remember(self) -> None:
        self.remembered.append("remember")

    def discard(self) -> None:
        self.remembered.append("discard")


WRITTEN = ["fence", "confirm", "remember", "discard"]
HELD = SlotMark(1, "before")


def planned(age: timedelta, prev: tuple[int, ...] = (1, 1)) -> Plan:
    ends = OffsetRange(SequenceOffset(1), SequenceOffset(2))
    return Plan("i", "orders.quarantine", 2, ends, {"kafka": SinkPlan(len(prev), prev)}, "h", NOW - age, mode="replay")


def standing(stood: timedelta) -> Checkpoint:
    return Checkpoint(
        offset=SequenceOffset(1), batch=1, epoch=Epoch(1), run_id="r", plan_hash="p", counts={}, watermark=None,
        updated_at=NOW - stood,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("slots", "prev", "expected"),
    [
        ([HELD, HELD], (1, 1), []),
        ([None, None], (1, 1), WRITTEN),
        ([HELD, None], (1, 1), WRITTEN),
        ([HELD, None], (1, 0), []),  # that slot never wrote
        ([HELD, None], (1,), []),  # no slot of the plan
    ],
)
def test_a_replays_markers_of_before_come_back(
    slots: list[SlotMark | None], prev: tuple[int, ...], expected: list[str]
) -> None:
    sink: Any = Slots(slots)
    other: Any = Slots([None])
    recall({"kafka": sink, "other": other}, planned(6 * DAY, prev), sink, NOW, accept=False)
    assert sink.remembered == expected
    unmarked: Any = Slots(slots, marked=False)
    recall({"kafka": unmarked}, planned(8 * DAY, prev), unmarked, NOW, accept=False)
    assert unmarked.remembered == []


@pytest.mark.parametrize("prev", [(1, 1), (0, 0)])
def test_of_a_replay_older_than_its_markers_a_person_decides(prev: tuple[int, ...]) -> None:
    sink: Any = Slots([HELD, None])
    with pytest.raises(MarkerDivergedError, match=r"replay 2 was begun at 2026-02-22 00:00 .*kafka") as asked:
        recall({"kafka": sink}, planned(7 * DAY, prev), sink, NOW, accept=False)
    assert "--accept" in asked.value.hint
    assert sink.remembered == []
    recall({"kafka": sink}, planned(7 * DAY, prev), sink, NOW, accept=True)
    assert sink.remembered == (WRITTEN if prev[1] else [])
    whole: Any = Slots([HELD, HELD])
    recall({"kafka": whole}, planned(7 * DAY, prev), whole, NOW, accept=False)


@pytest.mark.parametrize(
    ("stood", "plan_age", "expected"),
    [
        (7 * DAY, 6 * DAY, WRITTEN),
        (6 * DAY, 0 * DAY, []),  # nothing can have expired: the cluster is another, or was restored
    ],
)
def test_a_pieces_markers_come_back_where_nothing_else_can_have_taken_them(
    stood: timedelta, plan_age: timedelta, expected: list[str]
) -> None:
    sink: Any = Slots([None, None])
    recall_piece({"kafka": sink}, planned(plan_age), sink, standing(stood), NOW, accept=False)
    assert sink.remembered == expected


@pytest.mark.parametrize("prev", [(1, 1), (0, 0)], ids=["", "first batch"])
def test_of_a_piece_older_than_its_markers_a_person_decides(prev: tuple[int, ...]) -> None:
    """Also of its first batch, which expects no markers, and so took a slot that had lost its own for one to write."""
    sink: Any = Slots([HELD, None])
    other: Any = Slots([HELD, HELD])
    unmarked: Any = Slots([None, None], marked=False)
    sinks = {"kafka": sink, "other": other, "unmarked": unmarked}
    plan = planned(7 * DAY, prev)
    plan = replace(plan, sinks={name: replace(plan.sinks["kafka"], partitions={"orders": 2}) for name in sinks})
    with pytest.raises(MarkerDivergedError, match=r"batch 2 .*2026-02-22 00:00 .*\(kafka\)") as asked:
        recall_piece(sinks, plan, sink, standing(9 * DAY), NOW, accept=False)
    assert "--accept" in asked.value.hint
    assert "orders" in asked.value.hint
    assert sink.remembered == []
    recall_piece(sinks, plan, sink, standing(9 * DAY), NOW, accept=True)
    assert sink.remembered == (WRITTEN if prev[1] else [])
    recall_piece({"kafka": other}, plan, other, standing(9 * DAY), NOW, accept=False)
    younger: Any = Slots([None, None])
    recall_piece({"kafka": younger}, replace(plan, clock=NOW - 6 * DAY), younger, standing(6 * DAY), NOW, accept=False)
    assert younger.remembered == []


class NeverWritten(Slots):
    """A sink to whose outputs nobody ever wrote."""

    def never_held(self, plan: Plan) -> bool:
        return True


def test_a_piece_goes_on_by_itself_where_its_outputs_never_held_anything() -> None:
    sink: Any = NeverWritten([None, None])
    recall_piece({"kafka": sink}, planned(30 * DAY, (0, 0)), sink, standing(30 * DAY), NOW, accept=False)
    assert sink.remembered == []


def test_a_plan_just_made_asks_no_broker_for_how_long_it_keeps_markers() -> None:
    sink: Any = Away([None, None])
    recall_piece({"kafka": sink}, planned(0 * DAY, (0, 0)), sink, standing(0 * DAY), NOW, accept=False)


class Away(Slots):
    """A sink whose brokers do not answer."""

    def marker_retention_s(self) -> float:
        raise SinkUnavailableError("away")


def test_a_piece_names_the_sink_that_is_away_and_asks_nothing_of_one_whose_markers_are_there() -> None:
    """So that it waits for it, or lets it fall behind, as any batch does."""
    there: Any = Away([HELD, HELD])
    recall_piece({"kafka": there}, planned(6 * DAY), there, standing(7 * DAY), NOW, accept=False)
    lacking: Any = Away([None, HELD])
    with pytest.raises(SinkUnavailableError) as raised:
        recall_piece({"kafka": lacking}, planned(6 * DAY), lacking, standing(7 * DAY), NOW, accept=False)
    assert raised.value.sink == "kafka"
