"""Answers about snapshots beside the stream."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from databus.web.answers.parts import Answer, Done, Progress


class TableProgress(Answer):
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


class Snapshot(Answer):
    """Snapshot of a flow's tables."""

    v: int
    number: int
    cause: str
    begun_at: datetime
    tables: list[TableProgress]
    paused: bool = False
    finished_at: datetime | None = None
    cancelled: bool = False
    mends: list[int] = Field([])
    resumed_at: datetime | None = None
    resumed_rows: int = 0
    progress: Progress | None = None


class SnapshotState(Answer):
    """A flow's unfinished snapshot, or its last; before the first, how that would come about."""

    flow: str
    snapshot: Snapshot | None
    note: str = ""


class SnapshotPreviewed(Answer):
    """Preview of an action on a snapshot."""

    action: str
    preview: Snapshot
    would: str = ""


class SnapshotDone(Done):
    """Answer of an action on a snapshot."""

    result: Snapshot
