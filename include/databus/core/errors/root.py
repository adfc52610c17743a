"""Root of the error tree: every failure has a code, a place, a hint, and says whether a retry can help.

Errors cross process borders (Spark workers, Connect), so each pickles to the same class with the same fields.
"""

from __future__ import annotations

from typing import Any


class DatabusError(Exception):
    """Root of all errors of this package.

    Attributes:
        code: stable identifier, `snake_case`, one per kind of failure; shown to users and matched by tests.
        message: what happened and where (flow, table, position).
        hint: what the reader can do about it.
        retryable: whether the same call may succeed later without a change by a person.
    """

    code = "databus_error"
    retryable = False
    default_hint = ""

    def __init__(
        self, message: str, *, hint: str | None = None, code: str | None = None, retryable: bool | None = None
    ):
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        if code is not None:
            self.code = code
        if retryable is not None:
            self.retryable = retryable
        super().__init__(message)

    def __str__(self) -> str:
        text = f"[{self.code}] {self.message}"
        return f"{text} Hint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.code, self.retryable, self._extra())

    def _extra(self) -> dict[str, Any]:
        skip = {"message", "hint", "code", "retryable"}
        return {k: v for k, v in self.__dict__.items() if k not in skip}


def _rebuild(
    kind: type[DatabusError], message: str, hint: str, code: str, retryable: bool, extra: dict[str, Any]
) -> DatabusError:
    error = kind.__new__(kind)
    DatabusError.__init__(error, message, hint=hint, code=code, retryable=retryable)
    error.__dict__.update(extra)
    return error
