"""Reading what batches did: batches of a run, the newest batch of each flow, the sum of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from databus.core.counts import TableCounts
from databus.core.offsets import Offset, offset_from_json
from databus.core.receipts import RejectedRow
from databus.core.report import CheckResult
from databus.records import tables as t
from databus.records.store import RecordStore


@dataclass(frozen=True)
class BatchRecord:
    """A stored batch report.

    Attributes:
        flow: flow name.
        batch: batch number.
        run_id: run that committed it.
        run_url: address of the run's page, "" when unknown.
        plan_hash: hash of its plan.
        mode: "live" or "replay".
        epoch: epoch that committed it.
        attempt: 1, or more when the plan was found unfinished.
        start: start of its range, exclusive.
        end: end of its range, inclusive.
        bytes: log bytes of the range.
        durations_ms: stage → milliseconds.
        watermark: running maximum of commit time at its end, None when unknown.
        committed_at: when it was committed.
        tables: counts by table.
        receipts: receipts in JSON, as `WriteReceipt.to_json` gives them, without the batch number.
        checks: results of its checks.
        refilled: filled in from history after a kill: durations and checks are not known.
        spec_hash: hash of the flow's definition and the code's version; "" when refilled.
        code_version: version of this package that moved it; "" when not known.
    """

    flow: str
    batch: int
    run_id: str
    run_url: str
    plan_hash: str
    mode: str
    epoch: int
    attempt: int
    start: Offset
    end: Offset
    bytes: int
    durations_ms: Mapping[str, float]
    watermark: datetime | None
    committed_at: datetime
    tables: Mapping[str, TableCounts] = field(default_factory=dict)
    receipts: tuple[Mapping[str, Any], ...] = ()
    checks: tuple[CheckResult, ...] = ()
    refilled: bool = False
    spec_hash: str = ""
    code_version: str = ""

    @property
    def rows(self) -> int:
        """Rows read."""
        return sum(counts.read for counts in self.tables.values())


class Reports:
    """Queries on a records store.

    All methods raise RecordingError when the database refuses or cannot be reached.

    Args:
        store: the records store; the caller closes it.
    """

    def __init__(self, store: RecordStore) -> None:
        self.store = store

    def batches(self, flow: str, run_id: str) -> list[BatchRecord]:
        """Return the batches of a run in the order of their commits; none for an idle or unknown run."""
        return self._select((t.batches.c.flow == flow) & (t.runs.c.run_id == run_id))

    def by_number(self, numbers: Sequence[int]) -> list[BatchRecord]:
        """Return batches by the numbers of their rows, oldest first."""
        return self._select(t.batches.c.id.in_(numbers)) if numbers else []

    def newest(self, flow: str, last: int = 1) -> list[BatchRecord]:
        """Return the newest batches of a flow, newest first."""
        found = sa.select(t.batches.c.id).where(t.batches.c.flow == flow).order_by(t.batches.c.id.desc()).limit(last)
        return self._select(t.batches.c.id.in_(found))[::-1]

    def newest_of_each_flow(self) -> dict[str, BatchRecord]:
        """Return the newest batch of every flow."""
        found = sa.select(sa.func.max(t.batches.c.id)).group_by(t.batches.c.flow)
        return {record.flow: record for record in self._select(t.batches.c.id.in_(found))}

    def quarantined(self, flow: str, limit: int = 1000) -> list[RejectedRow]:
        """Return rows held back, those last held back first."""
        q = t.quarantine.c
        wanted = sa.select(q.event_id, q.table_name, q.key, q.cause, q.stage, q.position, q.payload)
        ordered = wanted.where(q.flow == flow).order_by(q.last_held_at.desc(), q.id.desc()).limit(limit)
        with self.store.transaction() as connection:
            return [RejectedRow(*row) for row in connection.execute(ordered)]

    def quality(self, flow: str, run_id: str) -> dict[str, Any] | None:
        """Return the Great Expectations result of a run as JSON, None when it has not been evaluated."""
        q = t.quality_results.c
        with self.store.transaction() as connection:
            found: dict[str, Any] | None = connection.execute(
                sa.select(q.result).where((q.flow == flow) & (q.run_id == run_id))
            ).scalar_one_or_none()
        return found

    def _select(self, condition: sa.ColumnElement[bool]) -> list[BatchRecord]:
        joined = sa.select(t.batches, t.runs.c.run_id, t.runs.c.run_url).join(t.runs, t.batches.c.run == t.runs.c.id)
        with self.store.transaction() as connection:
            rows = connection.execute(joined.where(condition).order_by(t.batches.c.id)).mappings().all()
            numbers = [row["id"] for row in rows]
            children = {
                table.name: _by_batch(connection, table, numbers)
                for table in (t.table_counts, t.receipts, t.check_results)
            }
        return [
            _record(dict(row), {name: found.get(row["id"], ()) for name, found in children.items()}) for row in rows
        ]


def quarantined(records_url: str, flow: str) -> list[RejectedRow]:
    """Return a flow's rows held back from the store at `records_url`; see `Reports.quarantined`."""
    with RecordStore(records_url) as store:
        return Reports(store).quarantined(flow)


_CHUNK = 500
"""Numbers per IN list."""


def _by_batch(connection: sa.Connection, table: sa.Table, numbers: Sequence[int]) -> dict[int, list[Mapping[str, Any]]]:
    found: dict[int, list[Mapping[str, Any]]] = {}
    for first in range(0, len(numbers), _CHUNK):
        wanted = sa.select(table).where(table.c.batch.in_(numbers[first : first + _CHUNK])).order_by(table.c.id)
        for row in connection.execute(wanted).mappings():
            found.setdefault(row["batch"], []).append(dict(row))
    return found


def _record(row: Mapping[str, Any], children: Mapping[str, Iterable[Mapping[str, Any]]]) -> BatchRecord:
    return BatchRecord(
        flow=row["flow"],
        batch=row["batch"],
        run_id=row["run_id"],
        run_url=row["run_url"],
        plan_hash=row["plan_hash"],
        mode=row["mode"],
        spec_hash=row["spec_hash"],
        code_version=row["code_version"],
        epoch=row["epoch"],
        attempt=row["attempt"],
        start=offset_from_json(row["range_start"]),
        end=offset_from_json(row["range_end"]),
        bytes=row["bytes"],
        durations_ms=row["durations_ms"],
        watermark=row["watermark"],
        committed_at=row["committed_at"],
        refilled=row["refilled"],
        tables={
            c["table_name"]: TableCounts(c["read"], c["filtered"], c["quarantined"], c["dispatched"])
            for c in children[t.table_counts.name]
        },
        receipts=tuple(
            {name: value for name, value in r.items() if name not in ("id", "batch")} for r in children[t.receipts.name]
        ),
        checks=tuple(
            CheckResult(
                c["check_name"],
                c["kind"],
                c["column_name"],
                c["table_name"],
                c["severity"],
                c["evaluated"],
                c["violations"],
                c["observed"],
            )
            for c in children[t.check_results.name]
        ),
    )
