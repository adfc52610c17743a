"""Find the error that matters inside what Spark raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from databus.core.errors.root import DatabusError
from databus.core.errors.source import SourceUnavailableError

_DETAILS = re.compile(r'details = "(?P<details>[^"]*)"')
_CODED = re.compile(
    r"(?P<kind>\w+Error): \[(?P<code>[a-z_]+)\] (?P<message>.*?)(?: Hint: (?P<hint>.*))?$", re.MULTILINE
)


@contextmanager
def engine_errors() -> Iterator[None]:
    """Raise what matters of whatever Spark raises inside the block.

    Raises:
        DatabusError: a task of ours raised it, or the engine is gone (`engine_unavailable`, retryable).
    """
    try:
        yield
    except DatabusError:
        raise
    except Exception as error:
        found = unwrap(error)
        if found is error:
            raise
        raise found from error


def unwrap(error: BaseException) -> BaseException:
    """Return our own error when a task raised one, an engine error when the Spark server is gone, else `error`.

    Errors of the read side cross Spark as text only, so the class is found again by its name.
    """
    if isinstance(error, DatabusError):
        return error
    found = None
    for found in _CODED.finditer(str(error)):  # noqa: B007 - the last one is the innermost cause
        pass
    if found:
        kinds = {kind.__name__: kind for kind in _subclasses(DatabusError)}
        kind = kinds.get(found["kind"], DatabusError)
        return kind(found["message"], hint=found["hint"] or "", code=found["code"], retryable=kind.retryable)
    text = str(error)
    if any(
        sign in text for sign in ("UNAVAILABLE", "Connection refused", "Socket closed", "INVALID_HANDLE", "SESSION_")
    ):
        return SourceUnavailableError(
            f"the Spark server stopped answering: {grpc_details(text)}",
            hint="The batch is retried from its plan; see the Spark server's log.",
            code="engine_unavailable",
        )
    return error


def grpc_details(text: str) -> str:
    """Return the one line of a gRPC error's text that says what happened."""
    found = _DETAILS.search(text)
    return (found["details"] if found else text.strip().splitlines()[0])[:300]


def _subclasses(kind: type[DatabusError]) -> list[type[DatabusError]]:
    return [kind, *(deeper for sub in kind.__subclasses__() for deeper in _subclasses(sub))]
