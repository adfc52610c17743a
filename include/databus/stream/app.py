"""Application of the stream service: its routes (ASGI, Starlette)."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from confluent_kafka import Message
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from databus.core.errors.root import DatabusError
from databus.core.errors.stream import StreamRequestError, StreamTopicError
from databus.stream import problems
from databus.stream.access import Action, Client
from databus.stream.admission import read_body
from databus.stream.body import Bounds, StreamRecord, of_json, of_lines
from databus.stream.connection import send_answer
from databus.stream.metrics import CONTENT_TYPE
from databus.stream.openapi import description
from databus.stream.parameters import document_of, edge_of, number_of, offset_of, places_of, seconds_of, sequence_of
from databus.stream.reader import Most
from databus.stream.requests import WriteAnswer, WriteRequest, digest_of, place_of
from databus.stream.service import StreamService

log = logging.getLogger(__name__)

_RECORDS = 500
"""Records of a read, unless it asks for another number."""
_MOST_DEADLINE_S = 86_400.0
_SMALL = 64 * 1024
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
        consumer = "/v1/topics/{topic}/consumers/{consumer}"
        return [
            Route("/v1/topics/{topic}", self._counted("write", self.write), methods=["POST"]),
            Route("/v1/topics/{topic}/records", self._counted("read", self.read), methods=["GET"]),
            Route(f"{consumer}/records", self._counted("deliver", self.deliver), methods=["GET"]),
            Route(f"{consumer}/acks", self._counted("acknowledge", self.acknowledge), methods=["POST"]),
            Route(f"{consumer}/places", self._counted("move", self.move), methods=["POST"]),
            Route("/v1/openapi.json", self.openapi, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
        ]

    def _counted(self, name: str, handler: Handler) -> _Counted:
        return _Counted(self._service, name, handler)

    async def write(self, request: Request) -> Response:
        """Write the records of a body to a topic."""
        service, options, begun = self._service, self._service.options, time.monotonic()
        name = request.path_params["topic"]
        client = self._client(request, "write", name)
        producer, sequence = sequence_of(request)
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
        service.metrics.count("write_seconds", time.monotonic() - begun)
        if answer.repeated:
            service.metrics.count("repeated_requests")
        else:
            service.metrics.count("written_records", len(records))
            service.metrics.count("written_bytes", len(body))
        return JSONResponse(_written(name, len(records), answer))

    async def read(self, request: Request) -> Response:
        """Return records of a partition from an offset on."""
        name = request.path_params["topic"]
        client = self._client(request, "read", name)
        partition = number_of(request, "partition", 0)
        place = offset_of(request, "offset", "earliest")
        most = self._most(request)
        self._service.rates.take(client.name, 0)
        topic = await self._service.topic(name)
        if partition >= topic.partitions:
            raise StreamTopicError(f"topic {name} has {topic.partitions} partitions, and none {partition}")
        start, messages = await self._service.consumers.read(topic, partition, place, most)
        self._came(client, messages)
        after = place_of(messages[-1])[1] + 1 if messages else start
        return JSONResponse({"topic": name, "partition": partition, "records": _shown(messages), "next": after})

    async def deliver(self, request: Request) -> Response:
        """Return the next records of a consumer, to be acknowledged until a deadline."""
        name, consumer = request.path_params["topic"], request.path_params["consumer"]
        client = self._client(request, "read", name)
        start = edge_of(request, "start", "earliest")
        deadline_s = seconds_of(request, "deadline_s", self._service.options.deadline_s, _MOST_DEADLINE_S)
        most = self._most(request)
        self._service.rates.take(client.name, 0)
        topic = await self._service.topic(name)
        delivery, messages = await self._service.consumers.deliver(topic, consumer, most, start, deadline_s)
        self._came(client, messages)
        if delivery is None:
            return JSONResponse({"topic": name, "delivery": None, "attempt": 0, "records": []})
        if delivery.attempt > 1:
            self._service.metrics.count("redelivered_records", len(messages))
        facts = {"topic": name, "delivery": delivery.id, "attempt": delivery.attempt, "records": _shown(messages)}
        return JSONResponse(facts)

    async def acknowledge(self, request: Request) -> Response:
        """Take a delivery as handled."""
        name, consumer = request.path_params["topic"], request.path_params["consumer"]
        self._client(request, "read", name)
        form = '{"delivery": "ID"}'
        document = document_of(await self._small_body(request), form)
        if document.keys() != {"delivery"} or not isinstance(document["delivery"], str):
            raise StreamRequestError("the body names no delivery", hint=f"Send {form}.")
        topic = await self._service.topic(name)
        stored = await self._service.consumers.acknowledge(topic, consumer, document["delivery"])
        return JSONResponse({"delivery": document["delivery"], "stored": stored})

    async def move(self, request: Request) -> Response:
        """Set the places of a consumer."""
        name, consumer = request.path_params["topic"], request.path_params["consumer"]
        client = self._client(request, "read", name)
        places = places_of(document_of(await self._small_body(request), '{"to": "earliest"}'))
        topic = await self._service.topic(name)
        moved = await self._service.consumers.move(topic, consumer, places)
        log.info("client %s moved consumer %s of %s to %s", client.name, consumer, name, moved)
        return JSONResponse({"offsets": {str(partition): offset for partition, offset in sorted(moved.items())}})

    async def openapi(self, _: Request) -> Response:
        """Return the description of the routes."""
        return JSONResponse(description())

    async def metrics(self, _: Request) -> Response:
        """Return the metrics."""
        return PlainTextResponse(self._service.metrics.text(self._service.gauges()), media_type=CONTENT_TYPE)

    async def health(self, _: Request) -> Response:
        """Return whether the service is the one that writes: 200 or 503."""
        healthy = self._service.healthy
        return JSONResponse({"healthy": healthy}, 200 if healthy else 503)

    def _client(self, request: Request, action: Action, topic: str) -> Client:
        peer = request.client.host if request.client else "unknown"
        client = self._service.tokens.client(request.headers.get("authorization", ""), peer)
        client.check(action, topic)
        if not self._service.options.serves(topic):
            raise StreamTopicError(f"topic {topic[:100]} is not served", hint="Name it in --topics.")
        return client

    def _records(self, request: Request, body: bytes, key: bytes | None, partition: int) -> list[StreamRecord]:
        options = self._service.options
        bounds = Bounds(options.record_bytes, options.batch_records, options.batch_bytes)
        read = of_json if _form(request) == "application/json" else of_lines
        return read(body, bounds, key, partition)

    def _most(self, request: Request) -> Most:
        options = self._service.options
        return Most(
            max(1, number_of(request, "max_records", _RECORDS, options.batch_records)),
            max(1, number_of(request, "max_bytes", options.batch_bytes, options.batch_bytes)),
            seconds_of(request, "wait_s", 0.0, options.wait_s),
        )

    async def _small_body(self, request: Request) -> bytes:
        return await read_body(request.stream(), self._service.options, _SMALL)

    def _came(self, client: Client, messages: list[Message]) -> None:
        self._service.metrics.count("read_records", len(messages))
        self._service.rates.note(client.name, len(messages))


class _Counted:
    """Route whose requests are counted and bounded in number until they are answered; errors of ours are answers."""

    def __init__(self, service: StreamService, name: str, handler: Handler):
        self._service, self._name, self._handler = service, name, handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        admission = self._service.admission
        with ExitStack() as stack:
            try:
                stack.enter_context(admission.request())
                answer = await self._handler(Request(scope, receive))
            except DatabusError as error:
                answer = problems.answer(error)
            except ClientDisconnect:
                answer = Response(status_code=499)
            self._service.metrics.count("requests", route=self._name, status=str(answer.status_code))
            await send_answer(answer, admission, scope, receive, send)


def create_app(service: StreamService) -> Starlette:
    """Return the application of a service, which starts and closes with it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    handlers: Any = {
        DatabusError: problems.of_databus,
        HTTPException: problems.of_http,
        Exception: problems.of_defects,
    }
    return Starlette(routes=StreamRoutes(service).routes(), lifespan=lifespan, exception_handlers=handlers)


def _form(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _written(topic: str, records: int, answer: WriteAnswer) -> dict[str, object]:
    offsets = {str(p): {"first": o.first, "last": o.last, "count": o.count} for p, o in answer.offsets.items()}
    return {"topic": topic, "records": records, "offsets": offsets, "repeated": answer.repeated}


def _shown(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [_of_message(message) for message in messages]


def _of_message(message: Message) -> dict[str, Any]:
    shown: dict[str, Any] = {"partition": message.partition(), "offset": message.offset()}
    shown["timestamp_ms"] = message.timestamp()[1]
    if (key := message.key()) is not None:
        shown |= _text(key, "key", "key_base64")
    shown |= _value(message.value())
    headers: Any = message.headers()
    if headers:
        shown["headers"] = [{"name": name, **_value(header)} for name, header in headers]
    return shown


def _value(given: bytes | None) -> dict[str, Any]:
    return {"value": None} if given is None else _text(given, "text", "base64")


def _text(given: bytes, plain: str, coded: str) -> dict[str, str]:
    try:
        return {plain: given.decode()}
    except UnicodeDecodeError:
        return {coded: base64.b64encode(given).decode()}
