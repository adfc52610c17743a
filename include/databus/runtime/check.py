"""Check: mark each row with the checks it violates and with the state it will end in, in the batch's own pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from databus.checks.decodable import decodable_checks, judged_checks
from databus.checks.expected import expected_checks
from databus.core.batches.receipts import RejectedRow
from databus.core.batches.report import CheckResult
from databus.core.errors.batch import QualityGateError
from databus.core.events import RowState
from databus.core.flow import Flow
from databus.core.flow_specs import CheckSpec
from databus.core.state.plan import SourcePlan
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.places import COPIES, copies

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VIOLATIONS = "violations"
STATE = "state"
PARTITION_DDL = "partition_ddl"
"""Kind of the result for statements on partitions, whose rows are not in the log."""
NO_EVENT = "rows changed that no row event tells: "
"""Beginning of the text of such a result; the statements and their places follow."""
_SHOWN = 3


def row_checks(flow: Flow) -> list[CheckSpec]:
    """Return the checks that look at single rows, and those that the flow's expectations and its source ask for."""
    asked = (*expected_checks(flow), *decodable_checks(flow), *judged_checks(flow))
    return [*(c for c in flow.checks if c.looks_at_rows), *asked]


def check(flow: Flow, changes: FrameChanges, taken: Column) -> DataFrame:
    """Return the rows with `violations` (names of violated checks) and `state`, and `copies` if values choose routes.

    Args:
        flow: the flow.
        changes: rows after the transforms, images rebuilt where a transform changed them.
        taken: true where at least one sink takes the row, or a copy of it.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name everyone knows

    changes = changes.materialized()  # violations are Columns over the images as they are now
    checks = row_checks(flow)
    marks = [F.when(c.violation(changes), F.lit(c.check_name)) for c in checks]
    # What a filter could not judge is held back, and says why beside the checks.
    violations = F.array_compact(F.array(*marks, F.col("unjudged")))
    holding = [c.check_name for c in checks if c.severity == "quarantine"]
    held = F.arrays_overlap(VIOLATIONS, F.array(*map(F.lit, holding))) if holding else F.lit(False)
    held = held | F.col("unjudged").isNotNull()
    state = (
        F.when(F.col("filtered") | ~taken, RowState.FILTERED)
        .when(held, RowState.QUARANTINED)
        .otherwise(RowState.DISPATCHED)
    )
    rows = changes.rows.withColumn(COPIES, F.expr(copies())) if changes.by_value else changes.rows
    return rows.withColumn(VIOLATIONS, violations).withColumn(STATE, state)


def evaluate_batch_checks(flow: Flow, planned: SourcePlan, now: Any) -> tuple[CheckResult, ...]:
    """Return the results of checks that look at the batch as a whole, and a warning per table of unlogged changes."""
    return (*(c.evaluate(planned, now) for c in flow.checks if not c.looks_at_rows), *_unlogged(planned))


def _unlogged(planned: SourcePlan) -> Iterator[CheckResult]:
    """Yield results for statements that changed a table's rows without row events."""
    for table in dict.fromkeys(table for change in planned.unlogged for table in change.tables):
        changes = [str(change) for change in planned.unlogged if table in change.tables]
        more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
        yield CheckResult(
            check=f"{PARTITION_DDL}({table})",
            kind=PARTITION_DDL,
            column=None,
            table=table,
            severity="warn",
            evaluated=len(changes),
            violations=len(changes),
            observed=f"{NO_EVENT}{'; '.join(changes[:_SHOWN])}{more}",
        )


def enforce(flow: Flow, results: Sequence[CheckResult]) -> None:
    """Stop the batch when a check of severity `fail` was violated; called before anything is dispatched.

    Raises:
        QualityGateError: names each violated check with its figures.
    """
    broken = [r for r in results if r.severity == "fail" and r.violations]
    if broken:
        found = "; ".join(
            f"{r.check} on {r.table}: {r.violations} of {r.evaluated}" + (f" ({r.observed})" if r.observed else "")
            for r in broken
        )
        raise QualityGateError(
            f"flow {flow.name}: {found}",
            hint="Nothing of this batch was dispatched and the checkpoint is unmoved. "
            "Mend the rows at the source, or lower the check's severity.",
        )


def picked(rows: DataFrame, condition: Column) -> DataFrame:
    """Return the rows for which a condition over what transforms and checks said of them is true.

    Spark moves a condition below each projection that it can, written anew in the terms of that one. Through the
    projections of several transforms it grows exponentially, and is planned for minutes. It stays above what observes
    rows. One frame is picked from once.
    """
    from pyspark.sql import functions as F  # noqa: N812

    return rows.observe("picked_from", F.count(F.lit(1))).where(condition)


def held_rows_of(rows: DataFrame, held: Column, cause: Column, stage: str) -> tuple[RejectedRow, ...]:
    """Return the rows that are held back, as the quarantine keeps them.

    Args:
        rows: the rows.
        held: which are held back.
        cause: why each is.
        stage: see `RejectedRow`.
    """
    from pyspark.sql import functions as F  # noqa: N812

    payload = F.to_json(F.struct("op", "before", "after"), {"ignoreNullFields": "false"})
    found = picked(rows, held).select(
        "event_id",
        F.concat_ws(".", "database", "table").alias("name"),
        F.col("key").cast("string").alias("key"),
        cause.alias("cause"),
        F.concat_ws(":", "log", F.col("place").cast("string")).alias("at"),
        payload.alias("payload"),
    )
    return tuple(
        RejectedRow(r["event_id"], r["name"], r["key"], r["cause"], stage, r["at"], r["payload"])
        for r in found.collect()
    )
