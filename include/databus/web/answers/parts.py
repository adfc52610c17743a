"""Parts that answers of several areas have."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Json = dict[str, Any]
"""An object whose members depend on the kinds of a flow."""


class Answer(BaseModel):
    """Answer, or a part of one."""

    model_config = ConfigDict(populate_by_name=True)


class ItemError(Answer):
    """Error of one item of a list."""

    code: str
    message: str
    hint: str


class Counts(Answer):
    """Rows of a table or of all: read = filtered + quarantined + dispatched + superseded."""

    read: int
    filtered: int
    quarantined: int
    dispatched: int
    superseded: int = Field(0, description="Rows of a snapshot that the log had newer ones of.")
    snapshot: int = Field(0, description="Rows that a snapshot read.")


class SinkCountsAnswer(Answer):
    """Rows at one sink."""

    dispatched: int
    rejected: int
    statements: int = 0
    filtered: int = 0


class GapAnswer(Answer):
    """Range of the log that a flow never moved."""

    v: int
    number: int
    start: Json = Field(alias="from", description="Offset.")
    end: Json = Field(alias="to", description="Offset.")
    cause: str
    decision: str
    who: str
    why: str
    at: datetime
    run_url: str = ""


class ProgressAnswer(Answer):
    """Progress of a snapshot."""

    number: int
    cause: str
    state: Literal["waiting", "reading", "paused", "finished", "cancelled"]
    tables: int
    done: int
    gone: int
    tables_left: int
    table: str
    rows: int
    delivered: int
    superseded: int
    estimate: int
    rows_left: int
    at: datetime
    seconds: float
    mends: list[int] = Field([])
    rows_per_second: float | None = None
    seconds_left: float | None = None
    waits: str = ""
    text: str


class Done(Answer):
    """Answer of an action."""

    flow: str
    action: str
    who: str = Field(description="User of the login.")
