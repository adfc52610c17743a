"""Connections whose clients send no request, or do not take what they asked for; over sockets, without Kafka."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from databus.core.errors import StreamFullError
from databus.stream.admission import Admission
from databus.stream.connection import PIECE, connection_class, send_answer
from databus.stream.options import StreamOptions

SIZE = 48 * 1024 * 1024


class World:
    """Server of one answer of SIZE bytes (`/small`: of one byte), and what it counted."""

    def __init__(self, patience_s: float):
        self.dropped: list[str] = []
        self.admission = Admission(StreamOptions(waiting_bytes=SIZE))
        self.sent = 0
        config = uvicorn.Config(
            self._app,
            port=0,
            http=connection_class(patience_s, self._drop),
            log_config=None,
            lifespan="off",
            interface="asgi3",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        self.until(lambda: self._server.started)

    def _drop(self, why: str) -> None:
        self.dropped.append(why)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Any) -> None:
            await send(message)
            self.sent += len(message.get("body", b""))

        answer = Response(b"x" * (1 if scope["path"] == "/small" else SIZE))
        await send_answer(answer, self.admission, scope, receive, counted)

    def connect(self) -> socket.socket:
        host, port = self._server.servers[0].sockets[0].getsockname()
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(30)
        client.connect((host, port))
        return client

    def until(self, condition: Any) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture
def short() -> Iterator[World]:
    world = World(0.3)
    yield world
    world.close()


def rest(client: socket.socket) -> bytes:
    parts = []
    try:
        while part := client.recv(1 << 20):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def test_a_client_that_does_not_take_its_answer_is_dropped(short: World) -> None:
    client = short.connect()
    client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    short.until(lambda: short.admission.answers == SIZE)
    with pytest.raises(StreamFullError):
        short.admission.check_answers()
    short.until(lambda: short.dropped == ["unread"] and not short.admission.answers)
    short.admission.check_answers()
    assert len(rest(client)) < SIZE
    client.close()


def test_an_answer_is_given_piece_by_piece() -> None:
    world = World(60)
    client = world.connect()
    client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    world.until(lambda: world.sent)
    assert world.admission.answers == SIZE
    head, _, body = rest(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body == b"x" * SIZE
    assert world.dropped == []
    client.close()
    world.close()


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost:", b"GET /small HTTP/1.1\r\nHost: h\r\n\r\nG"],
    ids=["none", "half", "second"],
)
def test_a_client_that_sends_no_request_is_dropped(short: World, sent: bytes) -> None:
    client = short.connect()
    client.sendall(sent)
    answer = rest(client)
    assert answer.startswith(b"HTTP/1.1 200") == (b"/small" in sent)
    assert short.dropped == ["silent"]
    client.close()


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 5])
def test_pieces_are_the_answer(size: int) -> None:
    body, sent = bytes(number % 251 for number in range(size)), []
    admission = Admission(StreamOptions())

    async def send(message: Any) -> None:
        assert admission.answers == size
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is asked for")

    scope: Any = {"type": "http", "method": "GET", "headers": []}
    asyncio.run(send_answer(Response(body), admission, scope, receive, send))
    pieces = [message for message in sent if message["type"] == "http.response.body"]
    assert b"".join(piece["body"] for piece in pieces) == body
    assert [piece.get("more_body", False) for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert all(len(piece["body"]) <= PIECE for piece in pieces)
    assert admission.answers == 0
