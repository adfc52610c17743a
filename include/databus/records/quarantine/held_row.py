"""Row in quarantine: what is known of it, its state, and the SQL conditions that choose rows by their states."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from databus.records import tables as t

OTHERWISE = 0
"""Number of a replay where a row came to its sinks otherwise: by the flow itself behind a rewind, or, to a sink that
had refused it, by the replay of the check's entry."""

Identity = tuple[str, str]
"""(event id, stage) of a row."""


class HeldState(enum.StrEnum):
    """Quarantine state of a row."""

    HELD = "held"
    REPLAYED = "replayed"
    DISCARDED = "discarded"


@dataclass(frozen=True, kw_only=True)
class QuarantinedRow:
    """Row in quarantine, without its payload.

    Attributes:
        event_id: unique id of the row change.
        stage: "check", or the name of the sink that refused it.
        batch: number of the last batch that held it back.
        table: `database.table`.
        key: canonical key JSON, None without a key.
        cause: why it is held.
        position: file:pos of its transaction's end.
        held_at: when it was last held back.
        state: what became of it.
        who: who replayed or discarded it, "" while nobody did.
        why: reason, "" without.
    """

    event_id: str
    stage: str
    batch: int
    table: str
    key: str | None
    cause: str
    position: str
    held_at: datetime
    state: HeldState
    who: str
    why: str


@dataclass(frozen=True, kw_only=True)
class HeldRow(QuarantinedRow):
    """Row in quarantine, with its payload and what was decided.

    Attributes:
        payload: what was held, as JSON text; "" where it was not asked for.
        replay: number of the last replay that took it up, None when none did, `OTHERWISE` where it came so.
        origin: number of the batch whose range that replay reads.
        at: when it was replayed or discarded, None while nobody did.
        plan_hash: hash of the plan of the batch that held it, "" in entries from before it was kept.
    """

    payload: str
    replay: int | None
    origin: int | None
    at: datetime | None
    plan_hash: str = ""

    @property
    def identity(self) -> Identity:
        """Event id and stage."""
        return self.event_id, self.stage

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            **{name: getattr(self, name) for name in ("event_id", "stage", "batch", "table", "key", "cause")},
            "position": self.position,
            "state": str(self.state),
            "replay": self.replay or None,
            "who": self.who or None,
            "why": self.why or None,
            "held_at": self.held_at.isoformat(),
            "at": self.at.isoformat() if self.at else None,
            "payload": self.payload,
        }


def facts_of(row: sa.RowMapping) -> dict[str, Any]:
    """Return the members of a `QuarantinedRow` from a row of `with_decisions`."""
    return {
        **{name: row[name] for name in ("event_id", "stage", "batch", "key", "cause", "position")},
        "table": row["table_name"],
        "held_at": row["last_held_at"],
        "state": HeldState(row["state"] or HeldState.HELD),
        "who": row["who"] or "",
        "why": row["why"] or "",
    }


def with_decisions() -> sa.Join:
    """Return the quarantine with what was decided about each row, nulls where nothing was."""
    q, d = t.quarantine, t.quarantine_decisions
    same = sa.and_(q.c.flow == d.c.flow, q.c.event_id == d.c.event_id, q.c.stage == d.c.stage)
    return q.outerjoin(d, same)


def in_state(state: HeldState | None) -> Sequence[sa.ColumnElement[bool]]:
    """Return the conditions on `with_decisions` of rows in a state; None for all rows."""
    of_row = t.quarantine_decisions.c.state
    if state is None:
        return ()
    return (sa.or_(of_row.is_(None), of_row == state) if state is HeldState.HELD else of_row == state,)
