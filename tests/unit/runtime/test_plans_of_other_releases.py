"""Plans in flight of another release: its version does not count, what decides where rows go does."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from databus import Flow, Mock, Noop
from databus.core.flow import PLAN_CODE
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.settings import Settings
from databus.core.state.plan import Plan, SinkPlan
from databus.runtime.context import FlowSession, RunIdentity

FLOW = Flow(name="f", source=Mock(tables=("shop.orders",), rows=10), sinks=(Noop(),))
RANGE = OffsetRange(SequenceOffset(0), SequenceOffset(5))


def session_of(identity: RunIdentity) -> FlowSession:
    nothing: Any = None
    return FlowSession(FLOW, Settings("t", "", ""), nothing, nothing, nothing, None, identity, nothing, {})


def plan_of(identity: RunIdentity) -> Plan:
    spec_hash = session_of(identity).spec_hash
    return Plan("t", "f", 1, RANGE, {"noop": SinkPlan()}, spec_hash, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(("earlier", "later"), [("0.1.0", "0.2.0"), ("0.2.0", "0.1.0")], ids=["upgrade", "way back"])
def test_a_plan_is_taken_up_by_another_release(earlier: str, later: str) -> None:
    assert session_of(RunIdentity("run", "", later)).takes_up(plan_of(RunIdentity("run", "", earlier)))


def test_a_plan_of_code_that_decides_otherwise_is_not() -> None:
    former = plan_of(RunIdentity("run", "", "0.1.0"))
    assert not session_of(RunIdentity("run", "", "0.1.0", "9")).takes_up(former)


def test_plans_of_all_versions_so_far_keep_their_hash() -> None:
    assert PLAN_CODE == "0.1.0"
    assert plan_of(RunIdentity("run", "", "9.9")).spec_hash == FLOW.spec_hash("0.1.0")
