"""The command on a server: what it asks, what it refuses, and what a cut connection leads to."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from databus.cli.main import app as command
from databus.cli.server import choice, client
from databus.cli.server.choice import HERE, SERVED, choose, require_served, server
from databus.cli.server.client import ApiClient
from databus.cli.server.problems import (
    ServerAnswerError,
    ServerAwayError,
    ServerProblemError,
    VerbNotServedError,
    problem_error,
)
from databus.cli.terminal.exits import exit_code
from databus.core.errors import ConfigError, DatabusError
from databus.web import looks
from databus.web.problems import problem, status_of
from tests.served_app import CutFront, request_of, served
from tests.unit.cli.test_help import SHOWN
from tests.unit.core.test_errors import CORE
from tests.unit.web.operators_app import FLOW, Operators, hold, operators_app
from tests.unit.web.operators_app import held as held_row


@pytest.fixture
def operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operators]:
    monkeypatch.setenv("DATABUS_RECORDS_URL", f"sqlite:///{tmp_path / 'records.db'}")
    with operators_app(tmp_path) as found:
        yield found


@pytest.fixture
def address(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv(choice.TOKEN, "a-token")
    with served(operators.client.app) as found:  # type: ignore[arg-type]
        yield found
    choose("", None)


def run(address: str, *words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(command, ["--server", address, *words], catch_exceptions=True)
    if isinstance(done.exception, DatabusError):
        assert exit_code(done.exception) == code, done.exception
        return done.exception
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout


def test_a_flow_is_found_by_its_name_or_its_dag_and_moved(operators: Operators, address: str) -> None:
    for name in ("orders", "orders_of_the_shop"):
        shown = json.loads(run(address, "checkpoint", "show", name, "-o", "json"))
        assert (shown["flow"], shown["offset"]) == ("orders", {"kind": "sequence", "sequence": 5})
    run(address, "checkpoint", "pause", "orders", "--reason", "tonight", "--execute")
    paused = operators.store.paused("orders")
    assert paused is not None
    assert (paused.who, paused.why) == ("ada", "tonight")
    assert json.loads(run(address, "flows", "list", "-o", "json")) == [
        {"flow": "orders", "source": "mock shop.orders", "sinks": "memory default", "file": ""}
    ]
    assert run(address, "checkpoint", "show", "carts", code=2).code == "flow_unknown"
    assert run(address, "checkpoint", "pause", "orders", "--execute", code=2).code == "reason_missing"


def test_an_answer_that_is_cut_off_is_asked_for_again_and_done_once(
    operators: Operators, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_PAUSES_S", (0.0,))
    hold(operators, held_row(1), held_row(2))
    front = CutFront(address)
    try:
        choose(front.address, None)
        found = choice.served("orders")
        assert found is not None
        seen = found.preview("quarantine", {"action": "discard"})
        front.cut, asked = 2, front.passed
        body = {"rows": seen["rows"], "upto": seen["upto"], "reason": "of a test"}
        assert found.act("/quarantine/discard", body)["result"] == {"discarded": 2}
        assert front.passed == asked + 3
        assert [note[2] for note in operators.notes] == ["databus_quarantine_discard"]
        front.cut = 1
        with pytest.raises(ServerAwayError, match="cut off"):  # a look is not repeated
            found.get("/checkpoint")
    finally:
        front.close()
    with pytest.raises(ServerAwayError, match="does not answer"):  # nothing was sent: nothing may have been done
        found.act("/checkpoint/pause", {"reason": "of a test"})


@contextmanager
def scripted(*answers: bytes) -> Iterator[str]:
    """Serve answers as they are, one for each connection, which ends behind it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            for answer in answers:
                connection, _ = listening.accept()
                with connection:
                    request_of(connection)
                    connection.sendall(answer)

        running = threading.Thread(target=run, daemon=True)
        running.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        running.join(10)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "whole"),
    [
        (CHUNKED + b"4\r\na\nb\n\r\n2\r\nc\n\r\n0\r\n\r\n", True),
        (CHUNKED + b"3\r\na\nb\r\n3\r\n\nc\n\r\n0\r\n\r\n", True),
        (HEAD + b"Content-Length: 6\r\n\r\na\nb\nc\n", True),
        (CHUNKED + b"4\r\na\nb\n\r\n2\r\nc\n\r\n", False),
        (CHUNKED + b"4\r\na\nb\n\r\n9\r\nc\n", False),
        (HEAD + b"Content-Length: 9\r\n\r\na\nb\nc\n", False),
        (HEAD + b"\r\na\nb\nc", False),
    ],
    ids=["chunks", "a line in two", "length", "no last chunk", "half a chunk", "less than its length", "half a line"],
)
def test_lines_that_are_cut_off_are_no_whole_answer(answer: bytes, whole: bool) -> None:
    found: list[str] = []
    with scripted(answer) as address:
        if whole:
            found += ApiClient(address, "t").lines("/x")
            assert found == ["a", "b", "c"]
            return
        with pytest.raises(ServerAwayError, match="cut off"):
            found += ApiClient(address, "t").lines("/x")


