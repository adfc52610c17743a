"""Window result, and how far behind the flow was when it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from databus.core.batches.counts import SinkCounts, TableCounts, state_of
from databus.core.batches.report import BatchReport
from databus.core.positions.lag import Headroom, eta_s
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.plan import LostRange
from databus.runtime.check import NO_EVENT, PARTITION_DDL

_MOST_TOLD = 10
"""Batches of a window whose statements without row events the summary repeats, of each table."""


@dataclass
class WindowResult:
    """Window result.

    Attributes:
        flow: flow name.
        batches: number of committed batches.
        rows: rows read; always filtered + quarantined + dispatched + superseded, as `TableCounts` counts them.
        bytes: log bytes read.
        filtered: rows that a filter left out, or that no sink takes.
        quarantined: rows held back by a check or refused by at least one sink, each counted once.
        dispatched: rows that every sink confirmed that takes them, but for sinks behind.
        superseded: rows that a snapshot read, and the log of the same batch had newer.
        snapshot: rows read that a snapshot brought.
        checkpoint: where it stands now.
        drained: a stop was asked for.
        paused: who paused the flow, and why, when that ended the window; else "".
        tables: rows read by table.
        sinks: sink → rows that it confirmed and refused, and statements apart from them, also of batches of its own
            while it was behind.
        behind: sink that fell behind → where it stands.
        caught_up: sink that was behind → rows it was given meanwhile.
        lag_bytes: log bytes behind the head when the window ended, None when unknown.
        lag_s: age of the oldest uncommitted change then, None when unknown.
        headroom: how long the source's server then still keeps what the flow needs next, None when unknown.
        seconds: what the batches took.
        missing_tables: names and patterns of the source that no table, or topic, matched when that was last looked at.
        unlogged: table → what was found in each batch of statements that change its rows without row events, such as
            ALTER TABLE … DROP PARTITION, with their places: sinks keep the rows that these took away.
        through_spark: table → its rows that went through Spark, and not by the direct or live lane.
        lost: ranges that committed batches passed over unread, by the source's own policy, each once.
    """

    flow: str
    checkpoint: Checkpoint
    batches: int = 0
    rows: int = 0
    bytes: int = 0
    filtered: int = 0
    quarantined: int = 0
    dispatched: int = 0
    superseded: int = 0
    snapshot: int = 0
    drained: bool = False
    paused: str = ""
    tables: dict[str, int] = field(default_factory=dict)
    sinks: dict[str, SinkCounts] = field(default_factory=dict)
    behind: dict[str, str] = field(default_factory=dict)
    caught_up: dict[str, int] = field(default_factory=dict)
    lag_bytes: int | None = None
    lag_s: float | None = None
    headroom: Headroom | None = None
    seconds: float = 0.0
    missing_tables: tuple[str, ...] = ()
    unlogged: dict[str, list[str]] = field(default_factory=dict)
    through_spark: dict[str, int] = field(default_factory=dict)
    lost: list[LostRange] = field(default_factory=list)

    @property
    def counts(self) -> TableCounts:
        """Rows over all tables by where they ended."""
        return TableCounts(self.rows, self.filtered, self.quarantined, self.dispatched, self.superseded, self.snapshot)

    @property
    def eta_s(self) -> float | None:
        """Seconds in which the rest is moved at this window's rate, None when unknown."""
        return eta_s(self.lag_bytes, self.bytes, self.seconds)

    @property
    def state(self) -> str:
        """State, the worst first: rows "lost" to a gap, "rejected" by a sink, "quarantined" by checks, else "ok"."""
        return state_of(self.sinks.values(), self.quarantined, len(self.lost))

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain JSON."""
        return {
            "flow": self.flow,
            "state": self.state,
            "batches": self.batches,
            "rows": self.rows,
            "filtered": self.filtered,
            "quarantined": self.quarantined,
            "dispatched": self.dispatched,
            **{name: rows for name, rows in self.counts.figures.items() if name in ("superseded", "snapshot")},
            "bytes": self.bytes,
            "tables": dict(self.tables),
            **({"through_spark": dict(self.through_spark)} if self.through_spark else {}),
            "sinks": {name: counts.to_json() for name, counts in sorted(self.sinks.items())},
            "offset": str(self.checkpoint.offset),
            "batch": self.checkpoint.batch,
            "lag_bytes": self.lag_bytes,
            "lag_seconds": self.lag_s,
            "eta_seconds": self.eta_s,
            "headroom_seconds": self.headroom.seconds if self.headroom else None,
            "headroom_bytes": self.headroom.bytes if self.headroom else None,
            "drained": self.drained,
            "paused": self.paused,
            "pace": dict(self.checkpoint.pace),
            "sinks_behind": dict(self.behind),
            "sinks_caught_up": dict(self.caught_up),
            "gaps_passed": [lost.why for lost in self.lost],
            "missing_tables": list(self.missing_tables),
            "changed_without_row_events": {table: _told(found) for table, found in sorted(self.unlogged.items())},
        }

    def add(self, report: BatchReport) -> None:
        """Count a committed batch in."""
        self.batches += 1
        self.rows += report.rows
        self.bytes += report.bytes
        self.seconds += sum(report.durations_ms.values()) / 1000
        for table, counts in report.tables.items():
            self.tables[table] = self.tables.get(table, 0) + counts.read
            self.filtered += counts.filtered
            self.quarantined += counts.quarantined
            self.dispatched += counts.dispatched
            self.superseded += counts.superseded
            self.snapshot += counts.snapshot
            if table in report.through_spark:
                self.through_spark[table] = self.through_spark.get(table, 0) + counts.read - counts.superseded
        for result in report.checks:
            if result.kind == PARTITION_DDL:
                self.unlogged.setdefault(result.table, []).append(result.observed.removeprefix(NO_EVENT))
        self._count(report)

    def add_of_sink(self, sink: str, report: BatchReport) -> None:
        """Count a batch in that a sink behind has committed; its rows were counted when the others took them."""
        self.batches += 1
        given = sum(rows for receipt in report.receipts for rows in receipt.rows.values())
        self.caught_up[sink] = self.caught_up.get(sink, 0) + given
        self._count(report)

    def _count(self, report: BatchReport) -> None:
        # A sink behind passes over the same range as the others before it.
        if report.lost is not None and report.lost.range not in [known.range for known in self.lost]:
            self.lost.append(report.lost)
        for receipt in report.receipts:
            taken = SinkCounts.of(receipt.rows, len(receipt.rejected), receipt.outputs)
            self.sinks[receipt.sink] = self.sinks.get(receipt.sink, SinkCounts()).plus(taken)


def _told(found: list[str]) -> list[str]:
    more = len(found) - _MOST_TOLD
    return [*found[:_MOST_TOLD], *([f"and those of {more} more batches"] if more > 0 else [])]
