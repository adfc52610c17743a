"""Run search for operators: the range that a run moved, the address of its page, and whether it was audited."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from databus.core.positions.offsets import offset_from_json
from databus.records import tables as t
from databus.records.store import RecordStore


@dataclass(frozen=True)
class RunRange:
    """A run and a range of the log.

    Attributes:
        run_id: run id, "" when unknown.
        run_url: address of its page, "" when unknown.
        range: in text form; "" when it moved nothing.
    """

    run_id: str = ""
    run_url: str = ""
    range: str = ""


def run_range(connection: sa.Connection, flow: str, run_id: str) -> RunRange:
    """Return what a run moved, from its first batch to its last."""
    r, b = t.runs.c, t.batches.c
    run = connection.execute(sa.select(r.id, r.run_url).where((r.flow == flow) & (r.run_id == run_id))).first()
    if run is None:
        return RunRange(run_id)
    mine = sa.select(b.range_start, b.range_end).where(b.run == run.id)
    first, last = (connection.execute(mine.order_by(order).limit(1)).first() for order in (b.id, b.id.desc()))
    return RunRange(run_id, run.run_url, _text(first, last))


def range_of_batches(connection: sa.Connection, flow: str, first: int, last: int) -> RunRange:
    """Return the range from a batch to another, and the run of that one; what is not reported yet stays empty."""
    one, other = _batch(connection, flow, first), _batch(connection, flow, last)
    return RunRange(other.run_id, other.run_url, _text(one, other)) if one and other else RunRange()


def moved_by(store: RecordStore, flow: str, run_id: str) -> RunRange:
    """Return what a run moved.

    Raises:
        RecordingError: the database refuses or cannot be reached.
    """
    with store.transaction() as connection:
        return run_range(connection, flow, run_id)


def audited(store: RecordStore, flow: str, run_ids: Collection[str]) -> set[str]:
    """Return which of these runs were audited: that is the last thing that a run does. Raises as `moved_by`."""
    q = t.quality_results.c
    wanted = sa.select(q.run_id).where((q.flow == flow) & q.run_id.in_(list(run_ids)))
    with store.transaction() as connection:
        return set(connection.execute(wanted).scalars())


def _batch(connection: sa.Connection, flow: str, number: int) -> Any:
    b = t.batches.c
    columns = (b.range_start, b.range_end, t.runs.c.run_id, t.runs.c.run_url)
    wanted = sa.select(*columns).join(t.runs, b.run == t.runs.c.id).where((b.flow == flow) & (b.batch == number))
    return connection.execute(wanted.order_by(b.id.desc()).limit(1)).first()


def _text(first: Any, last: Any) -> str:
    if first is None or last is None:
        return ""
    # Not an OffsetRange: a run may have been set back, or gone on at another server, in between.
    return f"({offset_from_json(first.range_start)}, {offset_from_json(last.range_end)}]"


def run_number(store: RecordStore, connection: sa.Connection, flow: str, run_id: str, run_url: str) -> int:
    """Return the number of a run, made when it is new; a known address is not replaced by none."""
    insert = store.upsert(t.runs, [{"flow": flow, "run_id": run_id, "run_url": run_url}], ("flow", "run_id"), ())
    connection.execute(insert)
    this = (t.runs.c.flow == flow) & (t.runs.c.run_id == run_id)
    if run_url:
        connection.execute(t.runs.update().where(this & (t.runs.c.run_url != run_url)).values(run_url=run_url))
    number: int = connection.execute(sa.select(t.runs.c.id).where(this)).scalar_one()
    return number
