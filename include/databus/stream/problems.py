"""Problems: errors of the stream service as RFC 9457 has them (problem+json), with our code and hint."""

from __future__ import annotations

import logging
import math
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from databus.core.errors.problem import MEDIA_TYPE, defect_members, problem_members
from databus.core.errors.root import DatabusError
from databus.core.errors.stream import StreamFullError, StreamPlaceGoneError, StreamSequenceError

log = logging.getLogger(__name__)

_RETRY_AFTER_S = 2
"""Seconds until a client asks again while the brokers are away."""

STATUS = {
    "stream_request": 400,
    "stream_token": 401,
    "stream_access": 403,
    "stream_topic": 404,
    "stream_slow_body": 408,
    "stream_sequence": 409,
    "stream_producer_conflict": 409,
    "stream_delivery": 409,
    "stream_place_gone": 410,
    "stream_too_large": 413,
    "sink_record_rejected": 413,
    "stream_acks": 422,
    "stream_full": 429,
    "stream_fenced": 503,
}
"""Code → HTTP status; of the others a retryable error is 503, and one that a person has to mend 502."""


def status_of(error: DatabusError) -> int:
    """Return the HTTP status of an error."""
    if error.code in STATUS:
        return STATUS[error.code]
    return 503 if error.retryable or error.code.endswith("_unavailable") else 502


def problem(error: DatabusError) -> dict[str, Any]:
    """Return an error as the members of a problem."""
    facts = problem_members(error, status_of(error))
    if isinstance(error, StreamSequenceError):
        facts["expected"] = error.expected
    if isinstance(error, StreamPlaceGoneError):
        facts["earliest"] = error.earliest
    return facts


def answer(error: DatabusError) -> JSONResponse:
    """Return an error as an HTTP answer."""
    facts = problem(error)
    headers = {}
    if isinstance(error, StreamFullError):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    elif facts["status"] == 503:
        headers["Retry-After"] = str(_RETRY_AFTER_S)
    elif facts["status"] == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if facts["status"] >= 500:
        log.warning("%s: %s", facts["instance"], error)
    if facts["status"] in (408, 413):
        headers["Connection"] = "close"  # the rest of the body is not read
    return JSONResponse(facts, facts["status"], headers, media_type=MEDIA_TYPE)


def of_databus(_: Request, error: Exception) -> Response:
    """Answer an error of ours."""
    if not isinstance(error, DatabusError):
        raise error
    return answer(error)


def of_http(_: Request, error: Exception) -> Response:
    """Answer a request for what is not there, or by a method that it does not have."""
    if not isinstance(error, HTTPException):
        raise error
    facts = {"type": "about:blank", "title": error.detail, "status": error.status_code, "detail": error.detail}
    return JSONResponse(facts, error.status_code, error.headers, media_type=MEDIA_TYPE)


def of_defects(_: Request, error: Exception) -> Response:
    """Answer an error that nobody foresaw; the log has it."""
    facts = defect_members(error, "the service")
    log.error("%s: unexpected", facts["instance"], exc_info=error)
    return JSONResponse(facts, 500, media_type=MEDIA_TYPE)
