"""Moves of a checkpoint through the routes, on a flow that runs in this process: previewed, done, and led back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.core.state.amendments import SinkEffect
from databus.core.state.plan import Plan
from databus.core.times import SystemClock
from databus.records.recorder import SqlRecorder
from databus.runtime.context import Services
from databus.web import installation as of_web
from databus.web.app import create_app
from databus.web.installation import Access, DagFlow, Installation
from databus.web.operations import add_operations
from tests.unit.runtime import marked_sinks as behind
from tests.unit.runtime.marked_sinks import MarkedSink, brokers

assert brokers  # a fixture that is used by all tests here


class Routes:
    """The routes on a flow of one sink, and what they answer."""

    def __init__(self, client: TestClient, flow: behind.Installation):
        self.client, self.flow, self._number = client, flow, 0

    def get(self, path: str) -> Any:
        return self.client.get(f"/api/v1/dags/any{path}").raise_for_status().json()

    def post(self, path: str, match: str, status: int = 200, **body: Any) -> Any:
        self._number += 1
        sent = {"If-Match": f'"{match}"', "Idempotency-Key": str(self._number)}
        answer = self.client.post(f"/api/v1/dags/any{path}", json=body, headers=sent)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
def routes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Routes]:
    effect = SinkEffect("a", "the same event ids")
    monkeypatch.setattr(MarkedSink, "effect_of", lambda *_, **__: effect, raising=False)
    flow = behind.Installation("a")
    url = f"sqlite:///{tmp_path / 'records.db'}"
    with SqlRecorder.open(url) as recorder:

        @contextmanager
        def services(*_: Any, **__: Any) -> Iterator[Services]:
            yield Services(
                Settings("test", str(tmp_path), url), EnvironmentConnections({}), flow.store, None,  # type: ignore[arg-type]
                recorder, SystemClock(),
            )  # fmt: skip

        monkeypatch.setattr(of_web, "open_services", services)
        access = Access(_ok, _ok, _ok, _ok, _ok, lambda: "ada", _unnoted)
        found = Installation(lambda _: DagFlow(flow.flow, ""), EnvironmentConnections({}), lambda *_: None)
        app = create_app(_ok, _ok, tmp_path, partial(add_operations, access=access, installation=found))
        yield Routes(TestClient(app), flow)


def _ok() -> None:
    """Let everybody in."""


def _unnoted(_who: str, _dag: str, _event: str, _facts: Mapping[str, Any]) -> None:
    """Stand for Airflow's log of events."""


def test_a_rewind_is_previewed_done_and_led_back(routes: Routes) -> None:
    routes.flow.run()
    before = routes.get("/checkpoint")
    seen = routes.post("/checkpoint/preview", "*", action="rewind", batches=1)
    assert (seen["version"], seen["preview"]["direction"]) == (before["version"], "back")
    assert seen["preview"]["from"] == before["place"]
    assert routes.get("/checkpoint") == before  # nothing was changed
    done = routes.post("/checkpoint/rewind", seen["version"], reason="a bad deploy", batches=1)
    assert done["result"] == seen["preview"]
    moved = routes.get("/checkpoint")
    assert (moved["place"], moved["version"]) == (seen["preview"]["to"], done["version"])
    stale = routes.post("/checkpoint/rewind", seen["version"], 412, reason="from a stale tab", batches=1)
    assert [(c["action"], c["who"]) for c in stale["changes"]] == [("rewind", "ada")]
    assert routes.get("/checkpoint") == moved
    entry = done["way_back"]["entry"]
    back = routes.post("/checkpoint/restore", done["version"], reason="the wrong flow", entry=entry)
    assert routes.get("/checkpoint")["place"] == before["place"]
    assert back["way_back"]["entry"] == entry + 1
    routes.flow.assert_each_holds_all_once()


def test_a_skip_leaves_a_gap_with_who_and_why(routes: Routes) -> None:
    routes.flow.run(max_batches=1)
    seen = routes.post("/checkpoint/preview", "*", action="skip", place="latest")
    assert seen["preview"]["direction"] == "forward"
    routes.post("/checkpoint/skip", seen["version"], reason="poison", place="latest")
    (gap,) = routes.get("/gaps")["gaps"]
    assert (gap["who"], gap["why"], gap["decision"]) == ("ada", "poison", "skipped")
    assert routes.get("/checkpoint")["place"] == seen["preview"]["to"]
    newest = routes.get("/audit")["items"][0]
    assert (newest["action"], newest["who"], newest["why"], newest["subject"]) == ("skip", "ada", "poison", "flow")


def test_a_run_that_holds_the_flow_refuses_a_move(routes: Routes) -> None:
    routes.flow.run()
    version = routes.get("/checkpoint")["version"]
    lease = routes.flow.store.claim("shop", "a run", 0.0)
    told = routes.post("/checkpoint/rewind", version, 409, reason="x", batches=1)
    lease.release()
    assert (told["code"], told["retryable"]) == ("checkpoint_busy", True)
    assert "pause" in told["hint"]
    assert routes.get("/checkpoint")["version"] == version


def test_a_lagging_sink_is_moved_alone_and_its_own_version_counts(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def abandon(_: MarkedSink, _plan: Plan) -> Mapping[int, str]:
        return {}

    monkeypatch.setattr(MarkedSink, "abandon", abandon)
    flow = behind.Installation("a", "b")
    routes.flow.flow, routes.flow.server = flow.flow, flow.server
    flow.run(max_batches=1)
    behind.BROKERS["b"].down = True
    flow.run(max_batches=2)
    behind.BROKERS["b"].down = False
    before = routes.get("/checkpoint")
    assert list(before["sinks_behind"]) == ["b"]
    assert ".b=" in before["version"]
    seen = routes.post("/checkpoint/preview", "*", action="skip", sink="b")
    done = routes.post("/checkpoint/skip", seen["version"], reason="it was given up", sink="b")
    assert done["result"]["sink"] == "b"
    assert routes.get("/checkpoint")["sinks_behind"] == {}
    assert routes.get("/gaps")["gaps"][0]["why"] == "it was given up"
