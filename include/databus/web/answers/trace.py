"""Answers of a trace."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from databus.web.answers.parts import Answer, Json


class LookedThrough(Answer):
    """Flows that were looked through."""

    flows: list[str]
    not_readable: list[str]


class Run(Answer):
    """Run whose page shows more."""

    dag_id: str
    run_id: str


class StepAnswer(Answer):
    """Step of a journey."""

    stage: str
    title: str
    place: str
    details: list[str]
    at: datetime | None
    until: datetime | None
    behind: int | None
    seconds: float | None
    flow: str
    sink: str
    run: Run | None
    warns: bool


class JourneyAnswer(Answer):
    """Journey of one change; `lines` where they were asked for."""

    flow: str
    dag_id: str
    change: Json
    batches: list[Json]
    sinks: list[Json]
    mirrors: list[Json]
    notes: list[str]
    steps: list[StepAnswer]
    lines: list[list[str]] = Field([])


class Traced(Answer):
    """Journeys of what was asked for."""

    kind: str
    what: str
    seconds: float
    looked_through: LookedThrough
    more: int
    journeys: list[JourneyAnswer]


class ImagesAnswer(Answer):
    """Row before and after a change, values as text."""

    before: dict[str, str | None] | None
    after: dict[str, str | None] | None
    masked: dict[str, str]
    note: str