def test_an_export_of_which_the_server_loses_the_end_is_no_success(
    operators: Operators, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(operators, held_row(1))

    def cut(*_: Any) -> Iterator[str]:
        yield '{"event_id":"e1"}\n'
        yield '{"event_id":"e2"}\n'
        raise RuntimeError("the records are gone")

    monkeypatch.setattr(looks, "_held", cut)
    assert run(address, "quarantine", "export", "orders", code=4).code == "server_unavailable"


def answered(status: str, kind: str, facts: dict[str, Any]) -> bytes:
    body = json.dumps(facts).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def test_an_error_behind_a_lost_answer_says_that_the_first_request_may_have_been_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "_PAUSES_S", (0.0,))
    busy = {"code": "request_refused", "detail": "16 requests wait", "hint": "Try again."}
    refusal = answered("503 Busy", "application/problem+json", busy)
    with scripted(b"", refusal) as address, pytest.raises(ServerProblemError, match="16 requests") as behind:
        ApiClient(address, "t").act("/x", {})
    assert behind.value.hint.startswith("Try again. The first request may have been done")
    with scripted(refusal) as address, pytest.raises(ServerProblemError) as first:
        ApiClient(address, "t").act("/x", {})
    assert first.value.hint == "Try again."


def test_an_action_is_asked_for_again_where_a_gateway_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PAUSES_S", (0.0,))
    timed_out = answered("504 Gateway", "application/json", {"message": "Endpoint request timed out"})
    with scripted(timed_out, answered("200 OK", "application/json", {"result": 1})) as address:
        assert ApiClient(address, "t").act("/x", {}) == {"result": 1}


