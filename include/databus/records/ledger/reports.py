"""Batch reports and quarantined rows as the ledger looks at them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from databus.core.batches.counts import TableCounts
from databus.core.errors.source import OffsetInvalidError
from databus.core.positions.offset_ranges import moved_part
from databus.core.positions.offsets import Offset, OffsetRange, offset_from_json
from databus.core.state.checkpoint import HistoryEntry
from databus.core.trace import row_of_copy
from databus.records import tables as t
from databus.records.batch_record import COUNTED
from databus.records.store import RecordStore


@dataclass(frozen=True)
class ReportFact:
    """Report fact that the history entry states too.

    Attributes:
        batch: batch number.
        plan_hash: hash of its plan.
        spec_hash: hash of flow and code; "" in a report filled in from history.
        mode: "live" or "replay".
        start: start of its range; of many partitions, of those that it moved.
        end: end of its range.
        bytes: log bytes; 0 also when they were not known.
        tables: counts by table.
        receipts: (sink, slot) → (records written, rows by table, rows rejected).
        earlier_life: a page of an earlier generation stands for it.
        lost: it passed over a range that is gone, which no entry shows.
    """

    batch: int
    plan_hash: str
    spec_hash: str
    mode: str
    start: Offset
    end: Offset
    bytes: int
    tables: Mapping[str, TableCounts]
    receipts: Mapping[tuple[str, int], tuple[int, Mapping[str, int], int]]
    earlier_life: bool
    lost: bool = False

    def compared(self, entry: HistoryEntry, others: Collection[str] = ()) -> list[tuple[str, Any, Any]]:
        """Return (name, here, there) of each fact that differs from an entry's.

        Args:
            entry: the entry.
            others: sinks that took the same plan apart from this entry's; their receipts stand in the report too, and
                no other's.
        """
        theirs = {
            (r["sink"], r.get("slot", 0)): (r.get("written", 0), dict(r.get("rows", {})), r.get("rejected", 0))
            for r in entry.receipts
        }
        mine, told = _moved(self.start, self.end), _moved(entry.previous, entry.offset)
        facts: list[tuple[str, Any, Any]] = [
            ("start", mine[0], told[0]),
            ("end", mine[1], told[1]),
            ("receipts", {key: fact for key, fact in self.receipts.items() if key[0] not in others}, theirs),
        ]
        if entry.bytes is not None:
            facts.append(("bytes", self.bytes, entry.bytes))
        tables = sorted({*self.tables, *entry.counts})
        facts += [(f"counts of {table}", self.tables.get(table), entry.counts.get(table)) for table in tables]
        return [(name, here, there) for name, here, there in facts if here != there]


class LedgerReports:
    """Queries for verifying; all methods raise RecordingError when the database refuses.

    Args:
        store: the records store; the caller closes it.
    """

    def __init__(self, store: RecordStore) -> None:
        self.store = store

    def facts(self, flow: str, numbers: tuple[int, int] | None = None) -> list[ReportFact]:
        """Return what the reports of a flow say, in the order they were stored.

        Args:
            flow: flow name.
            numbers: first and last of the batches that are asked for; None for all.
        """
        b = t.batches.c
        wanted = (b.flow == flow) if numbers is None else (b.flow == flow) & b.batch.between(*numbers)
        with self.store.transaction() as connection:
            batches = connection.execute(sa.select(t.batches).where(wanted).order_by(b.id)).mappings().all()
            mine = sa.select(b.id).where(wanted)
            counts: dict[int, dict[str, TableCounts]] = {}
            for c in connection.execute(sa.select(t.table_counts).where(t.table_counts.c.batch.in_(mine))).mappings():
                told = TableCounts(*(c[name] or 0 for name in COUNTED))
                counts.setdefault(c["batch"], {})[c["table_name"]] = told
            receipts: dict[int, dict[tuple[str, int], tuple[int, Mapping[str, int], int]]] = {}
            for r in connection.execute(sa.select(t.receipts).where(t.receipts.c.batch.in_(mine))).mappings():
                fact = (r["written"], r["rows"], r["rejected"])
                receipts.setdefault(r["batch"], {})[r["sink"], r["slot"]] = fact
            earlier = _earlier(connection, flow)
        return [
            ReportFact(
                batch=row["batch"],
                plan_hash=row["plan_hash"],
                spec_hash=row["spec_hash"],
                mode=row["mode"],
                start=offset_from_json(row["range_start"]),
                end=offset_from_json(row["range_end"]),
                bytes=row["bytes"],
                tables=counts.get(row["id"], {}),
                receipts=receipts.get(row["id"], {}),
                earlier_life=(row["batch"], row["plan_hash"]) in earlier,
                lost=bool(row["lost"]),
            )
            for row in batches
        ]

    def held_by_batch(self, flow: str, stage: str | None = None) -> dict[int, int]:
        """Return batch → rows that it was the last to hold back, of one stage or of any.

        Copies of a row that sinks refused are entries of their own, and one row.
        """
        q = t.quarantine.c
        mine = (q.flow == flow) if stage is None else (q.flow == flow) & (q.stage == stage)
        rows = sa.func.count(q.event_id.distinct()).label("rows")
        wanted = sa.select(q.batch, rows).where(mine).group_by(q.batch)
        copies = sa.select(q.batch, q.event_id).distinct().where(mine, q.event_id.like(_LIKE_COPIES))
        with self.store.transaction() as connection:
            found = {row.batch: int(row.rows) for row in connection.execute(wanted)}
            named = connection.execute(copies.order_by(q.batch, q.event_id))
            told = ((row.batch, of) for row in named if (of := row_of_copy(row.event_id)) != row.event_id)
            for (batch, _), of_row in groupby(told):
                found[batch] -= sum(1 for _ in of_row) - 1
        return found


_LIKE_COPIES = "%:_.%"
"""Pattern of the event ids of copies, `…:0.1`; some others match too."""


def _moved(start: Offset | None, end: Offset) -> tuple[Offset | None, Offset]:
    """Return both ends as a report holds them; as they are where they are no range."""
    try:
        moved = moved_part(OffsetRange(start or end, end))
    except OffsetInvalidError:
        return start, end
    return (moved.start if start is not None else None), moved.end


def _earlier(connection: sa.Connection, flow: str) -> set[tuple[int, str]]:
    """Return (batch, plan hash) of the commits in pages of all generations but the newest."""
    c = t.ledger.c
    newest = sa.select(sa.func.max(c.generation)).where(c.flow == flow).scalar_subquery()
    wanted = sa.select(c.entry).where((c.flow == flow) & (c.generation < newest) & (c.action == "commit"))
    return {(e.get("batch", 0), e.get("plan_hash", "")) for e in connection.execute(wanted).scalars()}
