"""Reports made of history entries: of a commit whose own is missing, and of several that were merged into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from databus.core.errors.batch import RecordingError
from databus.core.positions.offset_ranges import moved_part
from databus.core.positions.offsets import OffsetRange
from databus.core.state.checkpoint import HistoryEntry
from databus.records import tables as t
from databus.records.batch_record import BatchRecord, counts_row
from databus.records.ranges import ranges_of_batch


def put_reports(
    connection: sa.Connection, flow: str, entries: Sequence[tuple[HistoryEntry, Mapping[str, Any]]]
) -> None:
    """Insert reports of what entries hold, with what hangs on them.

    Args:
        connection: in a transaction.
        flow: flow name.
        entries: commits, each with the columns of its report that it does not hold, by name; its run among them.

    Raises:
        RecordingError: an entry is no commit of a range.
    """
    if not entries:
        return
    rows = [{**_report_row(flow, entry), **known} for entry, known in entries]
    insert = t.batches.insert().returning(t.batches.c.id, sort_by_parameter_order=True)
    numbers = connection.execute(insert, rows).scalars().all()
    children: dict[sa.Table, list[dict[str, Any]]] = {}
    for number, (entry, _) in zip(numbers, entries, strict=True):
        for table, of_entry in _report_children(flow, entry):
            children.setdefault(table, []).extend({**child, "batch": number} for child in of_entry)
    for table, of_all in children.items():
        if of_all:
            connection.execute(table.insert(), of_all)


def tell_lost(connection: sa.Connection, report: BatchRecord) -> None:
    """Store what a batch passed over in the report that was filled in of it: no entry shows that, a named gap does."""
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
    counts = [counts_row(name, counts) for name, counts in sorted(entry.counts.items())]
    kept = {"slot": 0, "written": 0, "rejected": 0, "duplicate": False, "rows": {}, "outputs": {}}
    receipts = [{"sink": r["sink"], **{name: r.get(name, kept[name]) for name in kept}} for r in entry.receipts]
    covered = moved_part(OffsetRange(entry.previous or entry.offset, entry.offset))
    ranges = ranges_of_batch(covered.start.to_json(), covered.end.to_json(), [r["outputs"] for r in receipts])
    return [(t.table_counts, counts), (t.receipts, receipts), (t.ranges, [{"flow": flow, **row} for row in ranges])]
