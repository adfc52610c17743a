"""Hand-overs from run to run and the time of each stage, from the records of measured flows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from databus.bench.turns import SHARES, percentile
from databus.records import tables as t
from databus.records.store import RecordStore


@dataclass(frozen=True)
class BatchSpan:
    """Batches of a span of time.

    Attributes:
        batches: how many.
        rows: rows of them.
        gaps_s: of each hand-over: seconds from the last commit of a run to the first of the next; by flow.
        at: of each hand-over: when the next run's first commit was, seconds since the epoch; by flow.
        stages_ms: stage → milliseconds of each batch that had rows, ascending.
    """

    batches: int
    rows: int
    gaps_s: Mapping[str, Sequence[float]]
    at: Mapping[str, Sequence[float]]
    stages_ms: Mapping[str, Sequence[float]]

    @property
    def handovers(self) -> int:
        """The smallest number of hand-overs that a flow had."""
        return min((len(gaps) for gaps in self.gaps_s.values()), default=0)

    def figures(self) -> dict[str, float]:
        """Return the number of hand-overs of each flow at least, and how long they took."""
        gaps = sorted(gap for found in self.gaps_s.values() for gap in found)
        found: dict[str, float] = {"handovers": self.handovers}
        if gaps:
            found |= {"handover_p50_s": percentile(gaps, 0.5), "handover_max_s": gaps[-1]}
        return found

    def stages(self) -> dict[str, dict[str, float]]:
        """Return stage → p50, p95, p99 and maximum in milliseconds."""
        return {
            stage: {**{name: round(percentile(spent, share), 1) for name, share in SHARES.items()}, "max": spent[-1]}
            for stage, spent in self.stages_ms.items()
        }


def told(records_url: str, flows: Sequence[str], spans: Sequence[tuple[float, float]]) -> BatchSpan:
    """Return what the records show of flows in spans of time (seconds since the epoch)."""
    b = t.batches.c
    wanted = sa.select(b.flow, b.committed_at, b.rows, b.durations_ms, t.runs.c.run_id).join(
        t.runs, b.run == t.runs.c.id
    )
    with RecordStore(records_url) as store, store.transaction() as connection:
        found = connection.execute(wanted.where(b.flow.in_(flows)).order_by(b.id)).all()
    by_flow: dict[str, list[list[Any]]] = {flow: [[] for _ in spans] for flow in flows}
    for row in found:
        for number, (begin, end) in enumerate(spans):
            if begin <= row.committed_at.timestamp() <= end:
                by_flow[row.flow][number].append(row)
    stages: dict[str, list[float]] = defaultdict(list)
    gaps: dict[str, list[float]] = {flow: [] for flow in flows}
    at: dict[str, list[float]] = {flow: [] for flow in flows}
    for flow, parts in by_flow.items():
        for rows in parts:
            for before, after in pairwise(rows):
                if before.run_id != after.run_id:
                    gaps[flow].append((after.committed_at - before.committed_at).total_seconds())
                    at[flow].append(after.committed_at.timestamp())
    every = [row for parts in by_flow.values() for rows in parts for row in rows]
    for row in every:
        for stage, spent_ms in row.durations_ms.items() if row.rows else ():
            stages[stage].append(spent_ms)
    return BatchSpan(
        len(every), sum(row.rows for row in every), gaps, at, {stage: sorted(spent) for stage, spent in stages.items()}
    )
