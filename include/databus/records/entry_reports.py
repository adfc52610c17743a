"""Reports made of history entries: of a commit whose own is missing, and of several that were merged into one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from databus.core.checkpoint import HistoryEntry
from databus.core.errors import RecordingError
from databus.core.offset_ranges import moved_part
from databus.core.offsets import OffsetRange
from databus.records import tables as t
from databus.records.batch_record import BatchRecord
from databus.records.ranges import ranges_of_batch


def put_report(connection: sa.Connection, flow: str, entry: HistoryEntry, known: Mapping[str, Any]) -> None:
    """Insert a report of what an entry tells, with what hangs on it.

    Args:
        connection: in a transaction.
        flow: flow name.
        entry: a commit.
        known: columns of the report that the entry does not tell, by name; its run among them.

    Raises:
        RecordingError: the entry is no commit of a range.
    """
    row = {**_report_row(flow, entry), **known}
    number = connection.execute(t.batches.insert().returning(t.batches.c.id), [row]).scalar_one()
    for table, rows in _report_children(flow, entry):
        if rows:
            connection.execute(table.insert(), [{**child, "batch": number} for child in rows])


def tell_lost(connection: sa.Connection, report: BatchRecord) -> None:
    """Store what a batch passed over in the report that was filled in of it: no entry tells that, a named gap does."""
    b = t.batches.c
    mine = (b.flow == report.flow) & (b.batch == report.batch) & (b.plan_hash == report.plan_hash)
    connection.execute(t.batches.update().where(mine & b.lost.is_(None)).values(lost=report.lost))


def _report_row(flow: str, entry: HistoryEntry) -> dict[str, Any]:
    if entry.previous is None:
        raise RecordingError(f"flow {flow}: entry {entry.number} of the history commits from nowhere")
    covered = moved_part(OffsetRange(entry.previous, entry.offset))
    return {
        "flow": flow,
        "batch": entry.batch,
        "plan_hash": entry.plan_hash,
        "spec_hash": "",
        "mode": "live",
        "epoch": entry.epoch,
        "attempt": 1,
        "range_start": covered.start.to_json(),
        "range_end": covered.end.to_json(),
        "rows": sum(counts.read for counts in entry.counts.values()),
        "bytes": entry.bytes or 0,
        "durations_ms": {},
        "watermark": entry.watermark,
        "committed_at": entry.at,
    }


def _report_children(flow: str, entry: HistoryEntry) -> list[tuple[sa.Table, list[dict[str, Any]]]]:
    counts = [{"table_name": name, **asdict(counts)} for name, counts in sorted(entry.counts.items())]
    kept = {"slot": 0, "written": 0, "rejected": 0, "duplicate": False, "rows": {}, "outputs": {}}
    receipts = [{"sink": r["sink"], **{name: r.get(name, kept[name]) for name in kept}} for r in entry.receipts]
    covered = moved_part(OffsetRange(entry.previous or entry.offset, entry.offset))
    ranges = ranges_of_batch(covered.start.to_json(), covered.end.to_json(), [r["outputs"] for r in receipts])
    return [(t.table_counts, counts), (t.receipts, receipts), (t.ranges, [{"flow": flow, **row} for row in ranges])]
