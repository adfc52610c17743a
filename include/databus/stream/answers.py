"""Answers that are sent piece by piece: each once the client has taken the one before."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from databus.stream.admission import Admission

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