def test_options_that_name_another_place_are_refused_with_a_server(
    operators: Operators, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip = ("checkpoint", "skip", "orders", "latest", "--reason", "x", "--execute")
    refused = run(address, *skip, "--dags", str(tmp_path), code=2)
    assert "--dags names others" in refused.message
    assert "--spark names" in run(address, "quarantine", "replay", "orders", "--spark", "local[2]", code=2).message
    assert operators.notes == []
    monkeypatch.setenv("DATABUS_DAGS", str(tmp_path))  # of a profile: named for the commands that ask no server
    assert json.loads(run(address, "checkpoint", "show", "orders", "-o", "json"))["flow"] == "orders"


def test_a_flow_that_the_server_cannot_read_is_not_told_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(choice.TOKEN, "a-token")
    error = {"code": "kind_unknown", "message": "no kind of tomorrow", "hint": "Upgrade."}
    unread = {"dag_id": "orders", "flow": None, "error": error}
    page = answered("200 OK", "application/json", {"items": [unread], "next": None})
    try:
        with scripted(page) as address:
            told = run(address, "checkpoint", "show", "orders", code=2)
        assert (told.code, told.hint) == ("kind_unknown", "Upgrade.")
        assert "no kind of tomorrow" in told.message
    finally:
        choose("", None)


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("http://airflow:8080", True),
        ("https://airflow", False),
        ("http://127.0.0.1:8080", False),
        ("http://[::1]", False),
    ],
)
def test_a_token_that_goes_over_the_network_as_it_is_is_told_once(
    address: str, warned: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(choice.TOKEN, "a-token")
    try:
        choose(address, None)
        server()
        server()
        assert capsys.readouterr().err.count("can read the token") == warned
    finally:
        choose("", None)


@contextmanager
def other_server(status: int, body: str, **headers: str) -> Iterator[str]:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as made:
        running = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
        running.start()
        try:
            yield f"http://127.0.0.1:{made.server_port}"
        finally:
            made.shutdown()
            running.join(10)


@pytest.mark.parametrize(
    ("status", "body", "headers", "kind", "said"),
    [
        (200, "<html>Log in</html>", {"Content_Type": "text/html"}, ServerAnswerError, "no JSON"),
        (302, "", {"Location": "https://login.example/?next=1"}, ServerAnswerError, "sends on to login.example"),
        (502, "<html>Bad gateway</html>", {"Content_Type": "text/html"}, ServerAnswerError, "something in front"),
        (404, "<html>none</html>", {"Content_Type": "text/html"}, ServerAnswerError, "HTTP 404"),
        (401, '{"detail": "Not authenticated"}', {"Content_Type": "application/json"}, ServerProblemError, "Not auth"),
        (500, '["?"]', {"Content_Type": "application/json"}, ServerAnswerError, "HTTP 500"),
    ],
)
def test_what_is_no_answer_of_the_api_is_named(
    status: int, body: str, headers: dict[str, str], kind: type[DatabusError], said: str
) -> None:
    with other_server(status, body, **headers) as address, pytest.raises(kind, match=said) as refused:
        ApiClient(address, "a-token").get("/flows")
    assert refused.value.hint
    assert "a-token" not in str(refused.value) + repr(ApiClient(address, "a-token"))


@pytest.mark.parametrize(
    "address",
    ["airflow", "ftp://airflow", "http://", "https://ada:secret@airflow", "http://a/?q=1", "ada:secret@airflow"],
)
def test_what_is_no_address_is_refused_and_its_login_not_told(address: str) -> None:
    with pytest.raises(ConfigError) as refused:
        choose(address, None)
    assert "secret" not in str(refused.value)


def test_a_token_comes_from_a_file_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    monkeypatch.delenv(choice.TOKEN, raising=False)
    try:
        choose("http://airflow/", file)
        with pytest.raises(ConfigError, match="cannot be read"):
            server()
        for empty in ("", " \n", "two words"):
            file.write_text(empty)
            with pytest.raises(ConfigError, match="no token"):
                server()
        file.write_text("from-a-file\n")
        file.chmod(0o644)
        made = server()
        assert made is not None
        assert (made.root, made.token) == ("http://airflow", "from-a-file")
        assert "others can read the token" in capsys.readouterr().err
        choose("http://airflow", None)
        with pytest.raises(ConfigError, match="no token"):
            server()
        monkeypatch.setenv(choice.TOKEN, "from-a-variable")
        made = server()
        assert made is not None
        assert made.token == "from-a-variable"
    finally:
        choose("", None)
    assert server() is None


def test_verbs_without_a_route_are_refused_by_name() -> None:
    verbs = {" ".join(words) for words, found in SHOWN.items() if words and not hasattr(found, "list_commands")}
    assert verbs >= SERVED
    try:
        choose("http://airflow", None)
        for verb in sorted(verbs - SERVED):
            if verb.partition(" ")[0] in HERE:
                require_served(verb)
                continue
            with pytest.raises(VerbNotServedError, match=f"databus {verb}"):
                require_served(verb)
        for words in (("backfill", "orders"), ("segments",), ("records", "prune")):  # also the old name of a verb
            refused = run("http://127.0.0.1:1", *words, code=2)
            assert refused.code == "verb_not_served", words
    finally:
        choose("", None)
    assert exit_code(refused) == 2


@pytest.mark.parametrize("kind", CORE, ids=lambda kind: kind.__name__)
def test_an_error_ends_the_command_as_if_it_had_met_it_itself(kind: type[DatabusError]) -> None:
    error = kind("flow orders: broken", hint="mend it")
    told = problem_error(status_of(error), problem(error))
    assert (told.code, told.message, told.hint) == (error.code, error.message, error.hint)
    assert exit_code(told) == exit_code(error)


def test_the_flow_of_the_test_is_the_apps(address: str) -> None:
    assert json.loads(run(address, "flows", "show", "orders", "-o", "json"))["name"] == FLOW.name
