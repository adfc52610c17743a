"""Errors of a command that asks a server: the server's own problems, and no answer at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from databus.core.errors.config import ConfigError
from databus.core.errors.entries import all_entries
from databus.core.errors.root import DatabusError


class ServerProblemError(DatabusError):
    """The server refused what was asked, or failed at it; has the server's code and hint.

    Attributes:
        exit_code: exit code of the command, as if it had met the error itself.
    """

    code = "server_refused"
    exit_code: int = 1


class ServerAwayError(DatabusError):
    """The server does not answer."""

    code = "server_unavailable"
    retryable = True


class ServerAnswerError(DatabusError):
    """Answer of something that is not the API of a databus."""

    code = "server_answer"


class VerbNotServedError(ConfigError):
    """The API has no route for a verb."""

    code = "verb_not_served"


def problem_error(status: int, facts: Mapping[str, Any]) -> ServerProblemError:
    """Return what the command raises of a problem that the server answered.

    Args:
        status: HTTP status of the answer.
        facts: its members, as RFC 9457 and `databus.web.problems` have them.
    """
    code = str(facts.get("code") or ServerProblemError.code)
    hint = str(facts.get("hint") or _HINTS.get(status, ""))
    message = str(facts.get("detail") or facts.get("title") or f"HTTP {status}")
    error = ServerProblemError(message, hint=hint, code=code, retryable=bool(facts.get("retryable")))
    error.exit_code = _exit_code(status, code)
    return error


_HINTS = {
    401: "Name a token that has not expired: DATABUS_SERVER_TOKEN_FILE, or DATABUS_SERVER_TOKEN.",
    403: "Ask for the right in Airflow: to see the DAG, and to edit it for what changes something or shows values.",
}

_ASKED_WRONGLY = (400, 404, 413, 415, 422, 428)


def _exit_code(status: int, code: str) -> int:
    """Return the exit code that the command gives to the error of this code where it meets it itself."""
    entry = all_entries().get(code)
    if code.endswith("_unavailable"):
        return 4
    if entry is not None and len(entry.exits) == 1:
        return entry.exits[0]
    if entry is not None:  # a failure of a run, and a refusal of a definition
        return 2 if status in _ASKED_WRONGLY and 2 in entry.exits else 1
    return 2 if status in _ASKED_WRONGLY else 1
