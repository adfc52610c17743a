"""Quarantine of a flow by cause, and rows of it a page at a time, however large their values are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from databus.records import tables as t
from databus.records.quarantine.held_row import HeldState, QuarantinedRow, facts_of, in_state, with_decisions
from databus.records.store import RecordStore

READ_BYTES = 256 * 1024
"""Longest payload, in characters, that a page of rows reads."""


@dataclass(frozen=True)
class CauseCount:
    """Rows of a flow with one kind of cause.

    Attributes:
        number: place in the order of causes: the oldest row's; a page goes on behind it.
        stage: "check", or the name of the sink that refused them.
        table: `database.table`.
        cause: kind of the cause, without ids and values of rows.
        rows: how many.
        first_held_at: when the first of them was held back.
        last_held_at: when one was last held back.
        batch: last batch that held one back.
    """

    number: int
    stage: str
    table: str
    cause: str
    rows: int
    first_held_at: datetime
    last_held_at: datetime
    batch: int

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            **{name: getattr(self, name) for name in ("stage", "table", "cause", "rows", "batch")},
            "first_held_at": self.first_held_at.isoformat(),
            "last_held_at": self.last_held_at.isoformat(),
        }


@dataclass(frozen=True, kw_only=True)
class SampledRow(QuarantinedRow):
    """Row in quarantine, with its payload where that is short enough.

    Attributes:
        number: place in the order of rows; a page goes on behind it.
        payload: what was held, as JSON text; None where it is longer than was asked for.
        payload_chars: its length in characters.
    """

    number: int
    payload: str | None
    payload_chars: int


@dataclass(frozen=True)
class SampleWanted:
    """Rows that a page is to show; what is not given does not matter.

    Attributes:
        state: what became of them.
        stage: "check" or a sink's name.
        table: `database.table`.
        cause: the whole cause or its kind, not a part of it.
        event_id: id of one row.
    """

    state: HeldState | None = HeldState.HELD
    stage: str | None = None
    table: str | None = None
    cause: str | None = None
    event_id: str | None = None


class QuarantineCauses:
    """Queries of the quarantine that read no more than a page; all raise RecordingError when the database refuses.

    Args:
        store: the records store; the caller closes it.
        flow: flow name.
    """

    def __init__(self, store: RecordStore, flow: str) -> None:
        self._store = store
        self._flow = flow

    def causes(self, state: HeldState | None, after: int, limit: int) -> list[CauseCount]:
        """Return causes with the number of their rows, those of the oldest rows first.

        Args:
            state: what became of the rows; None for all.
            after: number of the last cause of the page before, 0 for the first page.
            limit: so many at most.
        """
        q = t.quarantine.c
        first = sa.func.min(q.id)
        wanted = (
            sa.select(
                first.label("number"), q.stage, q.table_name, q.cause_class, sa.func.count().label("rows"),
                sa.func.min(q.first_held_at), sa.func.max(q.last_held_at), sa.func.max(q.batch),
            )
            .select_from(with_decisions())
            .where(q.flow == self._flow, *in_state(state))
            .group_by(q.stage, q.table_name, q.cause_class)
            .having(first > after)
            .order_by(first)
            .limit(limit)
        )  # fmt: skip
        with self._store.transaction() as connection:
            return [CauseCount(*row) for row in connection.execute(wanted)]

    def rows(self, wanted: SampleWanted, after: int, limit: int, most_chars: int = READ_BYTES) -> list[SampledRow]:
        """Return rows by their numbers, ascending; of a payload that is longer than `most_chars` only the length.

        Args:
            wanted: which.
            after: number of the last row of the page before, 0 for the first page.
            limit: so many at most.
            most_chars: longest payload that is read, in characters.
        """
        q, d = t.quarantine.c, t.quarantine_decisions.c
        asked = ((q.stage, wanted.stage), (q.table_name, wanted.table), (q.event_id, wanted.event_id))
        given = [column == value for column, value in asked if value is not None]
        if wanted.cause is not None:
            given.append(sa.or_(q.cause_class == wanted.cause, q.cause == wanted.cause))
        chars = sa.func.length(q.payload)
        query = (
            sa.select(
                q.id, q.event_id, q.stage, q.batch, q.table_name, q.key, q.cause, q.position, d.state, d.who, d.why,
                q.last_held_at, sa.case((chars <= most_chars, q.payload)).label("payload"),
                chars.label("payload_chars"),
            )
            .select_from(with_decisions())
            .where(q.flow == self._flow, q.id > after, *given, *in_state(wanted.state))
            .order_by(q.id)
            .limit(limit)
        )  # fmt: skip
        with self._store.transaction() as connection:
            found = connection.execute(query).mappings()
            return [
                SampledRow(
                    **facts_of(row), number=row["id"], payload=row["payload"], payload_chars=int(row["payload_chars"])
                )
                for row in found
            ]

    def payload(self, number: int) -> str:
        """Return the whole payload of a row; "" where the row is gone."""
        q = t.quarantine.c
        with self._store.transaction() as connection:
            wanted = sa.select(q.payload).where(q.flow == self._flow, q.id == number)
            return str(connection.execute(wanted).scalar_one_or_none() or "")

    def whole(self, wanted: SampleWanted, page: int = 100) -> Iterator[tuple[SampledRow, str]]:
        """Yield all rows with their whole payloads, long ones one at a time."""
        after = 0
        while found := self.rows(wanted, after, page):
            for row in found:
                yield row, self.payload(row.number) if row.payload is None else row.payload
            after = found[-1].number

    def decisions(self) -> list[tuple[str, str, str, int, datetime]]:
        """Return what people decided about rows: (replayed or discarded, who, why, rows, when), newest first."""
        d = t.quarantine_decisions.c
        wanted = (
            sa.select(d.state, d.who, d.why, sa.func.count(), d.at)
            .where(d.flow == self._flow, d.state != HeldState.HELD.value, d.who != "")
            .group_by(d.state, d.who, d.why, d.at)
            .order_by(d.at.desc())
        )
        with self._store.transaction() as connection:
            return [(str(state), who, why, int(rows), at) for state, who, why, rows, at in connection.execute(wanted)]
