"""Batch record: what is stored of one batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from databus.core.batches.counts import TableCounts
from databus.core.positions.offsets import Offset, offset_from_json
from databus.core.state.snapshot_progress import SnapshotProgress

if TYPE_CHECKING:
    from datetime import datetime

    from databus.core.batches.report import CheckResult

Row = Mapping[str, Any]

COUNTED = tuple(field.name for field in fields(TableCounts))
"""Columns of `databus_table_counts` in the order of a `TableCounts`; those that came later are NULL for none."""


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
        start: start of its range, exclusive; of many partitions, of those that it moved (`offset_ranges.moved_part`).
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
        lost: why a part of its range, which it passed over, is gone; "" where nothing is.
        snapshot: how far the snapshot was behind the batch, which took chunks of it along; None without.
        first_batch: number of the first of several batches that were merged, the last of which is `batch`; else None.
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
    lost: str = ""
    snapshot: SnapshotProgress | None = None
    first_batch: int | None = None

    @property
    def merged(self) -> str:
        """Merge note: what is not kept any more of several batches that were merged; "" for one."""
        if self.first_batch is None:
            return ""
        return f"batches {self.first_batch}–{self.batch} were merged: which of them it was is not known any more"

    @property
    def rows(self) -> int:
        """Rows read."""
        return sum(counts.read for counts in self.tables.values())


def batch_record(row: Row, counts: Iterable[Row], receipts: Iterable[Row], checks: Iterable[Row]) -> BatchRecord:
    """Make a record of rows as their columns are named, JSON and times decoded.

    Args:
        row: of the batch, with `run_id` and `run_url` of its run.
        counts: its counts by table.
        receipts: its receipts.
        checks: results of its checks.
    """
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
        lost=row["lost"] or "",
        snapshot=SnapshotProgress.from_json(row["snapshot_progress"]) if row["snapshot_progress"] else None,
        first_batch=row["first_batch"],
        tables={c["table_name"]: TableCounts(*(c[name] or 0 for name in COUNTED)) for c in counts},
        receipts=tuple({name: value for name, value in r.items() if name not in ("id", "batch")} for r in receipts),
        checks=tuple(_check(c) for c in checks),
    )


def counts_row(table: str, counts: TableCounts) -> dict[str, Any]:
    """Return the row of `databus_table_counts` that stores a table's counts, without its batch."""
    values = asdict(counts)
    later = {name: values.pop(name) or None for name in ("superseded", "snapshot")}
    return {"table_name": table, **values, **later}


def _check(row: Row) -> CheckResult:
    from databus.core.batches.report import CheckResult  # a look-up of batches without checks needs nothing of a run

    return CheckResult(
        row["check_name"],
        row["kind"],
        row["column_name"],
        row["table_name"],
        row["severity"],
        row["evaluated"],
        row["violations"],
        row["observed"],
    )
