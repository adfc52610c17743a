"""Routes of the pages of one flow and of traces: what they answer, to whom, and what they say when there is nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

from databus import DropColumns, Flow, Kafka, Mask, MysqlBinlog, Noop, NotNull
from databus.connections.environment import EnvironmentConnections
from databus.core.errors.problem import MEDIA_TYPE
from databus.core.trace import Change, RowImages, Sighting
from databus.ops.trace import log as trace_log
from databus.ops.trace.view import TracePage
from databus.records.recorder import SqlRecorder
from databus.web import problems, trace_page
from databus.web.flow_page import add_flow_page
from databus.web.trace_page import add_trace_page
from tests.contract.record_samples import check, held, report

FLOW = Flow(
    name="orders_to_kafka",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.orders", "shop.items")),
    transforms=(DropColumns("card_number"), Mask("email")),
    checks=(NotNull("email"),),
    sinks=(Kafka(conn_id="kafka_east", topic="cdc.orders", name="kafka"), Noop(name="nothing")),
)
PAGE = "/api/v1/dags/nightly/flow"
TRACE = "/api/v1/trace"


def refuse(request: Request) -> None:
    if request.path_params["dag_id"] == "hidden":
        raise HTTPException(403, "Forbidden")


def shown(request: Request) -> set[str]:
    return set(request.headers.get("dags", "nightly").split())


def edits(request: Request) -> None:
    if request.headers.get("role") != "editor":
        raise HTTPException(403, "Forbidden")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    url = f"sqlite:///{tmp_path / 'records.db'}"
    monkeypatch.setenv("DATABUS_RECORDS_URL", url)
    now = datetime.now(UTC)
    with SqlRecorder.open(url) as recorder:
        for batch in (1, 2):
            at = now - timedelta(minutes=4 - batch)
            found = report(
                batch, f"r{batch}", committed_at=at, watermark=at - timedelta(seconds=2), definition=FLOW.shown()
            )
            recorder.record(replace(found, run_url=f"http://airflow/dags/nightly/runs/r{batch}"))
        recorder.quarantine(FLOW.name, 2, [held()])
        recorder.record(replace(report(1, "r1", flow="hidden"), run_url="http://airflow/dags/hidden/runs/r1"))
    app = FastAPI()
    problems.install(app)
    add_flow_page(app, refuse)
    add_trace_page(app, shown, edits, EnvironmentConnections({}))
    with TestClient(app) as client:
        yield client


def test_the_page_of_a_flow_shows_its_steps_with_rates(client: TestClient) -> None:
    found = client.get(PAGE).raise_for_status().json()
    assert (found["flow"], found["dag_id"], found["window"], found["place"]) == (
        "orders_to_kafka", "nightly", "1h", "bin.000001:300",
    )  # fmt: skip
    graph = found["graph"]
    assert graph["source"] == {
        "kind": "mysql_binlog", "conn_id": "mysql_shop", "datasets": ["shop.orders", "shop.items"],
    }  # fmt: skip
    assert [step["label"] for step in graph["transforms"]] == ["drop card_number", "mask email"]
    assert graph["checks"][0] == {
        "name": check().check, "severity": "quarantine", "evaluated": 20, "violations": 2,
    }  # fmt: skip
    assert graph["counts"] == {"read": 24, "filtered": 2, "quarantined": 2, "dispatched": 20, "superseded": 0}
    kafka, nothing = graph["sinks"]
    assert (kafka["datasets"], kafka["rows_per_second"], kafka["last_batch"]) == (["cdc.orders"], 20 / 300, 2)
    assert (nothing["rows_per_second"], nothing["last_batch"]) == (0, None)
    assert (found["held_rows"], found["refused_rows"], found["delay_seconds"]) == (1, {}, 2)
    assert [batch["batch"] for batch in found["batches"]] == [2, 1]
    assert found["batches"][0]["adds_up"]
    assert sum(found["chart"]["rows_per_second"]) * 60 == pytest.approx(24, abs=0.1)
    assert found["chart"]["rows_per_second"][-1] == 0  # nothing was committed in the minute that goes on
    assert len(found["chart"]["delay_seconds"]) == len(found["chart"]["rows_per_second"]) == 61
    assert (found["definition"]["batch"], found["settings"], found["tables"]) == (1, None, [])
    detailed = client.get(f"{PAGE}?details=true").raise_for_status().json()
    assert detailed["settings"]["sinks"][0]["conn_id"] == "kafka_east"


@pytest.mark.parametrize(("window", "points"), [("24h", 97), ("7d", 85)])
def test_longer_windows_have_as_few_points(client: TestClient, window: str, points: int) -> None:
    found = client.get(f"{PAGE}?window={window}").raise_for_status().json()
    assert len(found["chart"]["rows_per_second"]) == points
    assert client.get(f"{PAGE}?window=30d").status_code == 422


def test_a_flow_is_found_by_the_dag_that_runs_it_alone(client: TestClient) -> None:
    assert client.get(PAGE.replace("nightly", "hidden")).status_code == 403
    answer = client.get(PAGE.replace("nightly", "orders_to_kafka"))  # a flow of that name, which another DAG runs
    assert (answer.status_code, answer.json()["code"]) == (404, "flow_not_recorded")


def test_a_flow_of_before_definitions_is_shown_as_far_as_it_is_known(client: TestClient, tmp_path: Path) -> None:
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as recorder:
        recorder.record(replace(report(1, "r1", flow="old"), run_url="http://airflow/dags/old/runs/r1"))
        recorder.record(replace(report(1, "r1", flow="moved"), run_url="http://airflow/dags/elsewhere/runs/r1"))
    found = client.get(PAGE.replace("nightly", "old")).raise_for_status().json()
    assert (found["definition"], found["graph"]["transforms"], found["last_batch"]["batch"]) == (None, [], 1)
    assert client.get(PAGE.replace("nightly", "moved")).status_code == 404


def test_a_definition_that_cannot_be_read_here_hides_no_figure(client: TestClient, tmp_path: Path) -> None:
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as recorder:
        definition = {**FLOW.shown(), "source": {"kind": "of_tomorrow"}}
        found = report(3, "r3", committed_at=datetime.now(UTC), definition=definition)
        recorder.record(replace(found, run_url="http://airflow/dags/nightly/runs/r3"))
    shown_now = client.get(PAGE).raise_for_status().json()
    assert ([sink["name"] for sink in shown_now["graph"]["sinks"]], shown_now["last_batch"]["batch"]) == (["kafka"], 3)
    missed = client.get(TRACE, params={"q": "bin.000001:150"}).json()
    assert missed["looked_through"] == {"flows": [], "not_readable": ["orders_to_kafka"]}


def test_a_trace_goes_from_the_log_to_what_held_a_row_back(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Change("srv:bin.000001:150:3:0", "", "bin.000001", 150, 3, "c", "shop.orders", '{"id":7}', 1_795_000_000_000)
    monkeypatch.setattr(trace_log, "rows_of_log", lambda *_: [row])
    monkeypatch.setattr(Kafka, "tracing", lambda *_: None)
    found = client.get(TRACE, params={"q": row.event_id}).raise_for_status().json()
    assert (found["kind"], found["looked_through"]["flows"]) == ("event", ["orders_to_kafka"])
    (journey,) = found["journeys"]
    assert (journey["flow"], journey["dag_id"]) == ("orders_to_kafka", "nightly")
    source, batch, back = journey["steps"]
    assert (source["stage"], source["place"], source["at"]) == ("source", "bin.000001:150", "2026-11-18T11:06:40+00:00")
    assert source["details"] == ["insert", "shop.orders", '{"id":7}', "change 4 of its transaction"]
    assert (batch["title"], batch["run"]) == ("Batch 1", {"dag_id": "nightly", "run_id": "r1"})
    assert batch["seconds"] > 0
    begun, committed = (datetime.fromisoformat(batch[name]) for name in ("at", "until"))
    assert committed - begun == timedelta(milliseconds=30.5)
    assert (back["title"], back["details"], back["warns"]) == (
        "Held back by check", ["not_null(email) (quarantine, batch 2)"], True,
    )  # fmt: skip


def test_what_is_not_found_names_what_was_looked_through(client: TestClient) -> None:
    answer = client.get(TRACE, params={"q": "bin.000009:4"})
    detail = answer.json()
    assert (answer.status_code, detail["code"]) == (404, "trace_not_recorded")
    assert "recorded is bin.000001:" in detail["detail"]
    assert detail["looked_through"] == {"flows": ["orders_to_kafka"], "not_readable": []}
    unknown = client.get(TRACE, params={"q": "what is this"})
    assert (unknown.status_code, unknown.json()["code"]) == (422, "trace_query_unknown")
    assert client.get(TRACE, params={"q": ""}).status_code == 422


def test_traces_that_wait_leave_threads_to_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on, answers = threading.Semaphore(0), threading.Event(), list[int]()

    def waits(*_: Any, **__: Any) -> dict[str, Any]:
        begun.release()
        goes_on.wait(30)
        return {}

    def ask() -> None:
        answers.append(browser.get(TRACE, params={"q": "bin.000001:150"}).status_code)

    monkeypatch.setattr(TracePage, "trace", waits)
    monkeypatch.setattr(trace_page, "_WAITING", 0)
    running = [threading.Thread(target=ask) for _ in range(2)]
    app = FastAPI()
    problems.install(app)
    add_trace_page(app, shown, edits, EnvironmentConnections({}))
    with TestClient(app) as browser:
        for each in running:
            each.start()
        assert all(begun.acquire(timeout=30) for _ in running)
        busy = browser.get(TRACE, params={"q": "bin.000001:150"})
        assert (busy.status_code, busy.json()["code"]) == (503, "trace_busy")
        goes_on.set()
        for each in running:
            each.join()
    assert answers == [200, 200]


def test_flows_of_dags_that_a_person_may_not_see_are_not_looked_through(client: TestClient) -> None:
    detail = client.get(TRACE, params={"q": "bin.000001:150"}, headers={"dags": "other"}).json()
    assert detail["looked_through"] == {"flows": [], "not_readable": []}
    assert "orders_to_kafka" not in str(detail)


class Topic:
    """What a sink shows of one record."""

    def __init__(self) -> None:
        self.closed = False

    def images(self, place: str) -> RowImages:
        assert place == "cdc.orders:0:22"
        long = {"id": 7, "note": "<script>" * 1000, "email": "***", "data": {"a": [1]}}
        return RowImages(None, long)

    def sighting(self, place: str) -> Any:
        return Sighting("kafka", "record", place, Change(table="shop.orders"))

    def close(self) -> None:
        self.closed = True


def test_rows_are_for_those_who_may_edit_the_dag_and_of_what_its_flow_wrote(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Kafka, "tracing", lambda *_: Topic())
    images = "/api/v1/dags/nightly/images"
    place = {"sink": "kafka", "place": "cdc.orders:0:22"}
    assert client.get(images, params=place).status_code == 403
    editor = {"role": "editor"}
    found = client.get(images, params=place, headers=editor).raise_for_status().json()
    assert (found["before"], found["after"]["id"], found["after"]["data"]) == (None, "7", '{"a": [1]}')
    assert found["after"]["note"].endswith("… (8,000 characters)")
    elsewhere = {**place, "sink": "nothing"}  # a sink of the flow, and another one wrote there
    for other in (
        {**place, "place": "secrets:0:22"},
        {**place, "sink": "search"},
        {**place, "place": "index/7"},
        elsewhere,
    ):
        refused = client.get(images, params=other, headers=editor)
        assert (refused.status_code, refused.json()["code"]) == (404, "trace_not_recorded"), other


def test_records_that_do_not_answer_are_named(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABUS_RECORDS_URL", "sqlite:////proc/none/records.db")
    for path in (PAGE, f"{TRACE}?q=bin.000001:150"):
        answer = client.get(path)
        assert answer.status_code == 503, path
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert {"code", "detail", "hint"} <= set(answer.json()), path
