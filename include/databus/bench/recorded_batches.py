"""Reports of further batches behind a flow's newest one, stored as the path stores them: what months leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from databus import __version__
from databus.core.batches.counts import TableCounts
from databus.core.batches.receipts import WriteReceipt
from databus.core.batches.report import BatchReport
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.checkpoint import Epoch
from databus.core.state.plan import Plan, SinkPlan
from databus.records.batch_record import BatchRecord
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports

_ROW_BYTES = 400
_FILE_BYTES = 1 << 30
_LOOK_BACK = 50
"""Batches among which one is that moved rows."""
_RUN_BATCHES = 600
"""Batches of a run: back to back for a minute."""


def record_batches(url: str, flow: str, changes: int, rows: int) -> int:
    """Record batches of `rows` changes each until there are `changes` more; return how many batches.

    Each change is a transaction of its own: GTIDs, log places and offsets go on where the newest batch ended.
    """
    with SqlRecorder.open(url) as recorder:
        recent = Reports(recorder.store).newest(flow, _LOOK_BACK)
        like = next(batch for batch in recent if batch.tables)
        for report in _reports(replace(like, batch=recent[0].batch, end=recent[0].end), flow, changes // rows, rows):
            recorder.record(report)
    return changes // rows


def _reports(newest: BatchRecord, flow: str, batches: int, rows: int) -> Iterator[BatchReport]:
    end = newest.end
    assert isinstance(end, BinlogOffset)  # noqa: S101 - the bench's own flow
    first = int(end.gtids.rpartition("-")[2].rpartition(":")[2])
    (table,) = newest.tables
    facts = {(r["sink"], name): dict(f) for r in newest.receipts for name, f in r["outputs"].items() if name}
    ends = {place: found["last_offset"] for place, found in facts.items() if "last_offset" in found}
    for number in range(1, batches + 1):
        start, end = end, _further(end, first + number * rows, rows * _ROW_BYTES)
        receipts = []
        for sink in dict.fromkeys(place[0] for place in facts):
            outputs = {name: dict(f) for (owner, name), f in facts.items() if owner == sink}
            for name, told in outputs.items():
                if (sink, name) in ends:
                    before = ends[sink, name] + 1  # the marker that ends a transaction takes an offset
                    ends[sink, name] = before + rows // len(outputs)
                    told |= {
                        "first_offset": before + 1,
                        "last_offset": ends[sink, name],
                        "records": rows // len(outputs),
                    }
            receipts.append(WriteReceipt(sink, 0, newest.batch + number, rows, {table: rows}, (), outputs))
        at = newest.committed_at + timedelta(milliseconds=100 * number)
        plan = Plan(
            "bench",
            flow,
            newest.batch + number,
            OffsetRange(start, end),
            {r.sink: SinkPlan() for r in receipts},
            "s",
            at,
        )
        yield BatchReport(
            plan=plan,
            epoch=Epoch(newest.epoch + number // _RUN_BATCHES),
            run_id=f"recorded__{number // _RUN_BATCHES}",
            run_url="",
            tables={table: TableCounts(rows, 0, 0, rows)},
            receipts=tuple(receipts),
            checks=(),
            rejected=(),
            durations_ms={"plan": 5.0, "dispatch": 60.0, "commit": 10.0, "record": 4.0},
            bytes=rows * _ROW_BYTES,
            watermark=at,
            committed_at=at,
            code_version=__version__,
        )


def _further(end: BinlogOffset, transactions: int, size: int) -> BinlogOffset:
    stem, _, number = end.file.rpartition(".")
    file, position = (int(number), end.pos + size)
    if position > _FILE_BYTES:
        file, position = file + 1, 4 + size
    gtids = f"{end.gtids.rpartition(':')[0]}:1-{transactions}"
    return replace(end, file=f"{stem}.{file:06d}", pos=position, gtids=gtids)
