"""Windows that are asked to hand over from their first moment on."""

from __future__ import annotations

import pytest

from databus.testing.memory_store import MemoryLease
from tests.unit.runtime import test_sinks_behind as given
from tests.unit.runtime.test_sinks_behind import ROWS, Broker, Installation

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
