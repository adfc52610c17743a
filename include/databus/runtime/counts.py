"""Counts: what a pass over the rows observed, by table and state, and whether it adds up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from databus.core.batches.counts import STATEMENTS, TableCounts
from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.batches.report import CheckResult
from databus.core.errors.batch import ReconciliationError
from databus.core.events import RowState
from databus.core.flow import Flow
from databus.core.state.plan import SourcePlan
from databus.rows.frames.places import ROW_OP
from databus.runtime.check import STATE, VIOLATIONS, row_checks
from databus.runtime.copies import row_id

if TYPE_CHECKING:
    from pyspark.sql import Column


def table_names(planned: SourcePlan) -> list[str]:
    """Return each table of a plan once, then the name under which statements count."""
    return [*dict.fromkeys(t.full_name for t in planned.tables), STATEMENTS]


def aggregates(flow: Flow, names: Sequence[str], first: Column | None = None, op_column: str = "") -> list[Column]:
    """Return the aggregate columns of one pass: rows by table and state, changes, evaluations and violations.

    Args:
        flow: the flow.
        names: its tables.
        first: true of one copy of each row, which is counted; None where each row is there once.
        op_column: name of the column with the row's operation behind the flow's transforms; "" for the usual one.
    """
    from pyspark.sql import functions as F  # noqa: N812

    op = F.col(op_column or ("op" if first is None else ROW_OP))
    columns = [F.count_if((F.col("part") == 0) & (F.col("schema_id") >= 0)).alias("changes")]
    for number, name in enumerate(names):
        at = _at(name) if first is None else _at(name) & first
        columns += [F.count_if(at & (F.col(STATE) == state)).alias(f"{number}_{state}") for state in RowState]
        columns.append(F.count_if(at & ~F.col("filtered") & op.isin("c", "u", "r")).alias(f"{number}_checked"))
        columns += [
            F.count_if(at & F.array_contains(VIOLATIONS, spec.check_name)).alias(f"{number}_violates_{position}")
            for position, spec in enumerate(row_checks(flow))
            if spec.applies_to(name)
        ]
    return columns


def sink_aggregates(names: Sequence[str], shares: Mapping[str, Column]) -> list[Column]:
    """Return the aggregate columns that count rows of one sink, by table: `{number}_{share}`."""
    from pyspark.sql import functions as F  # noqa: N812

    return [
        F.count_if(_at(name) & rows).alias(f"{number}_{share}")
        for number, name in enumerate(names)
        for share, rows in shares.items()
    ]


def sink_counts(names: Sequence[str], observed: Mapping[str, int], share: str) -> Counter[str]:
    """Return rows by table of one share of `sink_aggregates`."""
    return Counter({name: count for n, name in enumerate(names) if (count := observed.get(f"{n}_{share}", 0))})


def table_counts(names: Sequence[str], observed: Mapping[str, int]) -> dict[str, TableCounts]:
    """Return counts by table from an observation; tables without rows are left out."""
    found: dict[str, TableCounts] = {}
    for number, name in enumerate(names):
        by_state = {state: observed[f"{number}_{state}"] for state in RowState}
        total = sum(by_state.values())
        if total:
            found[name] = TableCounts(
                total, by_state[RowState.FILTERED], by_state[RowState.QUARANTINED], by_state[RowState.DISPATCHED]
            )
    return found


def check_results(flow: Flow, names: Sequence[str], observed: Mapping[str, int]) -> tuple[CheckResult, ...]:
    """Return the row checks' results by table from an observation."""
    return tuple(
        CheckResult(
            check=spec.check_name,
            kind=spec.kind,
            column=getattr(spec, "column", None),
            table=name,
            severity=spec.severity,
            evaluated=observed[f"{number}_checked"],
            violations=observed[f"{number}_violates_{position}"],
        )
        for number, name in enumerate(names)
        for position, spec in enumerate(row_checks(flow))
        if spec.applies_to(name) and observed[f"{number}_checked"]
    )


def reconcile(
    flow: Flow,
    planned: SourcePlan,
    observed: Mapping[str, int],
    counts: Mapping[str, TableCounts],
    receipts: Mapping[str, tuple[Mapping[str, int], Sequence[WriteReceipt]]],
) -> dict[str, TableCounts]:
    """Compare the log's own count, the pass's count and every sink's receipts; return the final counts.

    Args:
        flow: the flow.
        planned: what the source counted in the log.
        observed: what the pass observed.
        counts: rows by table and state, before sinks rejected any.
        receipts: per sink the rows by table it was given, each copy of one for itself, and its receipts.

    Raises:
        ReconciliationError: any two of them differ; names table and figures.
    """
    if observed["changes"] > planned.rows or (observed["changes"] < planned.rows and not planned.bound):
        raise ReconciliationError(
            f"flow {flow.name} {planned.range}: the log holds {planned.rows} row changes, "
            f"{observed['changes']} were read"
        )
    rejected: dict[str, RejectedRow] = {}
    for sink, (given, written) in receipts.items():
        confirmed: dict[str, int] = {}
        for receipt in written:
            for table, rows in receipt.rows.items():
                confirmed[table] = confirmed.get(table, 0) + rows
            for row in receipt.rejected:
                confirmed[row.table] = confirmed.get(row.table, 0) + 1
                rejected[row_id(flow, row.event_id)] = row
        _require_equal(flow, sink, given, confirmed)
    final = dict(counts)
    for row in rejected.values():
        name = row.table if row.table in final else STATEMENTS
        final[name] = final[name].plus(TableCounts(quarantined=1, dispatched=-1))
    final = with_chunks(final, planned)
    for table, count in final.items():
        if not count.reconciled:
            raise ReconciliationError(f"flow {flow.name} {planned.range}: counts of {table} do not add up: {count}")
    return final


def with_chunks(counts: Mapping[str, TableCounts], planned: SourcePlan) -> dict[str, TableCounts]:
    """Return counts with what is known of a snapshot's chunks: rows left out of them, and how many rows they brought.

    Args:
        counts: by table, of the rows that were moved, those of the chunks among them.
        planned: the source's plan.
    """
    final = dict(counts)
    for file in planned.chunks:
        brought = TableCounts(file.superseded, superseded=file.superseded, snapshot=file.rows + file.superseded)
        if brought.snapshot:
            final[file.table] = final.get(file.table, TableCounts()).plus(brought)
    return final


def _require_equal(flow: Flow, sink: str, given: Mapping[str, int], confirmed: Mapping[str, int]) -> None:
    """Compare by table; a sink counts a statement under the table it names, the pass counts it apart."""
    statements = given.get(STATEMENTS, 0)
    for table in sorted({*given, *confirmed} - {STATEMENTS}):
        surplus = confirmed.get(table, 0) - given.get(table, 0)
        if not 0 <= surplus <= statements:
            raise ReconciliationError(
                f"flow {flow.name}: sink {sink} was given {given.get(table, 0)} rows of {table} "
                f"and accounts for {confirmed.get(table, 0)}"
            )
        statements -= surplus
    if statements:
        raise ReconciliationError(f"flow {flow.name}: sink {sink} does not account for {statements} statements")


def _at(name: str) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    if name == STATEMENTS:
        return F.col("schema_id") < 0
    database, _, table = name.partition(".")
    return (F.col("schema_id") >= 0) & (F.col("database") == database) & (F.col("table") == table)
