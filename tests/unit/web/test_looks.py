"""Lists of all flows and looks at one: what they show, to whom, and what they hide."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from databus import Mask
from databus.core.batches.receipts import RejectedRow
from databus.core.errors import CheckpointUnavailableError, ConfigError, DatabusError
from databus.core.flow import Flow
from databus.ops.checkpoint import overview
from databus.ops.runs import shown_rows as of_rows
from databus.web import looks
from databus.web.definitions import router
from databus.web.installation import Access, DagFlow, Installation
from databus.web.problems import install
from tests.unit.web.described import checked
from tests.unit.web.operators_app import DAG, FLOW, Operators, held, hold, operators_app

ROW = {
    "op": "u", "database": "shop", "table": "orders", "key": {"id": 1, "email": "a@b"}, "other_key": b'{"email":"a@b"}',
    "before": {"id": 1, "email": "a@b"}, "after": {"id": 1, "email": "c@d", "total": 12345678901234567890},
    "statement": None, "event_id": "e1",
}  # fmt: skip


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operators]:
    monkeypatch.setenv("DATABUS_RECORDS_URL", f"sqlite:///{tmp_path / 'records.db'}")
    with operators_app(tmp_path) as found:
        yield found


def lists(app: Operators, path: str, status: int = 200, **asked: Any) -> Any:
    answer = app.client.get(f"/api/v1{path}", params=asked)
    assert answer.status_code == status, answer.text
    return checked("get", f"/api/v1{path}", answer)


def test_flows_are_listed_by_their_dags(app: Operators) -> None:
    item = {
        "dag_id": DAG,
        "flow": FLOW.name,
        "source": "mock shop.orders",
        "sinks": "memory default",
        "file": "",
        "error": None,
    }
    assert lists(app, "/definitions") == {"items": [item], "next": None}
    for name, found in (("orders", [item]), (DAG, [item]), ("carts", [])):
        assert lists(app, "/definitions", flow=name)["items"] == found
    (stands,) = lists(app, "/checkpoints")["items"]
    assert (stands["dag_id"], stands["flow"], stands["checkpoint"]["batch"], stands["error"]) == (
        DAG,
        "orders",
        0,
        None,
    )
    assert stands["version"] == app.get("/checkpoint")["version"]
    assert lists(app, "/definitions", 400, cursor="nonsense")["code"] == "request_refused"
    app.role = "stranger"
    assert lists(app, "/checkpoints", 403)["status"] == 403


def of_many(flows: dict[str, Flow | DatabusError], readable: set[str]) -> TestClient:
    def stored(dag_ids: Any) -> dict[str, DagFlow | DatabusError]:
        assert len(dag_ids) <= 100
        found = {dag_id: flows[dag_id] for dag_id in dag_ids if dag_id in flows}
        return {d: f if isinstance(f, DatabusError) else DagFlow(f, "", f"/dags/{d}.py") for d, f in found.items()}

    made, none = FastAPI(), lambda: None
    access = Access(lambda: readable, none, none, none, none, lambda: "ada", lambda *_: None)
    install(made)
    made.include_router(router(access, Installation(lambda _: None, None, none, stored)), prefix="/api/v1")  # type: ignore[arg-type]
    return TestClient(made)


def test_pages_of_many_flows_hold_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the DAGs are no flows, one cannot be read, and those that may not be seen are not there."""
    flows: dict[str, Flow | DatabusError] = {
        f"dag{n:03}": FLOW.model_copy(update={"name": f"f{n}"}) for n in range(0, 400, 2)
    }
    flows["dag007"] = ConfigError("no kind of tomorrow", hint="Upgrade.", code="kind_unknown")
    client = of_many(flows, {f"dag{n:03}" for n in range(300)})
    seen: list[dict[str, Any]] = []
    cursor, pages = "", 0
    while cursor is not None:
        page = client.get("/api/v1/definitions", params={"limit": 40, "cursor": cursor}).raise_for_status().json()
        seen, cursor, pages = [*seen, *page["items"]], page["next"], pages + 1
    assert [item["dag_id"] for item in seen] == sorted(d for d in flows if d < "dag300")
    assert pages == 4
    (unread,) = [item for item in seen if item["flow"] is None]
    assert (unread["dag_id"], unread["error"]["code"]) == ("dag007", "kind_unknown")
    assert [item["file"] for item in client.get("/api/v1/definitions?flow=f8").json()["items"]] == ["/dags/dag008.py"]
    assert client.get("/api/v1/definitions?flow=f398").json()["items"] == []

    def away(*_: Any, **__: Any) -> Any:
        raise CheckpointUnavailableError("zookeeper_default: no answer")

    monkeypatch.setattr(overview, "open_services", away)
    page = client.get("/api/v1/checkpoints", params={"limit": 5}).raise_for_status().json()
    assert [item["error"]["code"] for item in page["items"]] == [
        *(["checkpoint_unavailable"] * 4), "kind_unknown",
    ]  # fmt: skip
    assert page["next"]


