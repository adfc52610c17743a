"""Preflight of a flow with several sinks: one that is away does not keep the others from running."""

from __future__ import annotations

from typing import Any

import pytest

from databus import Flow, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import ConfigError
from databus.core.findings import Level
from databus.core.settings import Settings
from databus.observe.clock import SystemClock
from databus.ops import checkpoints
from databus.ops.preflight import preflight, require_passed
from databus.runtime.context import Services
from databus.sources.mock import Mock
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.runtime.test_sinks_behind import BROKERS, Broker, Marked


@pytest.fixture
def flow() -> Any:
    BROKERS.update({name: Broker() for name in ("a", "b")})
    yield Flow(name="shop", source=Mock(rows=10), sinks=(Marked(name="a"), Marked(name="b")))
    BROKERS.clear()


def services(store: MemoryCheckpoints) -> Services:
    recorder: Any = None
    return Services(Settings("test", "", ""), EnvironmentConnections({}), store, None, recorder, SystemClock())


def test_one_sink_that_is_away_is_a_warning(flow: Flow) -> None:
    BROKERS["b"].down = True
    findings = preflight(flow, services(MemoryCheckpoints()))
    require_passed(flow, findings)
    (away,) = [f for f in findings if f.code == "sink_unavailable"]
    assert away.level is Level.WARN
    assert "catches up by itself" in away.hint


def test_all_sinks_away_stop_the_flow(flow: Flow) -> None:
    BROKERS["a"].down = BROKERS["b"].down = True
    with pytest.raises(ConfigError) as caught:
        require_passed(flow, preflight(flow, services(MemoryCheckpoints())))
    assert (caught.value.code, caught.value.retryable) == ("sink_unavailable", True)


def test_a_sink_that_is_behind_is_shown(flow: Flow) -> None:
    store = MemoryCheckpoints()
    lease = store.claim("shop", __version__, 0)
    store.start("shop", lease, flow.source.open(EnvironmentConnections({}), Any).start_offset(), "run")  # type: ignore[arg-type]
    store.detach("shop", lease, "b", "away")
    (behind,) = [f for f in preflight(flow, services(store)) if f.code == "sink_behind"]
    assert (behind.level, behind.subject) == (Level.WARN, "sink b")
    assert list(checkpoints.show(flow, services(store)).behind) == ["b"]
