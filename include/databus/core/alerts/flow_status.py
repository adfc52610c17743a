"""Flow status at one moment, from outside any run: the figures that alerts judge and metrics show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from databus.core.positions.gaps import Gap
from databus.core.positions.lag import Headroom, PartitionLag
from databus.core.state.snapshot_progress import SnapshotProgress


@dataclass(frozen=True)
class FlowFigures:
    """A flow as seen at one moment; what could not be measured is None.

    Attributes:
        flow: flow name.
        at: when it was looked at, aware UTC.
        committed: committed offset of the sink furthest behind, in text form; "" before the first run.
        head: head of the source's log in text form.
        lag_seconds: age of the oldest change not committed.
        lag_bytes: log bytes not committed.
        lag_rows: rows not committed, estimated by the bytes that a row took in the newest batches.
        partitions: lag of each topic-partition, of a source that has some.
        headroom: how long the source's server keeps what the flow needs next.
        gaps: gaps before which the flow stops.
        quarantine_rows: rows that checks hold back and that are not settled.
        quarantine_new: rows that checks held back for the first time in the rule's last minutes.
        rejected: sink → rows that it refused, while any of them are new or not settled; None where it is not known.
        committed_at: when the checkpoint last moved.
        last_run_at: when a run last held the lease: now while one does; None before the first.
        window_seconds: how long the present holder has had the lease; None while nobody does.
        paused: who paused it and why; "" while it may run.
        behind: sinks that fell behind.
        missing_tables: names and patterns of the flow, and topics that it has read, that are not there any more; those
            that may still come are left out. None where it is not known.
        snapshot: how far the flow's last snapshot has come; None before the first.
        epoch: number of claims so far.
        batch: last committed batch.
        run_id: run that holds the lease, else the one that committed last.
        run_url: address of its page, "" when unknown.
        committed_run: run that committed the newest batch of the records.
        committed_url: address of its page.
        plan_range: range in flight; "" when there is none.
        quality_run: run whose quality was evaluated last; "" before the first.
        quality_passed: whether it passed.
        quality_violations: rows or values that violated a check in it.
        quality_url: address of its page.
        quality_range: range that it moved; "" when it moved nothing.
        quarantine_range: range of the batches that held back the new rows; "" without any.
        quarantine_run: run of the last of these batches.
        quarantine_url: address of its page.
        unreachable: what did not answer ("source", "checkpoint store", "records") → the error's text.
        recent: figures of the newest batches, see `databus.records.activity`.
    """

    flow: str
    at: datetime
    committed: str = ""
    head: str = ""
    lag_seconds: float | None = None
    lag_bytes: int | None = None
    lag_rows: int | None = None
    partitions: tuple[PartitionLag, ...] = ()
    headroom: Headroom | None = None
    gaps: tuple[Gap, ...] | None = None
    quarantine_rows: int | None = None
    quarantine_new: int | None = None
    rejected: Mapping[str, RejectedRows] | None = None
    committed_at: datetime | None = None
    last_run_at: datetime | None = None
    window_seconds: float | None = None
    paused: str = ""
    behind: tuple[str, ...] | None = None
    missing_tables: tuple[str, ...] | None = None
    snapshot: SnapshotProgress | None = None
    epoch: int | None = None
    batch: int | None = None
    run_id: str = ""
    run_url: str = ""
    committed_run: str = ""
    committed_url: str = ""
    plan_range: str = ""
    quality_run: str = ""
    quality_passed: bool | None = None
    quality_violations: int | None = None
    quality_url: str = ""
    quality_range: str = ""
    quarantine_range: str = ""
    quarantine_run: str = ""
    quarantine_url: str = ""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    recent: RecentBatches | None = None

    @property
    def open_range(self) -> str:
        """The range between checkpoint and head, in text form."""
        return f"({self.committed}, {self.head}]" if self.committed and self.head else ""


@dataclass(frozen=True)
class RejectedRows:
    """Rows that one sink refused; they are in quarantine, and not in the sink.

    Attributes:
        new: rows refused for the first time in the rule's last minutes.
        held: rows that are not settled: neither replayed nor discarded.
        run_id: run of the last batch with new ones, "" without any.
        run_url: address of its page.
        range: range of the batches with new ones; "" without any.
    """

    new: int
    held: int
    run_id: str = ""
    run_url: str = ""
    range: str = ""


@dataclass(frozen=True)
class RecentBatches:
    """Sums over the newest batches of a flow.

    Attributes:
        batches: how many were looked at.
        rows: rows read by them.
        bytes: log bytes read by them.
        seconds: from the first one's commit to the last one's.
        delay_seconds: quantile ("0.5", "0.95", "0.99") → seconds from the commit at the source of a batch's newest row
            to the batch's commit, weighted by rows; empty when no batch has a watermark.
        stage_seconds: stage → mean wall time of a batch in it.
        handover_seconds: mean time from one run's last commit to the next run's first, where both follow within two
            minutes; None without such a pair.
    """

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    delay_seconds: Mapping[str, float] = field(default_factory=dict)
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    handover_seconds: float | None = None
