"""What the history entry of outputs that were accepted says and keeps."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from databus.checkpoints.rules.history_entries import accept_entry
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.amendments import AcceptedOutputs
from databus.core.state.checkpoint import Checkpoint, Epoch, ReplacedOutputs
from databus.core.state.plan import Plan, SinkPlan

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
CHECKPOINT = Checkpoint(SequenceOffset(1), 1, Epoch(1), "run", "", {}, None, NOON)
PLAN = Plan("test", "f", 2, OffsetRange(SequenceOffset(1), SequenceOffset(2)), {"kafka": SinkPlan()}, "s", NOON)


@pytest.mark.parametrize(
    ("forgotten", "why"),
    [
        (1, "renamed; kafka: t0 forgotten; other: u forgotten"),
        (5, "renamed; kafka: t0, t1, t2, t3, t4 forgotten; other: u forgotten"),
        (2000, "renamed; kafka: t0, t1, t10, t100, t1000 and 1995 more forgotten; other: u forgotten"),
    ],
)
def test_the_reason_names_the_first_of_those_that_were_forgotten_and_counts_the_others(
    forgotten: int, why: str
) -> None:
    several = {f"t{n}": None for n in range(forgotten)}
    outputs = {"kafka": {"gone": None, "stands": "id", **several}, "other": {"u": None}}
    said = AcceptedOutputs("ada", "renamed", outputs, {"kafka": {"gone": None}})
    assert accept_entry(2, CHECKPOINT, None, said, NOON).why == why


def test_of_a_plan_in_flight_it_keeps_what_went_to_the_outputs_that_were_accepted() -> None:
    gone = {"kafka": {"a": "a2", "b[0]": None}}
    written = {"kafka": {"a[0]": 3, "a[1]": 1, "b[0][0]": 2, "b[0]": 5, "c[0]": 9}, "other": {"a[0]": 1}}
    said = AcceptedOutputs("ada", "", gone, gone, written)
    entry = accept_entry(2, CHECKPOINT, PLAN, said, NOON)
    assert entry.replaced == ReplacedOutputs(2, gone, {"kafka": {"a[0]": 3, "a[1]": 1, "b[0][0]": 2}})


def test_that_nothing_of_it_went_there_is_known_and_kept() -> None:
    gone = {"kafka": {"a": None}}
    said = AcceptedOutputs("ada", "", gone, gone, {"kafka": {"c[0]": 9}})
    entry = accept_entry(2, CHECKPOINT, PLAN, said, NOON)
    assert entry.replaced == ReplacedOutputs(2, gone, {"kafka": {}})
    assert ReplacedOutputs.from_json(entry.replaced.to_json()) == entry.replaced
    unknown = accept_entry(2, CHECKPOINT, PLAN, replace(said, written={}), NOON)
    assert unknown.replaced == ReplacedOutputs(2, gone)
