"""Batch report: results of checks, and the report of a committed batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from databus.core.batches.counts import TableCounts
from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.positions.offsets import OffsetRange
from databus.core.state.checkpoint import Epoch
from databus.core.state.plan import LostRange, Plan
from databus.core.tables.column_lineage import TableLineage

BatchPlan = tuple[int, str]
"""Number of a batch and hash of its plan, "" where that was not kept: a flow that is begun anew, after its checkpoint
was lost, gives numbers again."""


@dataclass(frozen=True)
class CheckResult:
    """Check result of one batch.

    Attributes:
        check: name with its arguments, e.g. "not_null(order_id)".
        kind: registry kind, e.g. "not_null".
        column: column it looks at, None for batch-level checks.
        table: `database.table`, or "*" for the whole batch.
        severity: "warn", "quarantine" or "fail".
        evaluated: rows (or values) looked at.
        violations: how many of them violate.
        observed: a batch-level check's measured value in text form, else "".
    """

    check: str
    kind: str
    column: str | None
    table: str
    severity: str
    evaluated: int
    violations: int
    observed: str = ""


@dataclass(frozen=True)
class BatchReport:
    """Batch report of one committed batch.

    Attributes:
        plan: the plan.
        epoch: epoch that committed it.
        run_id: Airflow run id, or "local:…".
        run_url: address of the run's page, "" when unknown.
        tables: counts by table.
        receipts: all receipts of all sinks.
        checks: results of all checks.
        rejected: all quarantined rows.
        durations_ms: stage → wall time in milliseconds; stages in the path's order.
        bytes: log bytes of the range.
        watermark: running maximum of commit time at the end of the range.
        committed_at: when the commit was confirmed.
        attempt: 1, or more when the plan was found unfinished.
        pace: bounds of the next batch, "rows" and "bytes", where a slow sink lowered them.
        code_version: version of this package that moved it.
        columns: what the outputs' fields are made of.
        lost: what the batch passed over unread, because it is gone.
        through_spark: tables with rows that went through Spark; those of the others were direct.
        definition: the flow that moved it, as `Flow.shown`; empty where it is not known.
    """

    plan: Plan
    epoch: Epoch
    run_id: str
    run_url: str
    tables: Mapping[str, TableCounts]
    receipts: tuple[WriteReceipt, ...]
    checks: tuple[CheckResult, ...]
    rejected: tuple[RejectedRow, ...]
    durations_ms: Mapping[str, float]
    bytes: int
    watermark: datetime | None
    committed_at: datetime
    attempt: int = 1
    pace: Mapping[str, int] = field(default_factory=dict)
    code_version: str = ""
    columns: tuple[TableLineage, ...] = ()
    lost: LostRange | None = None
    through_spark: tuple[str, ...] = ()
    definition: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows read."""
        return sum(c.read for c in self.tables.values())


@dataclass(frozen=True)
class CheckedBatch:
    """A batch of which a check holds rows.

    Attributes:
        plan: its number and the hash of its plan.
        range: the range in its report, None without.
        paged: whether the flow's ledger has a page of its commit; that of an earlier life has not.
    """

    plan: BatchPlan
    range: OffsetRange | None
    paged: bool
