"""Which batches moved a place: queries on ranges, a few index look-ups each, however much was recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from databus.core.offsets import Offset, offset_from_json
from databus.records import tables as t
from databus.records.ranges import OUTPUT, SOURCE
from databus.records.reports import BatchRecord, Reports
from databus.records.store import RecordStore

_MOST = 50


class Provenance:
    """Finds batches by what they read and wrote; all methods raise RecordingError when the database refuses.

    Args:
        store: the records store; the caller closes it.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._reports = Reports(store)

    def flows(self) -> list[str]:
        """Return the names of the flows that recorded anything."""
        with self._store.transaction() as connection:
            return list(connection.execute(sa.select(t.runs.c.flow).distinct().order_by(t.runs.c.flow)).scalars())

    def wrote(self, flow: str, output: str, offset: int) -> list[BatchRecord]:
        """Return the batches that wrote an offset of "topic[partition]", oldest first."""
        return self._containing(flow, OUTPUT, output, offset)

    def read(self, flow: str, stream: str, number: int) -> list[BatchRecord]:
        """Return the batches that read a place of a log, oldest first; replays read it again."""
        return self._containing(flow, SOURCE, stream, number)

    def streams(self, flow: str, side: str) -> list[str]:
        """Return the logs that a flow read (side "source"), or the partitions that it wrote to ("output")."""
        r = t.ranges.c
        # A skip scan: one index look-up per name instead of a look at each row.
        found: list[str] = []
        wanted = sa.select(sa.func.min(r.stream)).where((r.flow == flow) & (r.side == side))
        with self._store.transaction() as connection:
            name = connection.execute(wanted).scalar_one()
            while name is not None:
                found.append(name)
                name = connection.execute(wanted.where(r.stream > name)).scalar_one()
        return found

    def bounds(self, flow: str, side: str, stream: str) -> tuple[int, int] | None:
        """Return (after, upto) over all batches of a stream; None without any."""
        r = t.ranges.c
        mine = (r.flow == flow) & (r.side == side) & (r.stream == stream)
        first = sa.select(r.after).where(mine).order_by(r.upto).limit(1)
        last = sa.select(r.upto).where(mine).order_by(r.upto.desc()).limit(1)
        with self._store.transaction() as connection:
            after, upto = (connection.execute(query).scalar_one_or_none() for query in (first, last))
        return None if after is None or upto is None else (after, upto)

    def first_where(self, flow: str, stream: str, reached: Callable[[Offset], bool]) -> int | None:
        """Return the end of the first range whose end offset has "reached" something, by a binary search.

        Args:
            flow: flow name.
            stream: log.
            reached: grows from False to True along the log.
        """
        r = t.ranges.c
        mine = (r.flow == flow) & (r.side == SOURCE) & (r.stream == stream)
        at = sa.select(r.upto, r.batch).where(mine).order_by(r.upto)
        with self._store.transaction() as connection:
            low, high = 0, connection.execute(sa.select(sa.func.count()).select_from(t.ranges).where(mine)).scalar_one()
            found: int | None = None
            while low < high:
                middle = (low + high) // 2
                upto, batch = connection.execute(at.limit(1).offset(middle)).one()
                end = connection.execute(sa.select(t.batches.c.range_end).where(t.batches.c.id == batch)).scalar_one()
                if reached(offset_from_json(end)):
                    found, high = upto, middle
                else:
                    low = middle + 1
        return found

    def held(self, flow: str, event_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return what the quarantine holds of some events."""
        q = t.quarantine.c
        wanted = sa.select(q.event_id, q.stage, q.cause, q.batch, q.last_held_at, q.table_name, q.key)
        with self._store.transaction() as connection:
            rows = connection.execute(wanted.where((q.flow == flow) & q.event_id.in_(event_ids[:500]))).mappings()
            return [dict(row) for row in rows]

    def outputs(self, flow: str) -> dict[str, set[str]]:
        """Return sink → outputs of the flow's newest batches."""
        found: dict[str, set[str]] = {}
        for record in self._reports.newest(flow, _MOST):
            for receipt in record.receipts:
                found.setdefault(receipt["sink"], set()).update(name for name in receipt["outputs"] if name)
        return found

    def _containing(self, flow: str, side: str, stream: str, number: int) -> list[BatchRecord]:
        r = t.ranges.c
        mine = (r.flow == flow) & (r.side == side) & (r.stream == stream) & (r.upto >= number) & (r.after < number)
        with self._store.transaction() as connection:
            found = list(connection.execute(sa.select(r.batch).where(mine).order_by(r.upto).limit(_MOST)).scalars())
        return self._reports.by_number(found)
