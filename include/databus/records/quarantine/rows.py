"""Rows in quarantine of a flow: queries, and decisions on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from databus.core.positions.offsets import OffsetRange, offset_from_json
from databus.records import tables as t
from databus.records.ledger.pages import LedgerPages
from databus.records.quarantine.held_row import HeldRow, HeldState, Identity, facts_of, in_state, with_decisions
from databus.records.store import RecordStore

_CHUNK_ROWS = 300
"""Rows per statement: two values select a row, and SQLite takes 32,766 parameters."""

_CHUNK_IDS = 10_000
"""Ids per statement, and rows per page: a person may name more rows than SQLite (32,766) takes parameters."""


@dataclass(frozen=True)
class Selection:
    """Row selection of the quarantine; what is not given does not matter.

    Attributes:
        state: what became of them.
        stage: "check" or a sink's name.
        table: `database.table`.
        event_ids: ids of rows.
        cause: text that the cause contains.
        limit: at most so many, oldest first; None for all.
        whole_cause: whether `cause` is all of the cause or its kind, not a part of it.
        upto: number of the newest row that was seen: later ones are not meant; None for all.
        kinds_alone: stage → tables of which `cause` is compared with the kind of the cause alone, not with its words.
    """

    state: HeldState | None = HeldState.HELD
    stage: str | None = None
    table: str | None = None
    event_ids: tuple[str, ...] = ()
    cause: str | None = None
    limit: int | None = None
    whole_cause: bool = False
    upto: int | None = None
    kinds_alone: Mapping[str, Collection[str]] = field(default_factory=dict)


class HeldRows:
    """Queries and decisions on the quarantine of one flow.

    Args:
        store: the records store.
        flow: flow name.
    """

    def __init__(self, store: RecordStore, flow: str) -> None:
        self._store = store
        self._flow = flow

    def select(self, wanted: Selection) -> list[HeldRow]:
        """Return the rows that are meant, oldest first."""
        return [row for page in self.pages(wanted) for row in page]

    def facts(self, wanted: Selection) -> Iterator[list[HeldRow]]:
        """Yield the rows that are meant without their payloads, as `pages` does: 10,000 payloads may be gigabytes."""
        return self.pages(wanted, payload=False)

    def pages(self, wanted: Selection, *, payload: bool = True) -> Iterator[list[HeldRow]]:
        """Yield the rows that are meant, oldest first, some at a time; which they are is settled by the first look.

        Args:
            wanted: which.
            payload: whether payloads are read.
        """
        keys = sorted(self._keys(wanted))[: wanted.limit]
        for first in range(0, len(keys), _CHUNK_IDS):
            numbers = [number for _, number in keys[first : first + _CHUNK_IDS]]
            yield self._rows(t.quarantine.c.id.in_(numbers), payload=payload)

    def count(self, wanted: Selection) -> tuple[int, int]:
        """Return how many rows are meant and the number of the newest, 0 for none; reads none of them."""
        keys = self._keys(wanted)
        return len(keys), max((number for _, number in keys), default=0)

    def known_events(self, event_ids: Sequence[str]) -> set[str]:
        """Return those of some event ids of which there is a row, whatever became of it."""
        q, known = t.quarantine.c, set[str]()
        with self._store.transaction() as connection:
            for ids in _chunks(event_ids):
                wanted = sa.select(q.event_id).where((q.flow == self._flow) & q.event_id.in_(ids))
                known.update(connection.execute(wanted).scalars())
        return known

    def any_of(self, *, stage: str | None = None, table: str | None = None) -> bool:
        """Return whether there is a row of a stage, or a table, whatever became of it."""
        q = t.quarantine.c
        asked = [column == value for column, value in ((q.stage, stage), (q.table_name, table)) if value is not None]
        with self._store.transaction() as connection:
            there = sa.select(q.id).where(q.flow == self._flow, *asked).limit(1)
            return connection.execute(there).first() is not None

    def _keys(self, wanted: Selection) -> set[tuple[int, int]]:
        """Return (batch, number) of the rows that are meant."""
        q = t.quarantine.c
        conditions: list[Any] = [
            *in_state(wanted.state),
            *(
                column == value
                for column, value in ((q.stage, wanted.stage), (q.table_name, wanted.table))
                if value is not None
            ),
        ]
        if wanted.upto is not None:
            conditions.append(q.id <= wanted.upto)
        if wanted.cause is not None:
            conditions.append(_with_cause(wanted, wanted.cause))
        found = sa.select(q.batch, q.id).select_from(with_decisions()).where(q.flow == self._flow, *conditions)
        keys = set[tuple[int, int]]()
        with self._store.transaction() as connection:
            if not wanted.event_ids:
                rows = found.order_by(q.batch, q.id).limit(wanted.limit)
                return {(batch, number) for batch, number in connection.execute(rows)}
            for ids in _chunks(wanted.event_ids):
                keys.update((batch, number) for batch, number in connection.execute(found.where(q.event_id.in_(ids))))
        return keys

    def of_replay(self, number: int) -> list[HeldRow]:
        """Return the rows that a replay took up, whatever became of them since."""
        return self._rows(t.quarantine_decisions.c.replay == number)

    def tally(self) -> dict[str, dict[str, int]]:
        """Return the number of rows by state and, in it, by stage: "check" or a sink's name."""
        q, d = t.quarantine, t.quarantine_decisions
        state = sa.func.coalesce(d.c.state, HeldState.HELD.value).label("became")
        wanted = (
            sa.select(state, q.c.stage, sa.func.count().label("rows"))
            .select_from(with_decisions())
            .where(q.c.flow == self._flow)
            .group_by(state, q.c.stage)
        )
        found: dict[str, dict[str, int]] = {}
        with self._store.transaction() as connection:
            for became, stage, rows in connection.execute(wanted):
                found.setdefault(str(became), {})[str(stage)] = int(rows)
        return found

    def of_snapshot(self, number: int, since: datetime) -> int:
        """Return how many rows that a snapshot brought are held since a time, and not settled."""
        q = t.quarantine.c
        mine = q.event_id.startswith(f"snapshot-{number}-", autoescape=True)
        wanted = (
            sa.select(sa.func.count(sa.distinct(q.event_id)))
            .select_from(with_decisions())
            .where(q.flow == self._flow, mine, q.last_held_at >= since, *in_state(HeldState.HELD))
        )
        with self._store.transaction() as connection:
            return int(connection.execute(wanted).scalar_one())

    def places(self) -> frozenset[tuple[str, str]]:
        """Return (stage, table) of all rows, whatever became of them."""
        q = t.quarantine.c
        wanted = sa.select(q.stage, q.table_name).where(q.flow == self._flow).distinct()
        with self._store.transaction() as connection:
            return frozenset((str(stage), str(table)) for stage, table in connection.execute(wanted))

    def take_up(self, rows: Sequence[HeldRow], number: int, origin: int, said: tuple[str, str, datetime]) -> None:
        """Stamp rows with the replay that will write them; stamps of an earlier try of the number are taken off.

        Args:
            rows: the rows, all held.
            number: number of the replay.
            origin: number of the batch whose range it reads.
            said: who, why and when.
        """
        d = t.quarantine_decisions
        mine = (d.c.flow == self._flow) & (d.c.replay == number)
        with self._store.transaction() as connection:
            connection.execute(d.update().where(mine).values(replay=None, origin=None))
        self._decide([row.identity for row in rows], HeldState.HELD, said, number, origin)

    def settle(
        self, number: int, origin: int, states: dict[Identity, HeldState], said: tuple[str, str, datetime]
    ) -> None:
        """Store what a replay made of its rows; the same again changes nothing but the time."""
        for state in HeldState:
            these = [identity for identity, became in states.items() if became is state]
            self._decide(these, state, said, number, origin)

    def discard(self, rows: Sequence[HeldRow], said: tuple[str, str, datetime]) -> None:
        """Store that rows will never be replayed."""
        self._decide([row.identity for row in rows], HeldState.DISCARDED, said, None, None)

    def batch_range(self, batch: int) -> OffsetRange | None:
        """Return the range of a stored batch report, the newest of that number, None when there is none."""
        return next(iter(self.batch_ranges(batch).values()), None)

    def batch_ranges(self, batch: int) -> dict[str, OffsetRange]:
        """Return the ranges of reports of a batch by the hash of its plan, newest first.

        There are several where the flow was begun anew.
        """
        b = t.batches.c
        mine = (b.flow == self._flow) & (b.batch == batch)
        wanted = sa.select(b.plan_hash, b.range_start, b.range_end).where(mine).order_by(b.id.desc())
        with self._store.transaction() as connection:
            found = connection.execute(wanted).all()
        return {hash_: OffsetRange(offset_from_json(start), offset_from_json(end)) for hash_, start, end in found}

    @property
    def ledger(self) -> LedgerPages:
        """Ledger pages in the same store."""
        return LedgerPages(self._store)

    def _decide(
        self,
        identities: Iterable[Identity],
        state: HeldState,
        said: tuple[str, str, datetime],
        number: int | None,
        origin: int | None,
    ) -> None:
        who, why, at = said
        values = [
            {
                "flow": self._flow, "event_id": event_id, "stage": stage, "state": state.value, "replay": number,
                "origin": origin, "who": who, "why": why, "at": at,
            }
            for event_id, stage in identities
        ]  # fmt: skip
        key = ("flow", "event_id", "stage")
        with self._store.transaction() as connection:
            for first in range(0, len(values), _CHUNK_ROWS):
                chunk = values[first : first + _CHUNK_ROWS]
                update = [name for name in chunk[0] if name not in key]
                connection.execute(self._store.upsert(t.quarantine_decisions, chunk, key, update))

    def _rows(self, condition: Any, *, payload: bool = True) -> list[HeldRow]:
        q, d = t.quarantine, t.quarantine_decisions
        read = [column for column in q.c if payload or column is not q.c.payload]
        wanted = (
            sa.select(*read, d.c.state, d.c.replay, d.c.origin, d.c.who, d.c.why, d.c.at)
            .select_from(with_decisions())
            .where((q.c.flow == self._flow) & condition)
            .order_by(q.c.batch, q.c.id)
        )
        with self._store.transaction() as connection:
            return [_held(row) for row in connection.execute(wanted).mappings()]


def _with_cause(wanted: Selection, cause: str) -> Any:
    q = t.quarantine.c
    if wanted.whole_cause:
        kind, said = q.cause_class == cause, sa.or_(q.cause_class == cause, q.cause == cause)
    else:
        kind, said = (column.contains(cause, autoescape=True) for column in (q.cause_class, q.cause))
    if not wanted.kinds_alone:
        return said
    of = [sa.and_(q.stage == stage, q.table_name.in_(tables)) for stage, tables in sorted(wanted.kinds_alone.items())]
    return sa.or_(sa.and_(sa.or_(*of), kind), sa.and_(sa.not_(sa.or_(*of)), said))


def _chunks(event_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield ids, each once, as many at a time as one statement takes."""
    distinct = list(dict.fromkeys(event_ids))
    for first in range(0, len(distinct), _CHUNK_IDS):
        yield distinct[first : first + _CHUNK_IDS]


def _held(row: sa.RowMapping) -> HeldRow:
    return HeldRow(
        **facts_of(row),
        payload=row.get("payload", ""),
        replay=row["replay"],
        origin=row["origin"],
        at=row["at"],
        plan_hash=row["plan_hash"] or "",
    )
