"""Answers about checkpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from databus.web.answers.parts import Answer, Counts, Done, GapAnswer, ItemError, Json


class Standing(Answer):
    """Checkpoint of a flow; one that never ran has `checkpoint` and `note` instead."""

    flow: str
    checkpoint: None = None
    note: str = ""
    offset: Json | None = None
    gtids: str | None = None
    batch: int | None = None
    epoch: int | None = None
    run: str | None = None
    watermark: datetime | None = None
    updated_at: datetime | None = None
    last_counts: dict[str, Counts] | None = None
    plan_in_flight: str | None = None
    paused: str | None = None
    snapshot: str | None = None
    open_gaps: list[str] | None = None
    sinks_behind: dict[str, str] | None = None
    pace: Json | None = None
    outputs: dict[str, dict[str, str | None]] | None = None


class CheckpointState(Standing):
    """Checkpoint of a flow with its version, which is the ETag as well."""

    dag_id: str
    version: str
    place: str | None
    gaps: list[GapAnswer]


class ListedCheckpoint(Answer):
    """Checkpoint in a list of flows; null with why it cannot be read."""

    dag_id: str
    flow: str | None
    checkpoint: Standing | None
    version: str | None
    error: ItemError | None


class CheckpointPage(Answer):
    """Page of checkpoints."""

    items: list[ListedCheckpoint]
    next: str | None


class HistoryEntryAnswer(Answer):
    """Commit or amendment."""

    number: int
    action: str
    who: str
    why: str
    at: datetime
    start: str | None = Field(alias="from")
    end: str = Field(alias="to")
    batch: int
    epoch: int
    rows: int
    entry: Json | None = Field(None, description="As it is stored, where that was asked for.")


class HistoryPage(Answer):
    """Page of a history."""

    items: list[HistoryEntryAnswer]
    next: str | None


class Previewed(Answer):
    """Preview of an action; `version` is what the action takes as If-Match."""

    action: str
    version: str
    preview: Json | list[Json] = Field(description="What would be done; its members depend on the action.")


class Amended(Done):
    """Answer of an action on a checkpoint."""

    result: Json | list[Json] = Field(description="What was done; its members depend on the action.")
    version: str | None
    way_back: dict[str, Any] | None = Field(None, description="Action and entry that lead back.")
