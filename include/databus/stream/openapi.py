"""Description of the stream service's routes (OpenAPI 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from databus.core.errors.problem import MEDIA_TYPE

_INTEGER, _STRING, _NUMBER = {"type": "integer", "minimum": 0}, {"type": "string"}, {"type": "number", "minimum": 0}
_EDGE = {"enum": ["earliest", "latest"]}
_RECORD = {
    "type": "object",
    "description": "One of value (JSON; null deletes the key in a compacted topic), text and base64.",
    "properties": {
        "key": _STRING, "value": {}, "text": _STRING, "base64": _STRING, "partition": _INTEGER,
        "headers": {"type": "object", "additionalProperties": _STRING},
    },
}  # fmt: skip
_READ = {
    "type": "object",
    "description": "Value as text where it is UTF-8, else as base64; null where it has none.",
    "required": ["partition", "offset", "timestamp_ms"],
    "properties": {
        "partition": _INTEGER, "offset": _INTEGER, "timestamp_ms": {"type": "integer"},
        "key": _STRING, "key_base64": _STRING, "value": {"type": "null"}, "text": _STRING, "base64": _STRING,
        "headers": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    },
}  # fmt: skip
_OFFSETS = {"type": "object", "additionalProperties": _INTEGER}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _parameter(name: str, schema: Mapping[str, Any], text: str, place: str = "query") -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, "description": text}


_TOPIC = _parameter("topic", _STRING, "Topic.", "path")
_CONSUMER = _parameter("consumer", _STRING, "Name of the consumer.", "path")
_MOST = [
    _parameter("max_records", _INTEGER, "Records at most."),
    _parameter("max_bytes", _INTEGER, "Bytes of keys and values at most; one record comes in any case."),
    _parameter("wait_s", _NUMBER, "Seconds to wait for the first record."),
]
_WRITE = [
    _TOPIC,
    _parameter("acks", _STRING, "leader, all (the default), or a number of replicas."),
    _parameter("key", _STRING, "Key of the records that name none."),
    _parameter("partition", _INTEGER, "Partition of the records that name none."),
    _parameter("Databus-Producer", _STRING, "Id of the writer; with it a repeat is written once.", "header"),
    _parameter("Databus-Sequence", _INTEGER, "Number of the request among the writer's to the topic.", "header"),
]
_SPAN = _object(first=_INTEGER, last=_INTEGER, count=_INTEGER)
_WRITTEN = _object(
    topic=_STRING,
    records=_INTEGER,
    offsets={"type": "object", "additionalProperties": _SPAN, "description": "By partition."},
    repeated={"type": "boolean", "description": "Whether the request had been written before."},
)
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": _STRING, "title": _STRING, "status": _INTEGER, "detail": _STRING, "instance": _STRING, "code": _STRING,
        "hint": _STRING, "retryable": {"type": "boolean"}, "expected": _INTEGER, "earliest": _INTEGER,
    },
}  # fmt: skip


def _operation(
    text: str, parameters: list[dict[str, Any]], answer: Mapping[str, Any], body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": text,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {"schema": answer}}},
            "default": {"description": "Problem (RFC 9457)", "content": {MEDIA_TYPE: {"schema": _PROBLEM}}},
        },
    }
    return found if body is None else {**found, "requestBody": {"required": True, "content": body}}


def description() -> dict[str, Any]:
    """Return the description."""
    records = {"type": "array", "items": _READ}
    consumer = "/v1/topics/{topic}/consumers/{consumer}"
    plain = {"schema": _STRING}
    return {
        "openapi": "3.1.0",
        "info": {"title": "databus stream", "version": "v1", "summary": "Records of Kafka topics over HTTP."},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
        "paths": {
            "/v1/topics/{topic}": {"post": _operation(
                "Write records; answered when they are acknowledged.", _WRITE, _WRITTEN, {
                    "application/x-ndjson": {"schema": {"type": "string", "description": "A record in each line."}},
                    "application/json": {"schema": _object(records={"type": "array", "items": _RECORD})},
                })},
            "/v1/topics/{topic}/records": {"get": _operation(
                "Read records of a partition from an offset on.",
                [_TOPIC, _parameter("partition", _INTEGER, "Default 0."),
                 _parameter("offset", {"anyOf": [_INTEGER, _EDGE]}, "Default earliest."), *_MOST],
                _object(topic=_STRING, partition=_INTEGER, records=records, next=_INTEGER))},
            f"{consumer}/records": {"get": _operation(
                "Take the next records of a consumer; without an acknowledgement they come again.",
                [_TOPIC, _CONSUMER, _parameter("start", _EDGE, "Where a new consumer begins."),
                 _parameter("deadline_s", _NUMBER, "Seconds until they come again."), *_MOST],
                _object(topic=_STRING, delivery={"type": ["string", "null"]}, attempt=_INTEGER, records=records))},
            f"{consumer}/acks": {"post": _operation(
                "Acknowledge a delivery.", [_TOPIC, _CONSUMER], _object(delivery=_STRING, stored={"type": "boolean"}),
                {"application/json": {"schema": _object(delivery=_STRING)}})},
            f"{consumer}/places": {"post": _operation(
                "Set the places of a consumer; what is delivered is forgotten.", [_TOPIC, _CONSUMER],
                _object(offsets=_OFFSETS),
                {"application/json": {"schema": {"anyOf": [_object(to=_EDGE), _object(offsets=_OFFSETS)]}}})},
            "/v1/openapi.json": {"get": _operation("This description.", [], {"type": "object"})},
            "/metrics": {"get": {"summary": "Metrics in Prometheus' format.", "responses": {
                "200": {"description": "Metrics", "content": {"text/plain": plain}}}}},
            "/health": {"get": _operation(
                "Whether this instance writes: 503 where another has taken it over.", [],
                _object(healthy={"type": "boolean"}))},
        },
    }  # fmt: skip
