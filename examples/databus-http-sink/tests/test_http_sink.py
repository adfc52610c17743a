"""The HTTP sink keeps the sink contract, with a receiver that passes over event ids that it has."""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from databus.extend import SinkError, SinkUnavailableError
from databus.testing.contract import SimpleSinkAdapter, SinkContract, opened
from databus_http_sink import HttpSink


class Receiver:
    """HTTP server that keeps each event once.

    Attributes:
        events: all lines that came, repeats too.
        status: what it answers.
    """

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                if receiver.status == 200:
                    receiver.events += map(json.loads, body.splitlines())
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/rows"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class HttpAdapter(SimpleSinkAdapter):
    name: ClassVar[str] = "http"
    repeats: ClassVar[bool] = True

    def __init__(self, receiver: Receiver) -> None:
        super().__init__()
        self.receiver = receiver

    def spec(self, *, reachable: bool) -> HttpSink:
        return HttpSink(url=self.receiver.url if reachable else "http://127.0.0.1:1/", rows_per_request=30)

    def read_back(self) -> Mapping[int, int]:
        known: set[str] = set()
        state: dict[int, int] = {}
        for event in self.receiver.events:
            if event["event_id"] in known:
                continue
            known.add(event["event_id"])
            if event["op"] == "d":
                del state[event["key"]["id"]]
            else:
                state[event["key"]["id"]] = event["after"]["v"]
        return state

    def delivered(self) -> list[str]:
        return [event["event_id"] for event in self.receiver.events]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


class TestContract(SinkContract):
    @pytest.fixture
    def adapter(self, receiver: Receiver) -> HttpAdapter:
        return HttpAdapter(receiver)


@pytest.mark.parametrize(("status", "error"), [(500, True), (503, True), (429, True), (400, False), (404, False)])
def test_an_answer_that_may_pass_is_tried_again(receiver: Receiver, status: int, error: bool) -> None:
    receiver.status = status
    with pytest.raises(SinkError, match=str(status)) as caught:
        HttpSink(url=receiver.url).ping()
    assert isinstance(caught.value, SinkUnavailableError) is error
    sink = opened(HttpSink(url=receiver.url), "flow")
    assert [finding.retryable for finding in sink.preflight()] == [error]
