"""Preflight of a flow with several sinks: one that is away does not keep the others from running."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from databus import Elasticsearch, Flow, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import (
    ConfigError,
    DatabusError,
    SegmentStoreFullError,
    ServerIdTakenError,
    SinkAccessError,
    SinkSettingError,
    SinkTransactionHangingError,
)
from databus.core.findings import Finding, Level
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.ops.checkpoint import show as checkpoints
from databus.ops.health.preflight import preflight, require_passed
from databus.runtime.context import Services
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.runtime.marked_sinks import BROKERS, Broker, Marked, MarkedSink


@pytest.fixture
def flow() -> Any:
    BROKERS.update({name: Broker() for name in ("a", "b")})
    yield Flow(name="shop", source=Mock(rows=10), sinks=(Marked(name="a"), Marked(name="b")))
    BROKERS.clear()


def services(store: MemoryCheckpoints, **connections: Any) -> Services:
    recorder: Any = None
    known = {f"AIRFLOW_CONN_{name.upper()}": json.dumps(values) for name, values in connections.items()}
    return Services(Settings("test", "", ""), EnvironmentConnections(known), store, None, recorder, SystemClock())


@contextmanager
def overloaded() -> Iterator[dict[str, Any]]:
    """A search server that answers 429 to whatever it is asked; yields its connection."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            refusal = {"error": {"type": "circuit_breaking_exception", "reason": "too many requests"}, "status": 429}
            text = json.dumps(refusal).encode()
            self.send_response(429)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield {"conn_type": "opensearch", "host": "127.0.0.1", "port": server.server_address[1], "schema": "http"}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_one_sink_that_is_away_is_a_warning(flow: Flow) -> None:
    BROKERS["b"].down = True
    findings = preflight(flow, services(MemoryCheckpoints()))
    require_passed(flow, findings)
    (away,) = [f for f in findings if f.code == "sink_unavailable"]
    assert away.level is Level.WARN
    assert "catches up by itself" in away.hint


def test_outputs_that_cannot_be_looked_at_are_a_warning_beside_the_other_findings(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(*_: object) -> list[Finding]:
        raise SinkAccessError("DescribeConfigs is refused")

    monkeypatch.setattr(MarkedSink, "judge", judge, raising=False)
    monkeypatch.setattr(MarkedSink, "preflight", lambda _: [Finding("brokers", Level.OK, "reachable")])
    findings = preflight(flow, services(MemoryCheckpoints()))
    require_passed(flow, findings)
    told = [(f.level, f.message) for f in findings if f.subject == "brokers" or f.code == "sink_access_denied"]
    assert told == [(Level.OK, "reachable"), (Level.WARN, "DescribeConfigs is refused")] * 2


def test_all_sinks_away_stop_the_flow(flow: Flow) -> None:
    BROKERS["a"].down = BROKERS["b"].down = True
    with pytest.raises(ConfigError) as caught:
        require_passed(flow, preflight(flow, services(MemoryCheckpoints())))
    assert (caught.value.code, caught.value.retryable) == ("sink_unavailable", True)


def test_an_overloaded_sink_is_a_warning_where_another_is_well(flow: Flow) -> None:
    both = flow.model_copy(update={"sinks": (flow.sinks[0], Elasticsearch(conn_id="search", index="shop-{table}"))})
    with overloaded() as search:
        findings = preflight(both, services(MemoryCheckpoints(), search=search))
    require_passed(both, findings)
    (busy,) = [f for f in findings if f.code == "sink_backpressure"]
    assert (busy.level, busy.retryable) == (Level.WARN, True)
    assert "too many requests" in busy.message
    assert "catches up by itself" in busy.hint


def test_overloaded_and_away_sinks_alone_stop_the_flow_until_a_retry(flow: Flow) -> None:
    search = Elasticsearch(conn_id="search", index="shop-{table}")
    BROKERS["a"].down = True
    with overloaded() as connection:
        for sinks in ((search,), (flow.sinks[0], search)):
            alone = flow.model_copy(update={"sinks": sinks})
            findings = preflight(alone, services(MemoryCheckpoints(), search=connection))
            with pytest.raises(ConfigError, match="too many requests") as caught:
                require_passed(alone, findings)
            assert caught.value.retryable


@pytest.mark.parametrize(
    "error",
    [
        SegmentStoreFullError("no space left"),
        ServerIdTakenError("server id 7 is taken"),
        SinkTransactionHangingError("nobody ends it"),
        SinkSettingError("read only"),
    ],
    ids=lambda error: error.code,
)
def test_a_finding_is_retried_as_its_error_would_be(flow: Flow, error: DatabusError) -> None:
    with pytest.raises(ConfigError) as caught:
        require_passed(flow, [Finding.of("shop", error)])
    assert (caught.value.code, caught.value.retryable) == (error.code, error.retryable)


def test_a_sink_that_is_behind_is_shown(flow: Flow) -> None:
    store = MemoryCheckpoints()
    lease = store.claim("shop", __version__, 0)
    store.start("shop", lease, flow.source.open(EnvironmentConnections({}), None).start_offset(), "run")  # type: ignore[arg-type]
    store.detach("shop", lease, "b", "away")
    (behind,) = [f for f in preflight(flow, services(store)) if f.code == "sink_behind"]
    assert (behind.level, behind.subject) == (Level.WARN, "sink b")
    assert list(checkpoints.show(flow, services(store)).behind) == ["b"]
