"""What a sink that is behind is told to do where it stops before a statement."""

from __future__ import annotations

from typing import Any

import pytest

from databus.core.errors import DecodeError
from databus.core.offsets import SequenceOffset
from databus.sources.mock_source import MockSource
from tests.unit.runtime.test_sinks_behind import BROKERS, Installation, brokers

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
