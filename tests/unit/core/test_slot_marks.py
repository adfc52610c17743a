"""What the markers of a sink's slots must hold, also of slots that the flow has not at the moment."""

from __future__ import annotations

from datetime import UTC, datetime

from databus.checkpoints.amended import amended_checkpoint
from databus.core.amendments import Amendment
from databus.core.checkpoint import Checkpoint, Epoch, merged_slots
from databus.core.offsets import SequenceOffset
from databus.core.plan import SinkPlan

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
