"""Snapshot progress: rows and tables read, rate and time left, for log, command, page and metrics alike. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from databus.core.state.snapshot import Snapshot

PAUSED, FINISHED, CANCELLED = "paused", "finished", "cancelled"
STATES = ("waiting", "reading", PAUSED, FINISHED, CANCELLED)
"""States of a snapshot: it waits for its first chunk, is read, is held by a person, is done, was ended by a person."""


@dataclass(frozen=True)
class SnapshotProgress:
    """Progress of a snapshot at one moment.

    Attributes:
        number: number of the snapshot in its flow.
        cause: why it was begun: "initial", "added", "request" or "repair".
        state: one of `STATES`.
        tables: tables to read.
        done: tables read to their end.
        gone: tables that were dropped or renamed before that.
        table: the table that is read next; "" when it has ended.
        delivered: rows delivered.
        superseded: rows read and left out, for the log had newer ones.
        estimate: rows to read in all: counted in tables that are done, else as the server estimated them.
        at: when it was looked at, aware UTC; a snapshot that has ended is looked at when it did.
        seconds: from its beginning until then.
        rows_per_second: rows read per second, see `progress_of`; None before the first, and while it is not read.
        seconds_left: time until its end at that rate; None where there is no rate.
        waits: why no chunk is read at the moment though nobody holds it; "" where chunks are read, or nobody knows.
        mends: numbers of the flow's gaps that it mends.
    """

    number: int
    cause: str
    state: str
    tables: int
    done: int
    gone: int
    table: str
    delivered: int
    superseded: int
    estimate: int
    at: datetime
    seconds: float
    rows_per_second: float | None = None
    seconds_left: float | None = None
    waits: str = ""
    mends: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """Rows read."""
        return self.delivered + self.superseded

    @property
    def rows_left(self) -> int:
        """Rows still to read, by the estimate."""
        return 0 if self.ended else max(self.estimate - self.rows, 0)

    @property
    def tables_left(self) -> int:
        """Tables still to read to their end."""
        return 0 if self.ended else self.tables - self.done - self.gone

    @property
    def ended(self) -> bool:
        """Return whether it is over, well or not."""
        return self.state in (FINISHED, CANCELLED)

    @property
    def text(self) -> str:
        """Progress in one line."""
        tables = f"{self.done:,} of {self.tables:,} tables" + (f" ({self.gone:,} gone)" if self.gone else "")
        mends = f" (mends gap {', '.join(map(str, self.mends))})" if self.mends else ""
        said = f"snapshot {self.number}{mends}: {tables}, {self.rows:,} of about {self.estimate:,} rows"
        if self.ended:
            return f"{said}, {self.state} after {duration(self.seconds)}"
        if self.state == PAUSED:
            return f"{said}, paused"
        if self.waits:
            return f"{said}, waits: {self.waits}"
        if self.rows_per_second is None or self.seconds_left is None:
            return f"{said}, begun {duration(self.seconds)} ago"
        return f"{said}, {self.rows_per_second:,.0f} rows/s, about {duration(self.seconds_left)} left"

    def since(self, earlier: SnapshotProgress) -> SnapshotProgress:
        """Return it with the rate since an earlier look at the same snapshot, where rows came in between."""
        rate = _rate(self.rows - earlier.rows, (self.at - earlier.at).total_seconds())
        if rate is None or self.rows_per_second is None:
            return self
        return replace(self, rows_per_second=rate, seconds_left=self.rows_left / rate if not self.ended else None)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SnapshotProgress:
        """Read what `to_json` wrote."""
        stored: dict[str, Any] = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        stored |= {"at": datetime.fromisoformat(data["at"]), "mends": tuple(data.get("mends", ()))}
        return cls(**stored)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, of numbers and text; what is not known is left out."""
        known = {
            "rows_per_second": None if self.rows_per_second is None else round(self.rows_per_second, 1),
            "seconds_left": None if self.seconds_left is None else round(self.seconds_left),
        }
        return {
            "number": self.number,
            "cause": self.cause,
            "state": self.state,
            "tables": self.tables,
            "done": self.done,
            "gone": self.gone,
            "tables_left": self.tables_left,
            "table": self.table,
            "rows": self.rows,
            "delivered": self.delivered,
            "superseded": self.superseded,
            "estimate": self.estimate,
            "rows_left": self.rows_left,
            "at": self.at.isoformat(),
            "seconds": round(self.seconds, 1),
            **({"mends": list(self.mends)} if self.mends else {}),
            **{name: value for name, value in known.items() if value is not None},
            **({"waits": self.waits} if self.waits else {}),
            "text": self.text,
        }


def progress_of(
    snapshot: Snapshot, now: datetime, since: SnapshotProgress | None = None, waits: str = ""
) -> SnapshotProgress:
    """Return how far a snapshot has come.

    Args:
        snapshot: as it is stored.
        now: the time, aware UTC.
        since: an earlier look at it, from which on the rate counts; by default the end of its last pause, or its
            beginning where nobody held it.
        waits: why no chunk is read at the moment, where the caller knows.
    """
    rows = snapshot.rows
    current = snapshot.current
    at = snapshot.finished_at or now
    state = _state(snapshot, rows)
    estimate = sum(
        table.rows + table.superseded
        if table.state in ("done", "gone")
        else max(table.estimate or 0, table.rows + table.superseded)
        for table in snapshot.tables
    )
    seconds = max((at - snapshot.begun_at).total_seconds(), 0.0)
    before = since if since is not None and since.number == snapshot.number else None
    from_rows, from_at = (before.rows, before.at) if before else (snapshot.resumed_rows, snapshot.resumed_at)
    rate = _rate(rows - from_rows, (at - (from_at or snapshot.begun_at)).total_seconds())
    if state not in ("reading", FINISHED):
        rate = None
    return SnapshotProgress(
        snapshot.number,
        snapshot.cause,
        state,
        len(snapshot.tables),
        sum(table.state == "done" for table in snapshot.tables),
        sum(table.state == "gone" for table in snapshot.tables),
        "" if current is None or not snapshot.unfinished else current.table,
        sum(table.rows for table in snapshot.tables),
        sum(table.superseded for table in snapshot.tables),
        estimate,
        at,
        seconds,
        rate,
        max(estimate - rows, 0) / rate if rate and state == "reading" else None,
        waits,
        snapshot.mends,
    )


def duration(seconds: float) -> str:
    """Return a rough duration: "95 s", "12 min", "5 h", "3 days"."""
    for size, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def _state(snapshot: Snapshot, rows: int) -> str:
    if snapshot.finished_at is not None:
        return CANCELLED if snapshot.cancelled else FINISHED
    if snapshot.paused:
        return PAUSED
    return "reading" if rows or any(table.chunks for table in snapshot.tables) else "waiting"


def _rate(rows: int, seconds: float) -> float | None:
    """Return rows per second; None where none came."""
    return rows / max(seconds, 0.001) if rows > 0 else None
