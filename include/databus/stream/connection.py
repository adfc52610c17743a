"""HTTP connection of the stream service, closed where its client sends no request or does not take an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from databus.stream.admission import Admission


class StreamConnection(HttpToolsProtocol):
    """Connection whose client may be silent for a bounded time, before a request and while it takes an answer.

    The write buffer is empty or the connection waits: so what a slow client holds in memory is one piece of an answer.

    Attributes:
        patience_s: seconds until the head of a request is there, and in which each piece of an answer is taken.
    """

    patience_s: ClassVar[float]

    def __init__(self, *given: Any, **named: Any):
        super().__init__(*given, **named)
        self._head: asyncio.TimerHandle | None = None
        self._taken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1, low=0)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what waits."""
        _end(self._head)
        _end(self._taken)
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Take the head of a request: its body and answer have times of their own."""
        _end(self._head)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there."""
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._wait_for_head()

    def pause_writing(self) -> None:
        """Wait until the client has taken what was written."""
        super().pause_writing()
        if self._taken is None:
            self._taken = self.loop.call_later(self.patience_s, self._drop, "unread")

    def resume_writing(self) -> None:
        """Go on with the answer."""
        _end(self._taken)
        self._taken = None
        super().resume_writing()

    def dropped(self, why: str) -> None:
        """Note that the connection is closed, "silent" or "unread"."""

    def _wait_for_head(self) -> None:
        _end(self._head)
        self._head = self.loop.call_later(self.patience_s, self._drop, "silent")

    def _drop(self, why: str) -> None:
        self.dropped(why)
        self.transport.abort()  # not close(): it waits for the buffer


def connection_class(patience: float, counted: Callable[[str], None]) -> type[StreamConnection]:
    """Return the class of a service's connections.

    Args:
        patience: seconds.
        counted: called with why a connection was dropped.
    """

    class CountedConnection(StreamConnection):
        patience_s = patience

        def dropped(self, why: str) -> None:
            counted(why)

    return CountedConnection


def _end(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


PIECE = 64 * 1024
"""Bytes of an answer that are given to the connection at a time."""


async def send_answer(answer: Response, admission: Admission, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an answer, whose bytes count as held until the last piece is given to the connection.

    Args:
        answer: with all of its body.
        admission: counts them.
        scope: of the request.
        receive: of the request.
        send: waits while the connection has not taken what was sent before.
    """

    async def in_pieces(message: Message) -> None:
        body = message.get("body", b"")
        for begin in range(0, len(body) - PIECE, PIECE):
            await send({**message, "body": body[begin : begin + PIECE], "more_body": True})
        last = max(0, (len(body) - 1) // PIECE * PIECE)
        await send({**message, "body": body[last:]} if last else message)

    with admission.answer(len(answer.body)):
        await answer(scope, receive, in_pieces)
