"""Dry run: read, transform and check the next batch, count by branch, write nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from databus.core.batches.counts import TableCounts
from databus.core.batches.report import CheckResult
from databus.core.flow import Flow
from databus.ops.runs.preview import snapshot_text
from databus.runtime import check, counts
from databus.runtime.beside.look import looking
from databus.runtime.context import RunIdentity, Services, open_session
from databus.runtime.copies import any_taken_by, first_of_row, taken_by, written_rows
from databus.runtime.dispatch import MINE, shares_of
from databus.runtime.read import read
from databus.runtime.sink_rows import CheckedRows, rows_of_sink, with_stored_images
from databus.runtime.transform import transform

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class DryRun:
    """Dry run result: what the next batch would do.

    Attributes:
        flow: flow name.
        range: range in text form, None when nothing is new.
        tables: counts by table; "dispatched" means would be.
        sinks: per sink the rows by table it would be given.
        checks: results of all checks.
        snapshot: what rows of its tables the flow reads beside the log, in words; "" where it reads none. They are not
            counted.
    """

    flow: str
    range: str | None
    tables: Mapping[str, TableCounts]
    sinks: Mapping[str, Mapping[str, int]]
    checks: tuple[CheckResult, ...]
    snapshot: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "flow": self.flow,
            "range": self.range,
            "tables": {name: c.to_json() for name, c in self.tables.items()},
            "sinks": {name: dict(given) for name, given in self.sinks.items()},
            "checks": {f"{c.check} on {c.table}": f"{c.violations} of {c.evaluated}" for c in self.checks},
            **({"snapshot": self.snapshot, "note": "rows of the snapshot are not counted"} if self.snapshot else {}),
        }


def dry_run(flow: Flow, services: Services, spark: Any, identity: RunIdentity) -> DryRun:
    """Count what the next batch would do; takes no lease, makes no topic or index, moves nothing."""
    from pyspark.sql import functions as F  # noqa: N812

    with open_session(flow, services, spark, identity) as opened, looking(opened) as session:
        checkpoint = services.store.load(flow.name)
        told = snapshot_text(flow, services, begun=checkpoint is not None)
        start = checkpoint.offset if checkpoint else session.source.start_offset()
        planned = session.source.plan(start, flow.batching)
        if planned is None:
            return DryRun(flow.name, None, {}, {}, (), told)
        names = counts.table_names(planned)
        rows, _ = read(session, planned)
        taken = {name: taken_by(sink, session.sink_spec(name)) for name, sink in session.sinks.items()}
        anywhere = F.lit(False)
        for name, sink in session.sinks.items():
            anywhere = anywhere | any_taken_by(flow, sink, session.sink_spec(name))
        changes = with_stored_images(flow, transform(flow, rows, planned))
        of_flow = CheckedRows(check.check(flow, changes, anywhere), changes)
        checked = written_rows(flow, of_flow.rows)
        columns = counts.aggregates(flow, names, first_of_row(flow))
        for position, column in enumerate(taken.values()):
            mine = (F.col(check.STATE) == "dispatched") & column
            columns += counts.sink_aggregates(names, {f"sink{position}": mine})
        found = _counted(checked, columns)
        given = {sink: dict(counts.sink_counts(names, found, f"sink{n}")) for n, sink in enumerate(taken)}
        for spec in (each for each in flow.sinks if each.transforms):
            sink = session.sinks[spec.sink_name]
            shares = {MINE: shares_of(flow, (spec, sink))[MINE]}
            own = _counted(rows_of_sink(flow, spec, sink, of_flow), counts.sink_aggregates(names, shares))
            given[spec.sink_name] = dict(counts.sink_counts(names, own, MINE))
    whole = check.evaluate_batch_checks(flow, planned, services.clock.now())
    results = (*counts.check_results(flow, names, found), *whole)
    by_table = counts.with_chunks(counts.table_counts(names, found), planned)
    return DryRun(flow.name, str(planned.range), by_table, given, results, told)


def _counted(rows: DataFrame, columns: Sequence[Column]) -> dict[str, int]:
    return {str(name): int(count) for name, count in rows.agg(*columns).collect()[0].asDict().items()}
