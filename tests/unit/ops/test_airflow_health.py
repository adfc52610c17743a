"""What Airflow's health endpoint says, as observations: answers are those of a real Airflow 3.3."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from databus.core.errors import ConfigError
from databus.observe.alerts.hysteresis import RuleVerdict
from databus.ops.health.airflow import AirflowHealth
from tests.unit.observe.receivers import answering

BEAT = "2026-11-22T10:00:00+00:00"
WELL = {
    "metadatabase": {"status": "healthy"},
    "scheduler": {"status": "healthy", "latest_scheduler_heartbeat": BEAT},
    "triggerer": {"status": "healthy", "latest_triggerer_heartbeat": BEAT},
    "dag_processor": {"status": "healthy", "latest_dag_processor_heartbeat": BEAT},
}
Serve = Callable[..., AirflowHealth]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Answer the health endpoint's address with a document; any other with 404."""
    answers: list[tuple[int, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers[-1] if self.path == "/api/v2/monitor/health" else (404, b"")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()

        def answer(document: Any, status: int = 200) -> AirflowHealth:
            answers.append((status, json.dumps(document).encode() if document is not None else b"<html>"))
            return AirflowHealth(f"http://127.0.0.1:{server.server_address[1]}/")

        yield answer
        server.shutdown()
        thread.join()


def test_all_is_well(serve: Serve) -> None:
    assert serve(WELL).look() == dict.fromkeys(("api-server", *WELL), "")


def test_a_part_that_is_dead_is_named_with_its_last_heartbeat(serve: Serve) -> None:
    dead = {**WELL, "scheduler": {"status": "unhealthy", "latest_scheduler_heartbeat": BEAT}}
    said = serve(dead).look()
    assert said["scheduler"] == f"is unhealthy, last seen {BEAT}"
    assert [part for part, problem in said.items() if problem] == ["scheduler"]
    seen = AirflowHealth.observation("scheduler", said["scheduler"])
    assert (seen.verdict, seen.subject) == (RuleVerdict.OVER, "scheduler")
    assert seen.summary == f"Airflow's scheduler is unhealthy, last seen {BEAT}"


def test_parts_that_are_not_run_are_not_judged(serve: Serve) -> None:
    said = serve({**WELL, "triggerer": {"status": None, "latest_triggerer_heartbeat": None}}).look()
    assert "triggerer" not in said


def test_without_its_database_airflow_knows_nothing_of_the_other_parts(serve: Serve) -> None:
    """It calls them all unhealthy; one cause is one alert."""
    unknown = {part: {"status": "unhealthy", f"latest_{part}_heartbeat": None} for part in WELL}
    assert serve(unknown).look() == {"api-server": "", "metadatabase": "is unhealthy"}


@pytest.mark.parametrize(
    ("document", "status", "said"),
    [(None, 200, "does not answer: Expecting value"), ({}, 500, "answers HTTP 500"), ({}, 404, "answers HTTP 404")],
)
def test_an_api_server_that_answers_something_else_is_named(
    serve: Serve, document: Any, status: int, said: str
) -> None:
    (found,) = serve(document, status).look().items()
    assert found[0] == "api-server"
    assert found[1].startswith(said)


@pytest.mark.parametrize("document", [[], "well", 1, None])
def test_a_document_that_is_no_health_is_named(document: Any) -> None:
    body = json.dumps(document).encode()
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)) as port:
        said = AirflowHealth(f"http://127.0.0.1:{port}").look()
    assert said == {"api-server": "answers something else than its health"}


def test_a_part_that_is_told_otherwise_is_not_judged(serve: Serve) -> None:
    others = [part for part in WELL if part != "scheduler"]
    assert serve({**WELL, "scheduler": "well"}).look() == dict.fromkeys(("api-server", *others), "")


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", b"well, well\r\n\r\n", b"HTTP/1.1 200 OK\r\n: x"]
)
def test_an_answer_that_is_cut_or_no_http_is_named(answer: bytes) -> None:
    with answering(answer) as port:
        (found,) = AirflowHealth(f"http://127.0.0.1:{port}").look().items()
    assert found[0] == "api-server"
    assert found[1].startswith("does not answer")


def test_an_api_server_that_is_away_is_named() -> None:
    (found,) = AirflowHealth("http://127.0.0.1:9").look().items()
    assert found[0] == "api-server"
    assert found[1].startswith("does not answer")


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="'localhost:8080' is not the address of Airflow"):
        AirflowHealth("localhost:8080")
