"""Flow activity of late, in a few cheap queries: for alerts and metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from databus.core.alerts.flow_status import RecentBatches, RejectedRows
from databus.core.batches.receipts import CHECK
from databus.records import tables as t
from databus.records.quarantine.held_row import HeldState
from databus.records.quarantine.rows import HeldRows
from databus.records.run_ranges import RunRange, range_of_batches, run_range
from databus.records.store import RecordStore

NEWEST = 500
"""Batches looked at."""
QUANTILES = (0.5, 0.95, 0.99)
_HANDOVER = timedelta(minutes=2)


@dataclass(frozen=True)
class Activity:
    """Activity of a flow by its records.

    Attributes:
        recent: sums over its newest batches.
        run_id: run of the newest batch, "" before the first.
        run_url: address of its page.
        quarantine_rows: rows that checks hold back and that are not settled.
        quarantine_new: rows that checks held back for the first time since a moment.
        held: range of the batches that held those back, and the run of the last one.
        rejected: the same of each sink that refused rows, while any of them are new or not settled.
        quality: run whose quality was evaluated last, and its range; empty before the first.
        quality_passed: whether it passed, None before the first.
        quality_violations: violations in it.
    """

    recent: RecentBatches
    run_id: str
    run_url: str
    quarantine_rows: int
    quarantine_new: int
    held: RunRange
    rejected: Mapping[str, RejectedRows]
    quality: RunRange
    quality_passed: bool | None
    quality_violations: int | None


def activity(store: RecordStore, flow: str, since: datetime) -> Activity:
    """Return what a flow did lately.

    Args:
        store: the records.
        flow: flow name.
        since: from when rows count as newly held back, aware UTC.

    Raises:
        RecordingError: the database refuses or cannot be reached.
    """
    b, q, held = t.batches.c, t.quality_results.c, t.quarantine.c
    columns = (b.committed_at, b.rows, b.bytes, b.watermark, b.durations_ms, t.runs.c.run_id, t.runs.c.run_url)
    newest = sa.select(*columns).join(t.runs, b.run == t.runs.c.id).where(b.flow == flow).order_by(b.id.desc())
    graded = sa.select(q.run_id, q.success, q.violations).where(q.flow == flow).order_by(q.id.desc())
    with store.transaction() as connection:
        batches = connection.execute(newest.limit(NEWEST)).all()[::-1]
        quality = connection.execute(graded.limit(1)).first()
        numbers = held.stage, sa.func.count(), sa.func.min(held.batch), sa.func.max(held.batch)
        fresh = sa.select(*numbers).where((held.flow == flow) & (held.first_held_at >= since)).group_by(held.stage)
        new = {
            stage: (int(rows), range_of_batches(connection, flow, first, last))
            for stage, rows, first, last in connection.execute(fresh).all()
        }
        audited = run_range(connection, flow, quality.run_id) if quality else RunRange()
    last = batches[-1] if batches else None
    kept = HeldRows(store, flow).tally().get(HeldState.HELD, {})
    none = (0, RunRange())
    return Activity(
        recent=summed(batches),
        run_id=last.run_id if last else "",
        run_url=last.run_url if last else "",
        quarantine_rows=kept.get(CHECK, 0),
        quarantine_new=new.get(CHECK, none)[0],
        held=new.get(CHECK, none)[1],
        rejected={
            sink: RejectedRows(rows, kept.get(sink, 0), by.run_id, by.run_url, by.range)
            for sink in sorted({*new, *kept} - {CHECK})
            for rows, by in (new.get(sink, none),)
        },
        quality=audited,
        quality_passed=bool(quality.success) if quality else None,
        quality_violations=int(quality.violations) if quality else None,
    )


def summed(batches: Sequence[Any]) -> RecentBatches:
    """Sum batches up, oldest first; each has committed_at, rows, bytes, watermark, durations_ms and run_id."""
    if not batches:
        return RecentBatches()
    stages: dict[str, list[float]] = defaultdict(list)
    for batch in batches:
        for stage, spent_ms in batch.durations_ms.items():
            stages[stage].append(spent_ms / 1000)
    pairs = pairwise(batches)
    waits = [later.committed_at - one.committed_at for one, later in pairs if one.run_id != later.run_id]
    short = [wait.total_seconds() for wait in waits if wait <= _HANDOVER]
    return RecentBatches(
        batches=len(batches),
        rows=sum(batch.rows for batch in batches),
        bytes=sum(batch.bytes for batch in batches),
        seconds=(batches[-1].committed_at - batches[0].committed_at).total_seconds(),
        delay_seconds=_quantiles(
            [
                (max(0.0, (batch.committed_at - batch.watermark).total_seconds()), batch.rows)
                for batch in batches
                if batch.watermark is not None and batch.rows
            ]
        ),
        stage_seconds={stage: sum(spent) / len(spent) for stage, spent in stages.items()},
        handover_seconds=sum(short) / len(short) if short else None,
    )


def _quantiles(weighted: Sequence[tuple[float, int]]) -> dict[str, float]:
    """Return the smallest value at or below which a share of all weight lies, for each share of QUANTILES."""
    ordered = sorted(weighted)
    total = sum(weight for _, weight in ordered)
    found: dict[str, float] = {}
    for share in QUANTILES if ordered else ():
        below = 0
        for value, weight in ordered:
            below += weight
            if below >= share * total:
                found[f"{share:g}"] = value
                break
    return found
