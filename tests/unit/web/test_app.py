"""The mounted application: every data route asks the guard first, and the bundle is served."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException, Request
from fastapi.testclient import TestClient

from databus.core.expectations import BY_ROW, MISSING, Expectation
from databus.records.quality.data_docs import DataDocs
from databus.records.quality.judged_expectations import ExpectationOutcome
from databus.records.quality.result import evaluate_run
from databus.records.recorder import SqlRecorder
from databus.web.app import FirstUse, create_app
from tests.contract.record_samples import NOON, check, report, report_of_chunks

RUN = "/api/v1/dags/orders_to_kafka/runs/r1"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    url = f"sqlite:///{tmp_path / 'records.db'}"
    monkeypatch.setenv("DATABUS_RECORDS_URL", url)
    (tmp_path / "main.js").write_text("bundle")
    with SqlRecorder.open(url) as recorder:
        recorder.record(report(1, "r1"))
        recorder.record(report(2, "r1"))

    def guard(request: Request) -> None:
        if request.path_params["dag_id"] == "hidden":
            raise HTTPException(403, "Forbidden")

    return TestClient(FirstUse(lambda: create_app(guard, _shop, tmp_path)))


def _shop() -> set[str]:
    return {"orders_to_kafka", "renamed"}


def test_a_run_shows_inputs_outputs_counts_quality_and_lineage(client: TestClient) -> None:
    shown = client.get(RUN).raise_for_status().json()
    assert shown["counts"] == {
        "read": 24, "filtered": 2, "quarantined": 2, "dispatched": 20, "reconciled": True,
    }  # fmt: skip
    assert [i["table"] for i in shown["inputs"]] == ["shop.items", "shop.orders"]
    (output,) = shown["outputs"]
    assert output == {
        "sink": "kafka", "output": "cdc.orders[0]", "first_offset": 20, "last_offset": 49, "records": 20,
    }  # fmt: skip
    assert {(c["check"], c["violations"]) for c in shown["checks"]} == {("not_null(email)", 2), ("volume", 0)}
    assert [b["batch"] for b in shown["batches"]] == [1, 2]
    assert list(shown["durations_ms"]) == ["plan", "read"]
    nodes = {n["id"]: n["column"] for n in shown["graph"]["nodes"]}
    assert nodes == {"flow": 1, "in:shop.items": 0, "in:shop.orders": 0, "kafka:cdc.orders": 2, "quarantine": 2}
    edges = {(e["from"], e["to"]): e["rows"] for e in shown["graph"]["edges"]}
    assert edges[("in:shop.orders", "flow")] == 20
    assert edges[("flow", "kafka:cdc.orders")] == 20
    assert edges[("flow", "quarantine")] == 2


def test_a_run_that_took_chunks_along_shows_how_far_the_snapshot_was(client: TestClient, tmp_path: Path) -> None:
    assert client.get(RUN).raise_for_status().json()["snapshot"] is None
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as recorder:
        recorder.record(replace(report_of_chunks(), run_id="r4"))
    shown = client.get(RUN.replace("r1", "r4")).raise_for_status().json()["snapshot"]
    assert (shown["state"], shown["table"], shown["rows"], shown["rows_left"]) == ("reading", "shop.orders", 4, 11)
    assert shown["text"].startswith("snapshot 1: 0 of 2 tables, 4 of about 15 rows, ")


def test_a_run_is_of_the_flow_that_its_dag_runs_whatever_its_name(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABUS_DATA_DOCS", str(tmp_path / "docs"))
    page = DataDocs(tmp_path / "docs").page("orders", "r7")
    page.parent.mkdir(parents=True)
    page.write_text("values")
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as recorder:
        found = replace(report(1, "r7", flow="orders"), run_url="http://airflow/dags/orders_of_shop/runs/r7")
        recorder.record(replace(found, definition={"name": "orders"}))
    mine, other = RUN.replace("orders_to_kafka/runs/r1", "orders_of_shop/runs/r7"), "/api/v1/dags/orders/runs/r7"
    assert client.get(mine).raise_for_status().json()["flow"] == "orders"
    assert client.get(f"{mine}/data-docs").raise_for_status().text == "values"
    for path in (other, f"{other}/data-docs"):  # a DAG of another team, which has the flow's name
        assert client.get(path).status_code == 404, path
    assert client.get(RUN).raise_for_status().json()["flow"] == "orders_to_kafka"  # from before DAGs were recorded


def test_a_run_of_a_backfill_shows_the_batches_of_its_pieces(client: TestClient, tmp_path: Path) -> None:
    pieces = [f"orders_to_kafka.backfill-missing-0123456789ab-{number}" for number in range(2)]
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as recorder:
        for piece in pieces:
            recorder.record(report(1, "r1", flow=piece))
        recorder.record(report(1, "r1", flow="hidden.backfill-missing-0123456789ab-0"))
    shown = client.get("/api/v1/dags/orders_to_kafka_backfill/runs/r1").raise_for_status().json()
    assert shown["flow"] == "orders_to_kafka_backfill"
    assert [(b["flow"], b["batch"]) for b in shown["batches"]] == [(piece, 1) for piece in pieces]
    assert shown["counts"]["read"] == 24
    assert client.get("/api/v1/dags/orders_to_kafka_backfill/runs/other").status_code == 404


def test_expectations_are_shown_as_counted_and_then_as_judged(client: TestClient, tmp_path: Path) -> None:
    share = Expectation(type="expect_column_values_to_be_null", kwargs={"column": "email", "mostly": 0.5})
    rows = Expectation(type="expect_table_row_count_to_equal", kwargs={"value": 1}, action="fail")
    run = RUN.replace("r1", "r3")
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as recorder:
        found = (check(3, share.name, kind=BY_ROW, severity="warn"), check(0, "missing(email)", kind=MISSING))
        recorder.record(report(3, "r3", checks=found))
        shown = client.get(run).raise_for_status().json()
        assert (shown["checks"], shown["quality"]) == ([], None)
        assert [(e["name"], e["met"], e["violations"]) for e in shown["expectations"]] == [(share.name, None, 3)]
        judged = [
            ExpectationOutcome(share, True, "every row", {"element_count": 10, "unexpected_count": 3}),
            ExpectationOutcome(rows, False, "counts", {"observed_value": 10}),
        ]
        evaluate_run(recorder.store, "orders_to_kafka", "r3", NOON, lambda *_: judged)
    shown = client.get(run).raise_for_status().json()
    assert (shown["checks"], shown["quality"]["success"], shown["quality"]["worst"]) == ([], False, "fail")
    assert [(e["name"], e["met"], e["violations"], e["observed"]) for e in shown["expectations"]] == [
        (share.name, True, 3, None), (rows.name, False, 1, 10),
    ]  # fmt: skip


def test_what_is_not_recorded_is_said(client: TestClient) -> None:
    answer = client.get("/api/v1/dags/orders_to_kafka/runs/other")
    assert (answer.status_code, answer.json()["code"]) == (404, "run_not_recorded")


def test_data_docs_are_shown_to_those_who_may_see_the_dag_and_apart_from_airflow(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABUS_DATA_DOCS", str(tmp_path / "docs"))
    assert client.get(RUN).json()["data_docs"] is False
    assert client.get(f"{RUN}/data-docs").json()["code"] == "no_data_docs"
    for flow in ("orders_to_kafka", "hidden"):
        page = DataDocs(tmp_path / "docs").page(flow, "r1")
        page.parent.mkdir(parents=True)
        page.write_text("<h1>found</h1>")
    assert client.get(RUN).json()["data_docs"] is True
    shown = client.get(f"{RUN}/data-docs")
    assert (shown.status_code, shown.text) == (200, "<h1>found</h1>")
    policy = shown.headers["content-security-policy"].split()
    assert policy[0] == "sandbox"
    assert "allow-same-origin" not in policy
    assert client.get("/api/v1/dags/hidden/runs/r1/data-docs").status_code == 403
    (tmp_path / "docs" / "validations" / "result").mkdir()
    (tmp_path / "docs" / "validations" / "result" / "index.html").write_text("no flow's")
    for dag, run in (("orders_to_kafka", "%2e%2e"), ("%2e%2e", "validations"), ("orders_to_kafka", "other")):
        assert client.get(f"/api/v1/dags/{dag}/runs/{run}/data-docs").status_code == 404, (dag, run)
    monkeypatch.setenv("DATABUS_DATA_DOCS", "")
    assert client.get(f"{RUN}/data-docs").status_code == 404


def test_the_guard_is_asked_before_anything_is_read(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABUS_RECORDS_URL", "sqlite:////proc/none/records.db")
    assert client.get("/api/v1/dags/hidden/runs/r1").status_code == 403
    assert client.get(RUN).status_code == 503


def test_nothing_but_the_bundle_is_open(client: TestClient, tmp_path: Path) -> None:
    assert client.get("/static/main.js").text == "bundle"
    for path in ("/docs", "/openapi.json", "/redoc", "/static/records.db/.."):
        assert client.get(path).status_code == 404, path
    app = create_app(_closed, _closed, tmp_path)
    routes = [route for route in app.routes if getattr(route, "path", "").startswith("/api")]
    assert routes
    for route in routes:
        assert _closed in [dependency.call for dependency in route.dependant.dependencies]  # type: ignore[attr-defined]


def _closed() -> None:
    raise HTTPException(403)


def flows(client: TestClient) -> dict[str, dict[str, Any]]:
    return {flow["flow"]: flow for flow in client.get("/api/v1/flows").raise_for_status().json()["flows"]}


def test_the_flows_that_a_person_may_see_are_shown_with_their_newest_batch(client: TestClient, tmp_path: Path) -> None:
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as recorder:
        recorder.record(report(1, "r1", flow="hidden"))
        recorder.record(report(1, "r1", flow="orders_to_kafka.backfill-missing-0123456789ab-0"))
    (name,) = shown = flows(client)
    assert name == "orders_to_kafka"
    assert (shown[name]["dag_id"], shown[name]["last_batch"]["number"]) == (name, 2)
    assert shown[name]["last_batch"]["run_id"] == "r1"
    assert (shown[name]["snapshot"], shown[name]["gaps_passed"]) == (None, 0)


def test_a_flow_is_shown_under_the_dag_that_ran_it(client: TestClient, tmp_path: Path) -> None:
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as recorder:
        url = "https://airflow/dags/renamed/runs/r1"
        recorder.record(replace(report(1, "r1", flow="carts_to_kafka"), run_url=url))
        recorder.record(replace(report(1, "r1", flow="other"), run_url=url.replace("renamed", "hidden")))
    assert {flow["flow"]: flow["dag_id"] for flow in flows(client).values()} == {
        "carts_to_kafka": "renamed",
        "orders_to_kafka": "orders_to_kafka",
    }


def test_records_that_do_not_answer_are_named(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABUS_RECORDS_URL", "sqlite:////proc/none/records.db")
    answer = client.get("/api/v1/flows")
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["code"], answer.json()["status"]) == (503, "recording", 503)


def test_the_first_flow_of_the_empty_page_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "ui" / "src" / "FlowsPage.tsx").read_text()
    code = page.split("const FIRST_FLOW = `")[1].split("`")[0]
    monkeypatch.setitem(sys.modules, "databus.airflow", SimpleNamespace(flow_dag=lambda flow, **_: flow))
    found: dict[str, Any] = {}
    exec(compile(code, "first_flow.py", "exec"), found)
    assert found["dag"].name == "orders_to_kafka"
