"""What the markers of a sink's slots must hold, also of slots that the flow has not at the moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from databus.checkpoints.rules.amendments import amended_checkpoint
from databus.checkpoints.rules.lagging_sinks import Joining, joined
from databus.core.positions.offsets import KafkaOffsets, Offset, OffsetRange, SequenceOffset
from databus.core.state.amendments import Amendment
from databus.core.state.checkpoint import Checkpoint, Epoch, merged_slots
from databus.core.state.plan import Plan, SinkPlan

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)


def test_slots_that_are_not_planned_keep_what_they_hold() -> None:
    lowered = SinkPlan(1, (5,)).following((5, 5, 5), 5)
    assert lowered.prev == (5, 5, 5)
    assert lowered.marks_after(6) == (6, 5, 5)
    raised = SinkPlan(3, (6, 5, 5)).following((6, 5, 5), 6)
    assert raised.prev == (6, 5, 5)
    assert raised.marks_after(7) == (7, 7, 7)


def test_a_slot_that_was_idle_may_have_lost_its_marker() -> None:
    assert SinkPlan(2, (6, 0)).following((6, 5), 6).prev == (6, 0)
    # Not where it took part in the last batch, or where the sink says another batch.
    assert SinkPlan(2, (6, 0)).following((6, 6), 6).prev == (6, 6)
    assert SinkPlan(2, (6, 4)).following((6, 5), 6).prev == (6, 5)


def test_a_slot_that_an_older_version_forgot_is_asked_for() -> None:
    assert SinkPlan(2, (6, 5)).following((6,), 6).prev == (6, 5)
    # Never one ahead of what is committed, and never of a sink that is new to the flow.
    assert SinkPlan(2, (6, 9)).following((6,), 6).prev == (6, 0)
    assert SinkPlan(2, (6, 5)).following((), 6).prev == (0, 0)


def test_slots_are_merged_by_place() -> None:
    assert merged_slots({"a": (5, 5, 3), "b": (5,)}, {"a": (6, 6), "c": (6,)}) == {"a": (6, 6, 3), "b": (5,), "c": (6,)}


def test_an_amendment_keeps_idle_slots() -> None:
    start = SequenceOffset(20)
    stood = Checkpoint(start, 6, Epoch(1), "run", "", {}, None, NOON, {"kafka": (6, 5)})
    rewound = Amendment("rewind", "ada", "again", SequenceOffset(10), None, {"kafka": (7,)}, None)
    assert amended_checkpoint(stood, rewound, Epoch(2), NOON).slots == {"kafka": (7, 5)}


def topic(*positions: int) -> KafkaOffsets:
    return KafkaOffsets({"t": dict(enumerate(positions))})


def closing(start: Offset, end: Offset, **sinks: SinkPlan) -> Plan:
    return Plan("i", "f", 7, OffsetRange(start, end), sinks, "spec", NOON)


@pytest.mark.parametrize(
    ("stood", "end", "to", "until"),
    [
        (SequenceOffset(20), SequenceOffset(30), SequenceOffset(10), SequenceOffset(30)),
        (SequenceOffset(20), SequenceOffset(30), SequenceOffset(25), SequenceOffset(30)),
        (SequenceOffset(20), SequenceOffset(30), SequenceOffset(30), None),
        (topic(5, 5), topic(9, 9), topic(2, 2), topic(9, 9)),
        (topic(5, 5), topic(9, 5), topic(9, 2), KafkaOffsets({"t": {1: 5}})),
    ],
)
def test_an_amendment_knows_how_far_the_plan_went_that_it_closes(
    stood: Offset, end: Offset, to: Offset, until: Offset | None
) -> None:
    checkpoint = Checkpoint(stood, 6, Epoch(1), "run", "", {}, None, NOON, {"kafka": (6,)})
    plan = closing(stood, end, kafka=SinkPlan(), search=SinkPlan())
    moved = Amendment("restore", "ada", "again", to, plan, {"kafka": (7,)}, None)
    assert amended_checkpoint(checkpoint, moved, Epoch(2), NOON).closed_until == until
    # With markers alone nothing is left, but of what was closed before it.
    marked = replace(moved, closed=closing(stood, end, kafka=SinkPlan()))
    assert amended_checkpoint(checkpoint, marked, Epoch(2), NOON).closed_until is None
    earlier = replace(checkpoint, closed_until=until)
    assert amended_checkpoint(earlier, marked, Epoch(2), NOON).closed_until == until


def test_a_sink_that_joins_brings_how_far_its_own_closed_plans_went() -> None:
    stands = Checkpoint(SequenceOffset(20), 6, Epoch(1), "run", "", {}, None, NOON, {"kafka": (6,)})
    alone = replace(stands, batch=9, closed_until=SequenceOffset(40))
    by = Joining(Epoch(2), "run", NOON)
    for one, other in ((stands, alone), (alone, stands)):
        assert joined("f", "search", (one, None), (other, None), by).closed_until == SequenceOffset(40)


def test_of_a_topic_set_back_partitions_that_went_further_do_not_end_the_replay() -> None:
    """New records of partition 0 brought it behind where it stood, while partition 1 was still far from there."""
    checkpoint = Checkpoint(topic(100, 100), 6, Epoch(1), "run", "", {}, None, NOON)
    back = amended_checkpoint(checkpoint, Amendment("rewind", "ada", "", topic(50, 50)), Epoch(2), NOON)
    assert back.replay_until == topic(100, 100)
    further = amended_checkpoint(
        replace(back, offset=topic(120, 60)), Amendment("rewind", "ada", "", topic(110, 40)), Epoch(3), NOON
    )
    assert further.replay_until == topic(120, 100)
