"""Problem of an error (RFC 9457, problem+json): its members, as each HTTP service of databus answers with them."""

from __future__ import annotations

import uuid
from typing import Any

from databus.core.errors.entries import all_entries, page_of
from databus.core.errors.root import DatabusError

MEDIA_TYPE = "application/problem+json"


def problem_members(error: DatabusError, status: int) -> dict[str, Any]:
    """Return an error as the members of a problem.

    Args:
        error: with a code; one without an entry has its class's name as the title.
        status: HTTP status of the answer.

    Returns:
        The members of the standard (type, title, status, detail, instance), and our code, hint and retryable. The type
        is the page of the code, or a URN with it; the instance is a new URN, for the log.
    """
    entry, page = all_entries().get(error.code), page_of(error.code)
    return {
        "type": page if page.startswith("http") else f"urn:databus:error:{error.code}",
        "title": entry.cause if entry else type(error).__name__,
        "status": status,
        "detail": error.message,
        "instance": f"urn:uuid:{uuid.uuid4()}",
        "code": error.code,
        "hint": error.hint or (entry.way_out if entry else ""),
        "retryable": error.retryable,
    }


def defect_members(error: Exception, service: str) -> dict[str, Any]:
    """Return an error that nobody foresaw as the members of a problem of status 500, without its message.

    Args:
        error: any.
        service: whose log has the error under the instance, as a sentence's subject: "the service".
    """
    instance = f"urn:uuid:{uuid.uuid4()}"
    return {
        "type": "about:blank",
        "title": "Unexpected error",
        "status": 500,
        "instance": instance,
        "detail": f"{type(error).__name__}: {service}'s log has it under {instance}",
    }