def test_rows_of_the_source_are_shown_without_what_the_flow_hides(
    app: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def peek(_flow: Flow, _services: Any, start: str | None, rows: int, _note: Any) -> Iterator[dict[str, Any]]:
        asked.append((start, rows))
        yield ROW
        yield {**ROW, "table": "items"}

    monkeypatch.setattr(of_rows, "peek", peek)
    answer = app.client.get(f"/api/v1/dags/{DAG}/peek", params={"from": "earliest", "rows": 3}).raise_for_status()
    first, second = map(json.loads, answer.text.splitlines())
    assert asked == [("earliest", 3)]
    assert "a@b" not in answer.text.splitlines()[0] + answer.text.splitlines()[1]
    assert "c@d" not in answer.text
    assert (first["after"]["total"], first["key"]["id"], first["other_key"]) == (12345678901234567890, 1, "***")
    assert (first["after"]["email"], second["after"]["email"]) == ("***", "***")
    app.role = "viewer"
    for path in ("/peek", "/plan", "/doctor", "/ledger/verification", "/quarantine/held"):
        assert app.get(path, 403)["status"] == 403, path


def test_rows_that_are_too_long_for_an_answer_are_refused(app: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_rows, "_MOST_CHARS", 100)
    monkeypatch.setattr(of_rows, "peek", lambda *_: iter([ROW]))
    assert app.get("/peek", 422)["code"] == "config_invalid"


def test_held_rows_are_shown_as_the_command_lists_them_without_what_the_flow_hides(app: Operators) -> None:
    hold(app, held(1, email="a@b"), held(2, cause="positive(total)"))
    path = f"/api/v1/dags/{DAG}/quarantine/held"
    answer = app.client.get(path).raise_for_status()
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert [(row["event_id"], row["state"], row["batch"], row["at"]) for row in rows] == [
        ("e1", "held", 3, None), ("e2", "held", 3, None),
    ]  # fmt: skip
    assert "a@b" not in answer.text
    assert json.loads(rows[0]["payload"])["after"] == {"id": 1, "email": "***"}
    for asked, found in (
        ({"cause": "positive"}, ["e2"]), ({"event": ["e1", "none"], "state": "all"}, ["e1"]), ({"limit": 1}, ["e1"]),
        ({"state": "discarded"}, []),
    ):  # fmt: skip
        lines = app.client.get(path, params=asked).raise_for_status().text.splitlines()
        assert [json.loads(line)["event_id"] for line in lines] == found, asked
    assert app.get("/quarantine/held", 422, table="shop.ordres")["code"] == "config_invalid"


def test_a_hidden_value_is_not_found_by_the_words_of_a_cause(app: Operators) -> None:
    cause = "mapper_parsing_exception: failed to parse field [note] of type [long]. Preview of field's value: '{}'"
    quoting = RejectedRow("r1", "shop.orders", '{"id":1}', cause.format("4111 1111"), "memory", "b.1:1", "{}")
    hold(app, held(1), quoting, replace(quoting, event_id="r2", table="shop.items"))
    path = f"/api/v1/dags/{DAG}/quarantine/held"

    def found(text: str) -> list[str]:
        lines = app.client.get(path, params={"cause": text}).raise_for_status().text.splitlines()
        assert app.post("/quarantine/preview", action="discard", cause=text)["rows"] == len(lines)
        return [json.loads(line)["event_id"] for line in lines]

    app.flow = FLOW.model_copy(update={"transforms": (Mask("email", tables=("shop.orders",)),)})
    assert found("4111") == ["r2"]  # of the other table nothing is hidden
    assert (found("field [note]"), found("not_null")) == (["r1", "r2"], ["e1"])
    whole = {"cause": quoting.cause, "whole_cause": True}
    assert app.post("/quarantine/preview", action="discard", **whole)["rows"] == 1
    app.flow = FLOW.model_copy(update={"transforms": ()})
    assert found("4111") == ["r1", "r2"]


def test_one_dag_that_cannot_be_read_takes_no_list_away(caplog: pytest.LogCaptureFixture) -> None:
    def flow_of(dag_id: str) -> DagFlow | None:
        if dag_id == "broken":
            raise ImportError("no module of a package")
        return DagFlow(FLOW, "")

    found = Installation(flow_of, None, lambda: None).among(["broken", "orders"])  # type: ignore[arg-type]
    error = found["broken"]
    assert isinstance(error, ConfigError)
    assert error.message == "DAG broken: its flow cannot be read: ImportError"
    assert isinstance(found["orders"], DagFlow)
    assert "no module of a package" in caplog.text


def test_findings_and_alerts_need_servers_that_are_named(app: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    found = app.get("/doctor")
    assert found["worst"] == "error"
    assert "connection_missing" in {finding["code"] for finding in found["findings"]}
    assert app.get("/alerts", 503)["code"] == "connection_missing"
    monkeypatch.setattr(looks, "raised_alerts", lambda *_, **__: [])
    assert app.get("/alerts") == {"flow": "orders", "alerts": []}


def test_a_definition_is_told_as_its_file_writes_it(app: Operators) -> None:
    found = app.get("/definition")
    assert (found["options"]["name"], found["options"]["transforms"][0]["columns"]) == ("orders", ["email"])
    drawn = app.get("/graph")
    assert drawn["mermaid"].startswith("flowchart LR")
    assert [node["stage"] for node in drawn["graph"]["nodes"]] == ["source", "transform", "sink"]
