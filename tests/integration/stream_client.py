"""Stream service in this process or one of its own, and requests to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Message

from databus.kafka.client import ClientSettings
from databus.stream.access import Tokens
from databus.stream.options import StreamOptions
from databus.stream.server import Listener, server
from databus.stream.service import StreamService
from tests.integration.changes_writer import make_topics
from tests.integration.kafka_target import consume, wait_until

_NUMBERS = iter(range(10**6))


class Client:
    """Requests to a service."""

    def __init__(self, url: str, **options: Any):
        self.http = httpx.Client(base_url=url, timeout=60, **options)

    def write(self, topic: str, body: bytes | Iterable[str], **given: Any) -> httpx.Response:
        """Write lines; `producer` and `sequence` go into headers, other arguments into the query."""
        headers = dict(given.pop("headers", {}))
        if "producer" in given:
            headers |= {"Databus-Producer": given.pop("producer"), "Databus-Sequence": str(given.pop("sequence"))}
        content = body if isinstance(body, bytes) else "".join(f"{line}\n" for line in body).encode()
        return self.http.post(f"/v1/topics/{topic}", content=content, headers=headers, params=given)

    def read(self, topic: str, **query: Any) -> httpx.Response:
        return self.http.get(f"/v1/topics/{topic}/records", params=query)

    def take(self, topic: str, consumer: str, **query: Any) -> httpx.Response:
        return self.http.get(f"/v1/topics/{topic}/consumers/{consumer}/records", params=query)

    def ack(self, topic: str, consumer: str, delivery: str) -> httpx.Response:
        return self.http.post(f"/v1/topics/{topic}/consumers/{consumer}/acks", json={"delivery": delivery})

    def move(self, topic: str, consumer: str, **places: Any) -> httpx.Response:
        return self.http.post(f"/v1/topics/{topic}/consumers/{consumer}/places", json=places)


class Served(Client):
    """Service in a thread of this process."""

    def __init__(self, servers: str, name: str, listener: Listener | None = None, **given: Any):
        tokens = given.pop("tokens", Tokens())
        client = given.pop("client", {})
        options = StreamOptions(name=name, **{"timeout_s": 10.0, **given})
        self.service = StreamService(
            ClientSettings("kafka_test", servers, timeout_s=options.timeout_s), options, tokens
        )
        listener = listener or Listener(port=0)
        self._server = server(self.service, listener)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started or not self._thread.is_alive(), "the service")
        port = self._server.servers[0].sockets[0].getsockname()[1]
        super().__init__(f"http{'s' if listener.certificate else ''}://127.0.0.1:{port}", **client)

    def close(self) -> None:
        self.http.close()
        self._server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive()


class Process(Client):
    """Service as a process, by its command, that can be killed."""

    def __init__(self, servers: str, name: str, log: Path, *arguments: str, port: int = 0):
        self.port = port or free_port()
        address = f"127.0.0.1:{self.port}"
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "databus.cli.main", "stream", servers, "--name", name, "--listen", address,
                 *arguments], stdout=out, stderr=out, env={**os.environ, "COLUMNS": "200"},
            )  # fmt: skip
        super().__init__(f"http://{address}")

    def wait(self) -> Process:
        wait_until(self._answers, "the service")
        return self

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        self.http.close()
        self.process.send_signal(how)
        return self.process.wait(60)

    def _answers(self) -> bool:
        assert self.process.poll() is None
        try:
            return self.http.get("/health").status_code == 200
        except httpx.TransportError:
            return False


def new_topic(servers: str) -> str:
    """Make a topic of three partitions, whose name no other one has; return its name."""
    name = f"streamed.{os.getpid()}.{next(_NUMBERS)}"
    make_topics(servers, (name, 3))
    return name


def own_services(servers: str) -> Iterator[Callable[..., Served]]:
    """Give a function that starts services of a test's own, of one lane each; all are closed at the end."""
    opened: list[Served] = []

    def start(at: str = servers, name: str = "", **options: Any) -> Served:
        opened.append(Served(at, name or f"own{os.getpid()}.{next(_NUMBERS)}", lanes=1, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Return a problem's members; it has the status, the code, a detail and a hint."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    found = dict(answer.json())
    assert (found["status"], found["code"]) == (status, code)
    assert found["detail"]
    assert found["hint"]
    return found


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def values(servers: str, topic: str) -> list[str]:
    """Return the values of what readers of committed records see, by partition, in order."""
    return [text(message) for message in consume(servers, topic)]


def text(message: Message) -> str:
    return (message.value() or b"").decode()


def until_written(client: Client, topic: str, lines: list[str], producer: str, sequence: int) -> dict[str, Any]:
    """Send a request until it is answered 200; return the answer."""
    deadline = time.monotonic() + 120
    while True:
        try:
            answer = client.write(topic, lines, producer=producer, sequence=sequence)
        except httpx.TransportError:
            answer = None
        if answer is not None and answer.status_code == 200:
            return dict(answer.json())
        assert answer is None or answer.status_code in (429, 503), answer.text
        assert time.monotonic() < deadline
        time.sleep(0.1)
