"""Answers about snapshots beside the stream."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from databus.web.answers.parts import Answer, Done, ProgressAnswer


class TableProgressAnswer(Answer):
    """Table of a snapshot."""

    v: int = 1
    table: str
    state: str
    after: list[str | None]
    chunks: int
    rows: int
    superseded: int
    estimate: int | None
    where: str = ""
    absent: list[str] = Field([])


class SnapshotAnswer(Answer):
    """Snapshot of a flow's tables."""

    v: int
    number: int
    cause: str
    begun_at: datetime
    tables: list[TableProgressAnswer]
    paused: bool = False
    finished_at: datetime | None = None
    cancelled: bool = False
    mends: list[int] = Field([])
    resumed_at: datetime | None = None
    resumed_rows: int = 0
    progress: ProgressAnswer | None = None


class SnapshotState(Answer):
    """A flow's unfinished snapshot, or its last; before the first, how that would come about."""

    flow: str
    snapshot: SnapshotAnswer | None
    note: str = ""


class SnapshotPreviewed(Answer):
    """Preview of an action on a snapshot."""

    action: str
    preview: SnapshotAnswer
    would: str = ""


class SnapshotDone(Done):
    """Answer of an action on a snapshot."""

    result: SnapshotAnswer
