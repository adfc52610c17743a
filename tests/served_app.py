"""The API on a real socket, mounted as Airflow mounts it, and a way to it that is cut off."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an application below /databus, and give the server's address."""
    outer = FastAPI(openapi_url=None)
    outer.mount("/databus", app)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(outer, log_level="critical", lifespan="off", timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        running.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            running.join(30)


class CutFront:
    """Front of a server that cuts off the answers to some requests, behind the server's back.

    Attributes:
        cut: how many more answers are cut off.
        passed: requests that it has taken.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("http://").partition(":")
        self._to = (host, int(port))
        self.cut = self.passed = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._running = threading.Thread(target=self._run, daemon=True)
        self._running.start()

    def close(self) -> None:
        """Take no more connections."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._running.join(10)

    def _run(self) -> None:
        while True:
            try:
                one, _ = self._listening.accept()
            except OSError:
                return
            with one, socket.create_connection(self._to) as other:
                self.passed += 1
                other.sendall(request_of(one))
                answered = other.recv(65536)
                if self.cut:
                    self.cut -= 1
                    continue
                while answered:
                    one.sendall(answered)
                    answered = other.recv(65536)


def request_of(connection: socket.socket) -> bytes:
    """Return a request with its body."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += connection.recv(65536)
    head, _, body = found.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    left = int(lengths[0].partition(b":")[2]) - len(body) if lengths else 0
    while left > 0:
        more = connection.recv(65536)
        body, left = body + more, left - len(more)
    return head + b"\r\n\r\n" + body


def token_guard(tokens: Any) -> Any:
    """Return a dependency that refuses who sends none of some tokens."""

    def guard(request: Request) -> None:
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not sent:
            raise HTTPException(401, "Not authenticated")
        if sent not in tokens:
            raise HTTPException(403, "Forbidden")

    return guard
