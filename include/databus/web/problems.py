"""Problems: errors of the API as RFC 9457 has them (problem+json), with our code, hint and whether a retry can help."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError, StarletteHTTPException  # type: ignore[attr-defined]
from fastapi.responses import JSONResponse, Response

from databus.core.errors.batch import RecordingError
from databus.core.errors.checkpoint import (
    CheckpointConflictError,
    CheckpointMovedError,
    LeaseBusyError,
    StaleEpochError,
)
from databus.core.errors.config import ConfigError
from databus.core.errors.problem import MEDIA_TYPE, defect_members, problem_members
from databus.core.errors.root import DatabusError
from databus.core.trace import TraceError, TraceQueryError

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

_MOST_REFUSED = 20
"""Fields that a refusal of a request names."""

RESPONSES: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "Problem (RFC 9457)",
        "content": {
            MEDIA_TYPE: {
                "schema": {
                    "type": "object",
                    "required": ["type", "title", "status", "detail", "instance"],
                    "properties": {
                        "type": {"type": "string", "description": "Page of the error's code, or a URN with it."},
                        "title": {"type": "string"},
                        "status": {"type": "integer"},
                        "detail": {"type": "string", "description": "What happened, and where."},
                        "instance": {"type": "string", "description": "Id of this answer; the server's log has it."},
                        "code": {"type": "string", "description": "Error code, as in the reference."},
                        "hint": {"type": "string", "description": "What to do."},
                        "retryable": {"type": "boolean", "description": "Whether the same may succeed later."},
                        "version": {"type": "string", "description": "412: version of the checkpoint now."},
                        "changes": {
                            "type": "array", "items": {"type": "object"},
                            "description": "412: entries of the history since the version that was given.",
                        },
                        "looked_through": {"type": "object", "description": "Of a trace: flows, not_readable."},
                    },
                }
            }
        },
    }
}  # fmt: skip
"""Answers that any route may give, for the description."""

_BY_CODE = {"flow_unknown": 404, "dag_no_flow": 404, "connection_missing": 503, "package_missing": 503}
_BY_KIND: tuple[tuple[tuple[type[DatabusError], ...], int], ...] = (
    ((CheckpointMovedError,), 412),
    ((LeaseBusyError, CheckpointConflictError, StaleEpochError), 409),
    ((RecordingError,), 503),
    ((ConfigError, TraceQueryError), 422),
    ((TraceError,), 404),
)


class RequestRefusedError(DatabusError):
    """A request lacks a header, or is of a form that is not taken.

    Attributes:
        status: its HTTP status.
    """

    code = "request_refused"
    status: int = 400


def refused(status: int, message: str, hint: str, code: str | None = None) -> RequestRefusedError:
    """Return the refusal of a request with its HTTP status; a page may know it by a code of its own."""
    error = RequestRefusedError(message, hint=hint, code=code)
    error.status = status
    error.retryable = status == 503
    return error


def status_of(error: DatabusError) -> int:
    """Return the HTTP status of an error.

    412: the checkpoint has moved; 409: a run holds the flow, or what is stored or a sink does not allow it; 422: what
    was asked for is none; 503: a server is away, and a later attempt may succeed.
    """
    if isinstance(error, RequestRefusedError):
        return error.status
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    if error.code.endswith("_unavailable"):
        return 503
    return next((status for kinds, status in _BY_KIND if isinstance(error, kinds)), 503 if error.retryable else 409)


def problem(error: DatabusError) -> dict[str, Any]:
    """Return an error as the members of a problem: type, title, status, detail, instance; code, hint, retryable.

    One that says what changed has `version` and `changes` as well, one of a trace `looked_through`.
    """
    facts = problem_members(error, status_of(error))
    if isinstance(error, CheckpointMovedError):
        facts |= {"version": error.version, "changes": list(error.changes)}
    if looked := getattr(error, "looked_through", None):
        facts["looked_through"] = looked
    return facts


def answer(facts: dict[str, Any]) -> JSONResponse:
    """Return a problem as an HTTP answer."""
    headers = {"Retry-After": "5"} if facts["status"] == 503 and facts.get("retryable") else {}
    if version := facts.get("version"):
        headers["ETag"] = f'"{version}"'
    return JSONResponse(facts, facts["status"], headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let an application answer errors as problems."""

    @app.exception_handler(DatabusError)
    async def of_databus(_: Request, error: DatabusError) -> Response:
        facts = problem(error)
        log.info("%s: %s", facts["instance"], error)
        return answer(facts)

    @app.exception_handler(RequestValidationError)
    async def of_request(_: Request, error: RequestValidationError) -> Response:
        told = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:_MOST_REFUSED]]
        why = refused(422, "; ".join(told), "The API's description names what each route takes: /api/v1/openapi.json.")
        return answer(problem(why))

    @app.exception_handler(StarletteHTTPException)
    async def of_http(request: Request, error: StarletteHTTPException) -> Response:
        if not isinstance(error.detail, str):
            return await http_exception_handler(request, error)
        facts = {
            "type": "about:blank",
            "title": error.detail,
            "status": error.status_code,
            "detail": error.detail,
            "instance": f"urn:uuid:{uuid.uuid4()}",
        }
        return JSONResponse(facts, error.status_code, dict(error.headers or {}), media_type=MEDIA_TYPE)

    @app.exception_handler(Exception)
    async def of_defects(_: Request, error: Exception) -> Response:
        facts = defect_members(error, "the API server")
        log.error("%s: unexpected", facts["instance"], exc_info=error)
        return JSONResponse(facts, 500, media_type=MEDIA_TYPE)
