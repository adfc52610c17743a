"""What was new to an index stays so through an adoption, at the flow and at no other sink's own checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from databus.checkpoints.rules.lagging_sinks import Joining, joined
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import Plan, SinkPlan
from databus.ops.checkpoint import adopt

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
SERVICES: Any = SimpleNamespace(clock=SimpleNamespace(now=lambda: NOON))
BEFORE = Checkpoint(SequenceOffset(2), 2, Epoch(1), "run", "h", {}, None, NOON, first={"search": ("y",)})
PENDING = Plan(
    "test", "f", 3, OffsetRange(SequenceOffset(2), SequenceOffset(3)),
    {"search": SinkPlan(first=("x", "y")), "kafka": SinkPlan()}, "s", NOON,
)  # fmt: skip


def adopted(before: Checkpoint, pending: Plan | None) -> Checkpoint:
    found = adopt.Adoption("f", before, SequenceOffset(4), 5, "q", {"kafka": (5,)}, ())
    return adopt._checkpoint(found, SERVICES, (Epoch(2), "ada"), pending)


def test_what_the_deleted_plan_took_for_new_is_still_new() -> None:
    assert adopted(BEFORE, PENDING).first == {"search": ("x", "y")}
    assert adopted(BEFORE, None).first == BEFORE.first


def test_a_sink_that_was_adopted_behind_tells_nothing_of_others_when_it_joins() -> None:
    flows = adopted(BEFORE, None)
    own = adopted(Checkpoint(SequenceOffset(2), 2, Epoch(1), "run", "h", {}, None, NOON), PENDING)
    after = joined("f", "kafka", (flows, None), (own, None), Joining(Epoch(3), "run", NOON))
    assert after.first == {"search": ("y",)}
