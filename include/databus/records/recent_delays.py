"""Delays of all flows over the last hour: of the newest batch in each of forty spans of time.

One look-up in an index per flow and span, so that a live flow's thousands of batches cost what a quiet flow's one does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from databus.records import tables as t
from databus.records.definitions import Definition
from databus.records.flow_figures import Window, epoch_of
from databus.records.store import RecordStore

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
