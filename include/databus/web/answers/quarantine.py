"""Answers about rows in quarantine."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from databus.web.answers.parts import Answer, Done, SinkCountsAnswer


class Cause(Answer):
    """Kind of a cause, and the rows that it holds."""

    stage: str
    table: str
    cause: str
    rows: int
    batch: int
    first_held_at: datetime
    last_held_at: datetime


class CausePage(Answer):
    """Page of causes."""

    flow: str
    tally: dict[str, dict[str, int]] = Field(description="State → stage → rows, of all.")
    items: list[Cause]
    next: str | None


class HeldRowAnswer(Answer):
    """Row in quarantine, as far as the flow shows it now."""

    event_id: str
    stage: str
    batch: int
    table: str
    cause: str
    position: str
    key: str | None
    state: str
    who: str | None
    why: str | None
    held_at: datetime
    payload: Any = Field(description="JSON; null where it is too long for a page.")
    payload_chars: int


class RowPage(Answer):
    """Page of rows."""

    items: list[HeldRowAnswer]
    next: str | None


class RefusalAnswer(Answer):
    """Rows of a batch that cannot be replayed as things are."""

    batch: int
    rows: int
    code: str
    why: str
    hint: str


class ReplayPreview(Answer):
    """Preview of a decision."""

    action: str
    refused: list[RefusalAnswer]
    rows: int
    upto: int = Field(description="Number of the newest row that is meant.")
    judged: bool = Field(description="Whether the rows were few enough to say what stands in the way.")


class Replayed(Answer):
    """Result of one replay."""

    number: int
    batch: int
    replayed: int
    held: int
    discarded: int
    written: dict[str, int]
    sinks: dict[str, SinkCountsAnswer]


class RefusedReplay(Answer):
    """Why the rows of other batches were not replayed."""

    code: str
    why: str
    hint: str


class ReplayDone(Done):
    """Answer of a replay."""

    result: list[Replayed]
    refused: RefusedReplay | None


class Discarded(Answer):
    """Rows that are never replayed."""

    discarded: int


class DiscardDone(Done):
    """Answer of a discard."""

    result: Discarded
