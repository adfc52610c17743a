"""Windows that are asked to hand over from their first moment on, and such as were taken over unasked."""

from __future__ import annotations

from typing import Any

import pytest

from databus.core.errors import SourceUnavailableError, StaleEpochError
from databus.sources.mock.source import MockSource
from databus.testing.memory_store import MemoryLease
from tests.unit.runtime import marked_sinks as given
from tests.unit.runtime.marked_sinks import ROWS, Broker, Installation

brokers = given.brokers


@pytest.fixture
def _somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryLease, "successor_waiting", lambda _: True)


@pytest.mark.usefixtures("_somebody_waits")
def test_each_of_runs_that_come_all_at_once_moves_a_batch(brokers: dict[str, Broker]) -> None:
    flow = Installation("a")
    moved = [flow.run().batches for _ in range(ROWS // 20)]
    assert moved == [1] * (ROWS // 20)
    assert len(brokers["a"].held) == ROWS
    assert flow.run().batches == 0


@pytest.mark.parametrize("while_away", [True, False])
def test_a_holder_that_was_taken_over_says_so_whatever_it_failed_with(
    brokers: dict[str, Broker], monkeypatch: pytest.MonkeyPatch, *, while_away: bool
) -> None:
    flow, plan_of = Installation("a"), MockSource.plan

    def fails(source: MockSource, *args: Any) -> Any:
        if while_away:
            monkeypatch.setattr(MockSource, "plan", plan_of)
            flow.server.flow(flow.flow.name).holder = None  # the lease ended with its session
            assert flow.run(max_batches=1).batches == 1
        raise SourceUnavailableError("what a batch was to be read from is gone")

    monkeypatch.setattr(MockSource, "plan", fails)
    with pytest.raises(StaleEpochError if while_away else SourceUnavailableError, match="is gone"):
        flow.run()
    assert len(brokers["a"].held) == (20 if while_away else 0)
