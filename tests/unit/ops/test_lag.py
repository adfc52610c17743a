"""A flow is as far behind as the sink that is furthest behind."""

from __future__ import annotations

from typing import Any

from databus import Flow, Noop
from databus.connections.environment import EnvironmentConnections
from databus.core.offsets import SequenceOffset
from databus.core.settings import Settings
from databus.observe.clock import SystemClock
from databus.ops.lag import measure
from databus.runtime.context import Services
from databus.sources.mock import Mock
from databus.testing.memory_store import MemoryCheckpoints
from tests.contract.amendments import FLOW, move


def test_the_sink_furthest_behind_counts() -> None:
    store: Any = MemoryCheckpoints()
    recorder: Any = None
    services = Services(Settings("test", "", ""), EnvironmentConnections({}), store, None, recorder, SystemClock())
    flow = Flow(name=FLOW, source=Mock(rows=10), sinks=(Noop(name="kafka"), Noop(name="search")))
    lease: Any = store.claim(FLOW, "run-1", wait_s=0)
    store.start(FLOW, lease, SequenceOffset(0), "run-1")
    store.detach(FLOW, lease, "search", "away")
    move(store, lease, 5)

    assert store.load(FLOW).offset == SequenceOffset(5)
    assert measure(flow, services).committed == str(SequenceOffset(0))
