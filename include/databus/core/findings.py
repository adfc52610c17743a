"""Findings of preflight and doctor: what was looked at, what is wrong, what to do."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from databus.core.errors.root import DatabusError


class Level(enum.StrEnum):
    """Finding level; ERROR stops a flow before its first batch."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """Finding of a preflight probe.

    Attributes:
        subject: what was probed, e.g. "mysql_shop: binlog_row_metadata".
        level: how bad it is.
        message: what was found.
        hint: the command or setting that mends it; "" when all is well.
        code: the error code that a run would raise; "" when all is well.
        retryable: whether it may be well at a later look without a change by a person, as of an error.
    """

    subject: str
    level: Level
    message: str
    hint: str = ""
    code: str = ""
    retryable: bool = False

    @classmethod
    def of(cls, subject: str, error: DatabusError, level: Level = Level.ERROR) -> Finding:
        """Turn an error into the finding an operator reads."""
        return cls(subject, level, error.message, error.hint, error.code, error.retryable)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON for people and programs."""
        return {
            "level": str(self.level),
            "subject": self.subject,
            "found": self.message,
            "what_to_do": self.hint,
            "code": self.code,
        }
