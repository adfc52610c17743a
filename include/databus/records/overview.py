"""Overview of all flows by the records: the newest batch of each, what it moved lately, and rows that are held back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from databus.core.batches.receipts import CHECK
from databus.core.state.snapshot_progress import SnapshotProgress
from databus.records import tables as t
from databus.records.definitions import Definition
from databus.records.flow_figures import Window, epoch_of
from databus.records.quarantine.held_row import HeldState, in_state, with_decisions
from databus.records.store import RecordStore

LATELY = timedelta(minutes=5)
"""Batches of so long are counted for the rows per second."""

_LOOKED_AT = 100_000
"""Newest batches of all flows that are looked at for that: more than 300 live flows commit in LATELY."""

_PIECE = "."
"""In the names of a backfill's pieces, and in no flow's: their batches stand with the backfill's DAG."""


@dataclass(frozen=True)
class FlowOverview:
    """Overview of one flow.

    Attributes:
        flow: flow name.
        batch: number of its newest batch.
        mode: mode in which that ran.
        rows: rows of that batch.
        seconds: time that its stages took.
        committed_at: when it was committed, aware UTC.
        watermark: commit time at the source up to which it moved rows; None when unknown.
        run_id: run that moved it.
        run_url: address of the run's page, "" when unknown.
        lost: why a part of the batch's range, which it passed over, is gone; "" where nothing is.
        snapshot: how far the snapshot was behind it; None without.
        recent_rows: rows of the batches of LATELY.
        gaps_passed: batches of LATELY that passed over a gap.
        held: stage ("check" or a sink's name) → rows that are held back and not settled.
    """

    flow: str
    batch: int
    mode: str
    rows: int
    seconds: float
    committed_at: datetime
    watermark: datetime | None
    run_id: str
    run_url: str
    lost: str = ""
    snapshot: SnapshotProgress | None = None
    recent_rows: int = 0
    gaps_passed: int = 0
    held: Mapping[str, int] = field(default_factory=dict)

    @property
    def held_rows(self) -> int:
        """Rows that checks hold back."""
        return self.held.get(CHECK, 0)

    @property
    def refused_rows(self) -> int:
        """Rows that sinks refused."""
        return sum(rows for stage, rows in self.held.items() if stage != CHECK)


def overview(store: RecordStore, now: datetime) -> list[FlowOverview]:
    """Return the overview of each flow that has moved a batch, by name; three queries, whatever their number.

    Raises:
        RecordingError: the database refuses or cannot be reached.
    """
    with store.transaction() as connection:
        newest = connection.execute(_newest()).all()
        lately = {flow: (int(rows), int(gaps)) for flow, rows, gaps in connection.execute(_lately(now))}
        held: dict[str, dict[str, int]] = {}
        for flow, stage, rows in connection.execute(_held()):
            held.setdefault(flow, {})[stage] = int(rows)
    return [_of(row, *lately.get(row.flow, (0, 0)), held.get(row.flow, {})) for row in newest]


def _of(row: Any, recent_rows: int, gaps: int, held: Mapping[str, int]) -> FlowOverview:
    return FlowOverview(
        row.flow,
        row.batch,
        row.mode,
        row.rows,
        sum(row.durations_ms.values()) / 1000,
        row.committed_at,
        row.watermark,
        row.run_id,
        row.run_url,
        row.lost or "",
        SnapshotProgress.from_json(row.snapshot_progress) if row.snapshot_progress else None,
        recent_rows,
        gaps,
        held,
    )


def _newest() -> sa.Select[Any]:
    b, r = t.batches.c, t.runs.c
    numbers = sa.select(sa.func.max(b.id)).where(~b.flow.contains(_PIECE, autoescape=True)).group_by(b.flow)
    columns = (
        b.flow, b.batch, b.mode, b.rows, b.durations_ms, b.committed_at, b.watermark, b.lost, b.snapshot_progress,
        r.run_id, r.run_url,
    )  # fmt: skip
    return sa.select(*columns).join(t.runs, b.run == r.id).where(b.id.in_(numbers)).order_by(b.flow)


