"""What stops a sink that is behind stops it alone; and what it is told to do where it stops before a statement."""

from __future__ import annotations

from typing import Any

import pytest

from databus.core.errors import DatabusError, DecodeError, QualityGateError, TransformError
from databus.core.positions.offsets import SequenceOffset
from databus.runtime import batch
from databus.sources.mock.source import MockSource
from tests.unit.runtime.marked_sinks import BROKERS, ROWS, Installation, brokers

assert brokers  # a fixture


def test_a_sink_that_stops_before_a_statement_is_told_to_move_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The flow has passed it, under a databus that did not see it; `checkpoint skip shop FILE:POS` is the flow's."""
    flow = Installation("a", "b")
    flow.run(max_batches=2)
    BROKERS["b"].down = True
    flow.run()
    BROKERS["b"].down = False
    reopen, plan = MockSource.reopen, MockSource.plan

    def refuse(at: Any) -> None:
        if at.sequence < 50:
            error = DecodeError("changes rows by statement", hint="`databus checkpoint skip shop bin.000001:50`")
            error.behind = "bin.000001:50"
            raise error

    monkeypatch.setattr(MockSource, "reopen", lambda source, moved: refuse(moved.start) or reopen(source, moved))
    monkeypatch.setattr(MockSource, "plan", lambda source, at, limit: refuse(at) or plan(source, at, limit))
    with pytest.raises(DecodeError) as told:
        flow.run()
    assert flow.store.of_sink("b").load("shop").offset == SequenceOffset(20)  # type: ignore[union-attr]
    assert "--sink b" in told.value.hint


@pytest.mark.parametrize("refused", [QualityGateError("weight is NULL"), TransformError("email would go out in clear")])
def test_a_transform_or_a_gate_that_refuses_rows_of_a_sink_behind_stops_it_alone(
    monkeypatch: pytest.MonkeyPatch, refused: DatabusError
) -> None:
    """The flow was edited since: its newer rows pass, those that the sink has yet to get do not."""
    flow = Installation("a", "b")
    flow.run(max_batches=2)
    BROKERS["b"].down = True
    flow.run(max_batches=2)
    BROKERS["b"].down, moving = False, batch._move_direct

    def older(session: Any, *rest: Any) -> Any:
        if session.passed is not None:
            raise refused
        return moving(session, *rest)

    monkeypatch.setattr(batch, "_move_direct", older)
    with pytest.raises(type(refused)):
        flow.run()
    assert (len(BROKERS["a"].held), len(BROKERS["b"].held)) == (ROWS, 40)
    monkeypatch.setattr(batch, "_move_direct", moving)
    assert flow.run().behind == {}
    assert len(BROKERS["b"].held) == ROWS
