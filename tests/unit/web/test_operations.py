"""Operators' routes: rights, problems, versions, keys, pages; what a decision does is the use cases' own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.routing import APIRoute

from databus.airflow import api
from databus.core.errors.batch import RecordingError
from databus.core.errors.checkpoint import CheckpointUnavailableError
from databus.core.errors.entries import all_entries
from databus.core.errors.problem import MEDIA_TYPE
from databus.ops.checkpoint import amend as mediation
from databus.records.actions import ActionAnswer, ActionRequest, Actions
from databus.records.store import RecordStore
from databus.web import actions as of_actions
from databus.web import checkpoints
from databus.web import installation as of_web
from tests.unit.web.operators_app import DAG, FLOW, Operators, held, hold, operators_app

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operators]:
    monkeypatch.setenv("DATABUS_RECORDS_URL", f"sqlite:///{tmp_path / 'records.db'}")
    with operators_app(tmp_path) as opened:
        yield opened


def test_every_route_has_a_guard_and_those_that_change_something_another(app: Operators) -> None:
    routes = [route for route in app.client.app.routes if isinstance(route, APIRoute)]  # type: ignore[attr-defined]
    assert len(routes) > 30
    for route in routes:
        path = route.path_format.format(dag_id=DAG, run_id="r1")
        for method in route.methods:
            app.role = "stranger"
            answer = app.client.request(method, path, json={"reason": "x"})
            assert (answer.status_code, method) in ((403, method), (200, "GET")), path  # the list of flows is empty
            if method == "POST":
                app.role = "viewer"
                assert app.client.post(path, json={"reason": "x"}).status_code == 403, path
    assert app.notes == []


def test_errors_are_problems_with_our_codes(app: Operators) -> None:
    answer = app.client.get("/api/v1/dags/other/checkpoint")
    assert (answer.status_code, answer.headers["content-type"]) == (404, MEDIA_TYPE)
    told = answer.json()
    assert (told["code"], told["status"], told["retryable"]) == ("dag_no_flow", 404, False)
    assert told["title"] == all_entries()["dag_no_flow"].cause
    assert told["instance"].startswith("urn:uuid:")
    assert told["hint"]
    assert app.client.get("/api/v1/dags/hidden/checkpoint").headers["content-type"] == MEDIA_TYPE
    answer = app.client.post(f"/api/v1/dags/{DAG}/checkpoint/preview", json={"action": "rewind", "plcae": "x"})
    assert (answer.status_code, answer.json()["code"]) == (422, "request_refused")
    assert "plcae" in answer.json()["detail"]
    assert app.post("/checkpoint/preview", 422, action="rewind", place="nowhere")["code"] == "place_invalid"
    assert app.post("/checkpoint/preview", 422, action="rewind")["code"] == "config_invalid"


def test_a_server_that_is_away_is_no_defect(app: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise CheckpointUnavailableError("ZooKeeper does not answer")

    monkeypatch.setattr(app.store, "load", away)
    answer = app.client.get(f"/api/v1/dags/{DAG}/checkpoint")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (
        503, "checkpoint_unavailable", "5",
    )  # fmt: skip

    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(app.store, "load", broken)
    answer = app.client.get(f"/api/v1/dags/{DAG}/checkpoint")
    assert (answer.status_code, answer.headers["content-type"]) == (500, MEDIA_TYPE)
    assert "secret" not in answer.text


def test_requests_that_wait_for_servers_leave_threads_to_airflow(
    app: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_web, "_free", threading.BoundedSemaphore(1))
    load, inner = app.store.load, list[Any]()

    def asked_while_one_waits(*asked: Any) -> Any:
        if not inner:
            inner.append(None)
            inner[0] = app.client.get(f"/api/v1/dags/{DAG}/checkpoint")
        return load(*asked)

    monkeypatch.setattr(app.store, "load", asked_while_one_waits)
    assert app.get("/checkpoint")["flow"] == FLOW.name
    assert (inner[0].status_code, inner[0].headers["retry-after"]) == (503, "5")
    assert (inner[0].json()["code"], inner[0].json()["retryable"]) == ("request_refused", True)
    assert app.get("/checkpoint")["flow"] == FLOW.name


def test_a_pause_and_its_end_are_in_history_audit_and_airflows_log(app: Operators) -> None:
    before = app.get("/checkpoint")
    assert (before["flow"], before["dag_id"], before["paused"]) == (FLOW.name, DAG, None)
    done = app.post("/checkpoint/pause", key="1", reason="a bad deploy")
    assert "ada" in done["result"]["paused"]
    assert done["version"] != before["version"]
    assert app.get("/checkpoint")["paused"] == done["result"]["paused"]
    app.post("/checkpoint/resume", key="2", reason="mended")
    audited = app.get("/audit")["items"]
    assert [(e["action"], e["who"], e["why"]) for e in audited[:2]] == [
        ("resume", "ada", "mended"), ("pause", "ada", "a bad deploy"),
    ]  # fmt: skip
    assert [(who, dag, event, facts["reason"]) for who, dag, event, facts in app.notes] == [
        ("ada", DAG, "databus_pause", "a bad deploy"), ("ada", DAG, "databus_resume", "mended"),
    ]  # fmt: skip


def test_the_audit_as_csv_holds_no_formula(app: Operators) -> None:
    app.post("/checkpoint/pause", reason='=HYPERLINK("https://evil")')
    answer = app.client.get(f"/api/v1/dags/{DAG}/audit.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    line = next(line for line in answer.text.splitlines() if "HYPERLINK" in line)
    assert ",\"'=HYPERLINK" in line


def test_history_and_audit_come_page_by_page_while_entries_come_in(app: Operators) -> None:
    for number in range(6):
        app.post(f"/checkpoint/{'resume' if number % 2 else 'pause'}", key=str(number), reason=f"r{number}")
    for route in ("/checkpoint/history", "/audit"):
        seen, cursor = [], ""
        while cursor is not None:
            found = app.get(route, limit=2, cursor=cursor)
            seen += [entry["number"] for entry in found["items"]]
            cursor = found["next"]
            app.post("/checkpoint/pause", key=f"{route}{cursor}", reason="meanwhile")
            app.post("/checkpoint/resume", key=f"{route}{cursor}+", reason="meanwhile")
        assert seen == sorted(set(seen), reverse=True)
        assert seen[-1] == 1
    assert app.get("/checkpoint/history", 400, cursor="nonsense")["code"] == "request_refused"
    assert app.get("/audit", 400, cursor="WzFd")["code"] == "request_refused"
    assert app.get("/audit", 422, limit=0)["code"] == "request_refused"


def test_a_stale_tab_is_refused_with_what_changed(app: Operators) -> None:
    seen = app.get("/checkpoint")["version"]
    app.post("/checkpoint/pause", key="1", match=f'"{seen}"', reason="first")
    told = app.post("/checkpoint/resume", 412, key="2", match=f'W/"{seen}"', reason="from a stale tab")
    assert told["code"] == "checkpoint_moved"
    assert [(c["action"], c["who"], c["why"]) for c in told["changes"]] == [("pause", "ada", "first")]
    assert told["version"] == app.get("/checkpoint")["version"]
    assert app.get("/checkpoint")["paused"] is not None
    app.post("/checkpoint/resume", key="2", match=f'"{told["version"]}"', reason="looked again")


def test_an_action_needs_json_a_key_and_the_moves_a_version(app: Operators) -> None:
    path = f"/api/v1/dags/{DAG}/checkpoint"
    sent = {"Idempotency-Key": "k", "If-Match": "*"}
    form = app.client.post(f"{path}/pause", data={"reason": "x"}, headers=sent)
    text = app.client.post(f"{path}/pause", content='{"reason":"x"}', headers={**sent, "content-type": "text/plain"})
    other = app.client.post(f"{path}/pause", json={"reason": "x"}, headers={**sent, "sec-fetch-site": "cross-site"})
    keyless = app.client.post(f"{path}/pause", json={"reason": "x"})
    blind = app.client.post(f"{path}/rewind", json={"reason": "x", "batches": 1}, headers={"Idempotency-Key": "k"})
    assert [a.status_code for a in (form, text, other, keyless, blind)] == [415, 415, 403, 400, 428]
    for unset in ('""', 'W/""', '" "', " "):  # `-H "If-Match: \\"$VERSION\\""` without a version is no "any"
        assert app.post("/checkpoint/rewind", 428, match=unset, reason="x", batches=1)["code"] == "request_refused"
        assert app.post("/checkpoint/pause", 428, match=unset, reason="x")["code"] == "request_refused"
    assert app.get("/checkpoint")["paused"] is None
    assert app.post("/checkpoint/pause", 422, reason=" ")["code"] == "reason_missing"
    assert app.post("/checkpoint/pause", 422, reason="")["code"] == "request_refused"


def test_a_request_that_comes_twice_is_done_once(app: Operators) -> None:
    first = app.post("/checkpoint/pause", key="once", reason="a")
    app.post("/checkpoint/resume", key="other", reason="b")
    answer = app.client.post(
        f"/api/v1/dags/{DAG}/checkpoint/pause", json={"reason": "a"},
        headers={"Idempotency-Key": "once", "If-Match": "*"},
    )  # fmt: skip
    assert (answer.json(), answer.headers["idempotent-replayed"]) == (first, "true")
    assert app.get("/checkpoint")["paused"] is None
    assert len(app.notes) == 2
    assert app.post("/checkpoint/pause", 422, key="once", reason="other")["code"] == "action_key_reused"
    assert app.post("/checkpoint/resume", 422, key="once", reason="a")["code"] == "action_key_reused"


def test_a_request_that_failed_is_done_when_it_comes_again(app: Operators) -> None:
    assert (
        app.post("/quarantine/discard", 422, key="k", reason="x", rows=1, stage="no such")["code"] == "config_invalid"
    )
    hold(app, held(1))
    assert app.post("/quarantine/discard", key="k", reason="x", rows=1)["result"] == {"discarded": 1}


def test_an_action_that_was_done_is_answered_though_a_server_goes_away(
    app: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise CheckpointUnavailableError("ZooKeeper does not answer")

    pause, end, ends = mediation.pause, Actions.end, list[str]()

    def paused_then_away(*asked: Any) -> Any:
        made = pause(*asked)
        monkeypatch.setattr(app.store, "history", away)
        monkeypatch.setattr(checkpoints, "version_of", away)
        return made

    def at_the_second_try(actions: Actions, request: ActionRequest, attempt: str, answer: ActionAnswer) -> None:
        ends.append(attempt)
        if len(ends) == 1:
            raise RecordingError("the records are away")
        end(actions, request, attempt, answer)

    monkeypatch.setattr(mediation, "pause", paused_then_away)
    monkeypatch.setattr(Actions, "end", at_the_second_try)
    monkeypatch.setattr(of_actions, "_AGAIN_S", 0.0)
    done = app.post("/checkpoint/pause", key="once", reason="a")
    assert (done["version"], "ada" in done["result"]["paused"], len(ends)) == (None, True, 2)
    assert checkpoints._way_back(FLOW, SimpleNamespace(store=app.store)) is None  # type: ignore[arg-type]
    assert app.post("/checkpoint/pause", key="once", reason="a") == done
    assert len(app.notes) == 1


def test_an_action_whose_answer_cannot_be_stored_is_told_as_done(
    app: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise RecordingError("the records are away", hint="Start them.")

    monkeypatch.setattr(Actions, "end", away)
    monkeypatch.setattr(of_actions, "_AGAIN_S", 0.0)
    told = app.post("/checkpoint/pause", 503, key="once", reason="a")
    assert (told["code"], told["retryable"]) == (RecordingError.code, False)
    assert told["hint"].startswith("What was asked for was done")
    assert told["hint"].endswith("Start them.")
    assert app.store.paused(FLOW.name) is not None


def test_a_request_that_is_being_done_is_told_so(tmp_path: Path) -> None:
    from datetime import UTC, datetime, timedelta

    now = datetime(2026, 11, 27, tzinfo=UTC)
    request = ActionRequest("orders", "k", "ada", "rewind", {"batches": 1})
    with RecordStore(f"sqlite:///{tmp_path / 'r.db'}") as store:
        actions = Actions(store)
        attempt, _ = actions.begin(request, now)
        with pytest.raises(Exception, match="is being done") as told:
            actions.begin(request, now + timedelta(minutes=1))
        assert told.value.code == "action_open"  # type: ignore[attr-defined]
        # One that takes over what still runs, and fails, gives it back.
        third, _ = actions.begin(request, now + timedelta(hours=2))
        actions.drop(request, third)
        with pytest.raises(Exception, match="is being done"):
            actions.begin(request, now + timedelta(minutes=2))
        # One that was cut off is done by the next; what the first finds then is not stored.
        second, _ = actions.begin(request, now + timedelta(hours=2))
        actions.end(request, attempt, ActionAnswer(200, {"by": "first"}))
        actions.end(request, second, ActionAnswer(200, {"by": "second"}))
        assert actions.begin(request, now) == ("", ActionAnswer(200, {"by": "second"}))
        actions.drop(request, second)
        assert actions.begin(request, now)[0] == ""


def test_values_need_the_right_to_edit_the_dag_as_airflow_is_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    entity = type("DagAccessEntity", (), {"XCOM": "xcom", "AUDIT_LOG": "audit"})
    details = "airflow.api_fastapi.auth.managers.models.resource_details"
    security = "airflow.api_fastapi.core_api.security"
    made: dict[str, dict[str, Any]] = {
        details: {"DagAccessEntity": entity},
        security: {"get_user": lambda: None, "requires_access_dag": lambda *right: right},
    }
    for name, facts in made.items():
        monkeypatch.setitem(sys.modules, name, type(sys)(name))
        for attribute, value in facts.items():
            monkeypatch.setattr(sys.modules[name], attribute, value, raising=False)
        for parent in (name.rpartition(".")[0], name.split(".")[0]):
            monkeypatch.setitem(sys.modules, parent, sys.modules.get(parent, type(sys)(parent)))
    asked = api.access(lambda: None)
    assert (asked.values, asked.changes, asked.sees) == (("PUT",), ("PUT",), ("GET",))


def test_what_is_not_there_yet_is_said(app: Operators) -> None:
    assert app.get("/gaps") == {"flow": FLOW.name, "gaps": []}
    none = app.get("/snapshot")
    assert (none["flow"], none["snapshot"], "databus snapshot begin" in none["note"]) == (FLOW.name, None, True)
    assert app.get("/quality") == {"flow": FLOW.name, "runs": [], "latest": []}
    assert app.get("/mirror/partitions", 422)["code"] == "config_invalid"
    assert app.post("/snapshot/cancel", 409, reason="x")["code"] == "checkpoint_conflict"