def _lately(now: datetime) -> sa.Select[Any]:
    b = t.batches.c
    newest = sa.select(sa.func.max(b.id)).scalar_subquery()
    gaps = sa.func.sum(sa.case((b.lost.is_not(None), 1), else_=0))
    return (
        sa.select(b.flow, sa.func.sum(b.rows), gaps)
        .where(b.id > newest - _LOOKED_AT, b.committed_at >= now - LATELY)
        .group_by(b.flow)
    )


def _held() -> sa.Select[Any]:
    q = t.quarantine.c
    return (
        sa.select(q.flow, q.stage, sa.func.count())
        .select_from(with_decisions())
        .where(*in_state(HeldState.HELD))
        .group_by(q.flow, q.stage)
    )


HOUR = Window(timedelta(seconds=90), 40)
"""Spans of the last hour."""


@dataclass(frozen=True)
class RecentDelay:
    """Delays of one flow.

    Attributes:
        flow: flow name.
        dag_id: its DAG.
        delays: seconds from a row's commit to its batch's own, by span, oldest first; None where no batch with a known
            watermark was the newest of the span.
    """

    flow: str
    dag_id: str
    delays: tuple[float | None, ...]


def recent_delays(store: RecordStore, readable: Collection[str], now: datetime) -> tuple[datetime, list[RecentDelay]]:
    """Return where the first span begins, and the delays of each flow that is recorded; two statements.

    Args:
        store: the records.
        readable: ids of the DAGs whose flows are asked for.
        now: aware UTC.

    Raises:
        RecordingError: the database refuses or cannot be reached.
    """
    start, d = HOUR.start(now), t.definitions.c
    newest = sa.select(d.flow, d.dag).where(d.id.in_(sa.select(sa.func.max(d.id)).group_by(d.flow))).order_by(d.flow)
    with store.transaction() as connection:
        known = {flow: Definition(flow, dag, 0, now, {}).dag_id for flow, dag in connection.execute(newest)}
        wanted = {flow: dag for flow, dag in known.items() if dag in readable}
        rows = connection.execute(_delays(store, wanted, start)).all() if wanted else []
    found: dict[str, list[float | None]] = {flow: [None] * HOUR.count for flow in wanted}
    for flow, span, delay in rows:
        found[flow][int(span)] = None if delay is None else max(0.0, round(float(delay), 3))
    return start, [RecentDelay(flow, dag, tuple(found[flow])) for flow, dag in wanted.items()]


def _delays(store: RecordStore, flows: Collection[str], start: datetime) -> sa.Select[Any]:
    b, seconds = t.batches.c, epoch_of(store)
    named = sa.select(t.definitions.c.flow).where(t.definitions.c.flow.in_(sorted(flows))).distinct().cte("named")
    at = t.batches.c.committed_at.type
    spans = sa.union_all(
        *(
            sa.select(
                sa.literal(number, sa.Integer).label("number"),
                sa.literal(start + number * HOUR.width, at).label("since"),
                sa.literal(start + (number + 1) * HOUR.width, at).label("until"),
            )
            for number in range(HOUR.count)
        )
    ).cte("spans")
    newest = (
        sa.select(seconds(b.committed_at) - seconds(b.watermark))
        .where(b.flow == named.c.flow, b.committed_at >= spans.c.since, b.committed_at < spans.c.until)
        .order_by(b.committed_at.desc())
        .limit(1)
        .correlate(named, spans)
        .scalar_subquery()
    )
    return sa.select(named.c.flow, spans.c.number, newest).select_from(named.join(spans, sa.true()))


def delays_view(store: RecordStore, readable: Collection[str]) -> dict[str, Any]:
    """Return plain JSON: when it was asked, where the spans begin, their seconds, and by flow its delays.

    Raises:
        RecordingError: the records cannot be read.
    """
    now = datetime.now(UTC)
    start, found = recent_delays(store, readable, now)
    return {
        "as_of": now.isoformat(),
        "from": start.isoformat(),
        "width_seconds": HOUR.width.total_seconds(),
        "delays": {one.flow: list(one.delays) for one in found},
    }
