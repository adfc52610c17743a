"""The metrics of a run as one SQL query: a row for each check and table, and one for each table's reconciliation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from databus.core.expectations import BY_ROW, MISSING
from databus.records import tables as t

RECONCILIATION = "reconciliation"
"""Kind of the metric that looks whether read = filtered + quarantined + dispatched + superseded."""


@dataclass(frozen=True)
class Metric:
    """Metric row of a run.

    Attributes:
        check: name with its arguments.
        kind: registry kind, or "reconciliation".
        column: column it looks at, None for others.
        table: `database.table`, or "*" for whole batches.
        severity: "warn", "quarantine" or "fail".
        evaluated: values looked at.
        violations: how many of them violate; for a reconciliation, rows not accounted for.
    """

    check: str
    kind: str
    column: str | None
    table: str
    severity: str
    evaluated: int
    violations: int

    @property
    def violating_percent(self) -> float:
        """Violations per 100 evaluated, 0.0 when nothing was."""
        return 100.0 * self.violations / self.evaluated if self.evaluated else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with the percentage."""
        return {**asdict(self), "violating_percent": round(self.violating_percent, 6)}


def metrics_query(run: int) -> sa.Select[Any]:
    """Return the query of a run's metrics, without those that expectations leave.

    Args:
        run: number of the run in the records store.
    """
    return sa.select(sa.union_all(_checks(run).where(~_EXPECTED), _reconciliations(run)).subquery("metrics"))


def read_metrics(connection: sa.Connection, run: int) -> list[Metric]:
    """Return a run's metrics, ordered by check, table and severity."""
    rows = [Metric(*row) for row in connection.execute(metrics_query(run))]
    return sorted(rows, key=lambda m: (m.kind == RECONCILIATION, m.check, m.table, m.severity))


def read_expected(connection: sa.Connection, run: int) -> list[Metric]:
    """Return what a run's batches found of its flow's expectations: kinds `BY_ROW` and `MISSING`."""
    return [Metric(*row) for row in connection.execute(_checks(run).where(_EXPECTED))]


_EXPECTED = t.check_results.c.kind.in_((BY_ROW, MISSING))


def _checks(run: int) -> sa.Select[Any]:
    c = t.check_results.c
    same = (c.check_name, c.kind, c.column_name, c.table_name, c.severity)
    return (
        sa.select(*same, _total(c.evaluated).label("evaluated"), _total(c.violations).label("violations"))
        .join(t.batches, c.batch == t.batches.c.id)
        .where(t.batches.c.run == run)
        .group_by(*same)
    )


def _reconciliations(run: int) -> sa.Select[Any]:
    c = t.table_counts.c
    superseded = sa.func.coalesce(c.superseded, 0)
    missing = sa.func.abs(c.read - c.filtered - c.quarantined - c.dispatched - superseded)
    return (
        sa.select(
            sa.literal(RECONCILIATION).label("check_name"),
            sa.literal(RECONCILIATION).label("kind"),
            sa.cast(sa.null(), sa.Text).label("column_name"),
            c.table_name,
            sa.literal("fail").label("severity"),
            _total(c.read).label("evaluated"),
            _total(missing).label("violations"),
        )
        .join(t.batches, c.batch == t.batches.c.id)
        .where(t.batches.c.run == run)
        .group_by(c.table_name)
    )


def _total(column: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    # PostgreSQL sums BIGINT into NUMERIC, which its driver hands over as Decimal.
    return sa.cast(sa.func.sum(column), sa.BigInteger)
