"""Judge a flow's expectations over a run: by what the batches counted as rows passed, or by the run's rows again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from databus.checks.expected import PROPORTION, counts_missing, is_by_counts, missing_name, row_rule, tables_of
from databus.core.errors.root import DatabusError
from databus.core.expectations import BY_ROW, MISSING, Expectation
from databus.core.flow import Flow
from databus.records.batch_record import BatchRecord
from databus.records.quality.judged_expectations import ExpectationOutcome
from databus.records.quality.metrics import Metric
from databus.records.quality.result import Judge
from databus.records.summary import RunSummary
from databus.rows.frames.selection import matches
from databus.runtime.context import Services

EVERY_ROW, COUNTS = "every row", "counts"

ROWS_LIMIT = 100_000
"""Row changes of a run that are read again at most; some 5 µs of CPU and 1 KB of memory each."""


def judge_of(flow: Flow, services: Services, rows_limit: int = ROWS_LIMIT) -> Judge:
    """Return what judges a flow's expectations over a run.

    Those that are not judged as rows pass are judged by the run's rows, read again; up to `rows_limit` all of them,
    else a sample. Where that cannot be, the result says so by name.
    """

    def judge(summary: RunSummary, batches: Sequence[BatchRecord], found: Sequence[Metric]) -> list[ExpectationOutcome]:
        done: dict[str, ExpectationOutcome] = {}
        left: dict[tuple[str, ...], list[Expectation]] = {}
        for expectation in flow.expectations:
            if is_by_counts(expectation):
                done[expectation.name] = by_counts(flow, expectation, summary)
            elif row_rule(expectation) is not None:
                done[expectation.name] = by_row(expectation, found, _seen(batches))
            else:
                left.setdefault(tables_of(flow, expectation), []).append(expectation)
        for tables, expectations in left.items():
            for judged in _by_rows(flow, services, batches, (tables, expectations, rows_limit)):
                done[judged.expectation.name] = judged
        return [done[expectation.name] for expectation in flow.expectations]

    return judge


def _by_rows(
    flow: Flow,
    services: Services,
    batches: Sequence[BatchRecord],
    wanted: tuple[tuple[str, ...], Sequence[Expectation], int],
) -> list[ExpectationOutcome]:
    """Judge by the run's rows, read again; what hinders that becomes the result of each expectation."""
    from databus.ops.runs.changed_rows import changed_rows
    from databus.records.quality.frame_results import judge_frame

    tables, expectations, limit = wanted
    try:
        rows = changed_rows(flow, services, batches, tables, limit)
    except DatabusError as error:
        return [ExpectationOutcome(each, False, "", error=error.message) for each in expectations]
    if rows is None:
        return [ExpectationOutcome(each, True, "no rows", {"observed_value": None}) for each in expectations]
    how = "rows of the run" if rows.complete else f"sample of {len(rows.frame)} of {rows.changes} row changes"
    return judge_frame(expectations, rows.frame, how=how, complete=rows.complete)


def _seen(batches: Sequence[BatchRecord]) -> str:
    lost = [batch.batch for batch in batches if batch.refilled]  # a kill left their reports missing
    return EVERY_ROW if not lost else f"{EVERY_ROW} but those of batch {', '.join(map(str, lost))}"


def by_row(expectation: Expectation, found: Sequence[Metric], how: str = EVERY_ROW) -> ExpectationOutcome:
    """Judge by the values that were looked at as rows passed, batch by batch: exact over the run."""
    mine = [m for m in found if m.kind == BY_ROW and m.check == expectation.name]
    missing = [m for m in found if m.kind == MISSING and m.check == missing_name(expectation)]
    if expectation.type == PROPORTION:
        return _proportion(expectation, missing, how)
    looked_at, unexpected = sum(m.evaluated for m in mine), sum(m.violations for m in mine)
    nulls = sum(m.violations for m in missing) if counts_missing(expectation) else 0
    there = looked_at - nulls
    result: dict[str, Any] = {"element_count": looked_at, "unexpected_count": unexpected}
    result["unexpected_percent"] = _percent(unexpected, there)
    result["unexpected_percent_total"] = _percent(unexpected, looked_at)
    if counts_missing(expectation):
        result |= {"missing_count": nulls, "missing_percent": _percent(nulls, looked_at)}
    success = there == 0 or (there - unexpected) / there >= expectation.mostly
    return ExpectationOutcome(expectation, success, how, result | {"partial_unexpected_list": []})


def by_counts(flow: Flow, expectation: Expectation, summary: RunSummary) -> ExpectationOutcome:
    """Judge the number of row changes that the flow took of the tables meant."""
    patterns = tables_of(flow, expectation)
    rows = sum(c.read - c.filtered - c.superseded for table, c in summary.tables.items() if matches(table, patterns))
    kwargs = expectation.kwargs
    success = rows == kwargs["value"] if "value" in kwargs else _within(rows, kwargs)
    return ExpectationOutcome(expectation, success, COUNTS, {"observed_value": rows})


def _proportion(expectation: Expectation, missing: Sequence[Metric], how: str) -> ExpectationOutcome:
    looked_at, nulls = sum(m.evaluated for m in missing), sum(m.violations for m in missing)
    if not looked_at:
        return ExpectationOutcome(expectation, True, how, {"observed_value": None})
    share = (looked_at - nulls) / looked_at
    return ExpectationOutcome(expectation, _within(share, expectation.kwargs), how, {"observed_value": share})


def _within(value: float, kwargs: Mapping[str, Any]) -> bool:
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    above = low is None or (value > low if kwargs.get("strict_min") else value >= low)
    return above and (high is None or (value < high if kwargs.get("strict_max") else value <= high))


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
