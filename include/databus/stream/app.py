"""Application of the stream service: its routes (ASGI, Starlette)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from databus.core.errors.root import DatabusError
from databus.core.errors.stream import StreamRequestError, StreamTopicError
from databus.stream import problems
from databus.stream.access import Action, Client
from databus.stream.admission import read_body
from databus.stream.body import Bounds, Record, of_json, of_lines
from databus.stream.metrics import CONTENT_TYPE
from databus.stream.requests import WriteAnswer, WriteRequest, digest_of
from databus.stream.service import StreamService

_PRODUCER = re.compile(r"[\x21-\x7e]{1,200}")
_MOST_SEQUENCE = 2**53
_DIGITS = 20
Handler = Callable[[Request], Awaitable[Response]]


class StreamRoutes:
    """Handlers of the routes.

    Args:
        service: what they ask.
    """

    def __init__(self, service: StreamService):
        self._service = service

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/v1/topics/{topic}", self.counted("write", self.write), methods=["POST"]),
            Route("/metrics", self.metrics),
            Route("/health", self.health),
        ]

    def counted(self, name: str, handler: Handler) -> Handler:
        """Return a handler whose requests are counted and bounded in number; errors of ours are answered."""

        async def handle(request: Request) -> Response:
            try:
                with self._service.admission.request():
                    answer = await handler(request)
            except DatabusError as error:
                answer = problems.answer(error)
            except ClientDisconnect:
                answer = Response(status_code=499)
            self._service.metrics.count("requests", route=name, status=str(answer.status_code))
            return answer

        return handle

    async def write(self, request: Request) -> Response:
        """Write the records of a body to a topic."""
        service, options = self._service, self._service.options
        name = request.path_params["topic"]
        client = self.client(request, "write", name)
        producer, sequence = _sequence(request)
        acks = request.query_params.get("acks", "all")
        partition = number_of(request, "partition", -1)
        key = request.query_params.get("key")
        with service.admission.body(request.headers.get("content-length")):
            body = await read_body(request.stream(), options)
            records = self._records(request, body, key.encode() if key is not None else None, partition)
            service.rates.take(client.name, len(records))
            topic = await service.topic(name)
            leader = topic.check_acks(acks)
            topic.check(records)
            digest = digest_of(body, _form(request).encode(), f"{key!r} {partition}".encode()) if producer else ""
            write = WriteRequest(name, records, producer, sequence, digest)
            answer = await service.write(topic, write, leader=leader)
        if answer.repeated:
            service.metrics.count("repeated_requests")
        else:
            service.metrics.count("written_records", len(records))
            service.metrics.count("written_bytes", len(body))
        return JSONResponse(_written(name, len(records), answer))

    async def metrics(self, _: Request) -> Response:
        """Return the metrics."""
        return PlainTextResponse(self._service.metrics.text(self._service.gauges()), media_type=CONTENT_TYPE)

    async def health(self, _: Request) -> Response:
        """Return whether the service is the one that writes: 200 or 503."""
        healthy = self._service.healthy
        return JSONResponse({"healthy": healthy}, 200 if healthy else 503)

    def client(self, request: Request, action: Action, topic: str) -> Client:
        """Return the client of a request to a topic.

        Raises:
            StreamTokenError: it has no known token.
            StreamAccessError: the topic is not its.
            StreamTopicError: the service does not serve the topic.
        """
        peer = request.client.host if request.client else "unknown"
        client = self._service.tokens.client(request.headers.get("authorization", ""), peer)
        client.check(action, topic)
        if not self._service.options.serves(topic):
            raise StreamTopicError(f"topic {topic[:100]} is not served", hint="Name it in --topics.")
        return client

    def _records(self, request: Request, body: bytes, key: bytes | None, partition: int) -> list[Record]:
        options = self._service.options
        bounds = Bounds(options.record_bytes, options.batch_records)
        read = of_json if _form(request) == "application/json" else of_lines
        return read(body, bounds, key, partition)


def create_app(service: StreamService) -> Starlette:
    """Return the application of a service, which starts and closes with it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.close()

    handlers = {
        DatabusError: problems.of_databus,
        HTTPException: problems.of_http,
        Exception: problems.of_defects,
    }
    return Starlette(routes=StreamRoutes(service).routes(), lifespan=lifespan, exception_handlers=handlers)


def number_of(request: Request, name: str, default: int, most: int = 2**31 - 1) -> int:
    """Return a number among the parameters of a request.

    Raises:
        StreamRequestError: it is none from 0 to `most`.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    if (number := _number(text, most)) is None:
        raise StreamRequestError(f"{name} is {text[:40]!r}", hint=f"Give a number from 0 to {most}.")
    return number


def _number(text: str, most: int) -> int | None:
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS or int(text) > most:
        return None
    return int(text)


def _form(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _sequence(request: Request) -> tuple[str, int]:
    producer = request.headers.get("databus-producer", "")
    sequence = request.headers.get("databus-sequence")
    hint = "Send both headers: Databus-Producer, an id of this writer, and Databus-Sequence, 0, 1, 2 and so on."
    if not producer and sequence is None:
        return "", 0
    if not _PRODUCER.fullmatch(producer):
        raise StreamRequestError("Databus-Producer is missing, or not 1 to 200 visible ASCII characters", hint=hint)
    number = _number(sequence or "", _MOST_SEQUENCE)
    if number is None:
        raise StreamRequestError("Databus-Sequence is missing, or no number from 0 on", hint=hint)
    return producer, number


def _written(topic: str, records: int, answer: WriteAnswer) -> dict[str, object]:
    offsets = {str(p): {"first": o.first, "last": o.last, "count": o.count} for p, o in answer.offsets.items()}
    return {"topic": topic, "records": records, "offsets": offsets, "repeated": answer.repeated}
