"""Quality result of a run: a Great Expectations suite over the metrics that the run's batches stored.

Great Expectations reads the metrics through its SQL execution engine, from the records store itself: one row for each
check and table of the run, one for each table's reconciliation. The data was looked at once, when it passed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from databus.core.errors.batch import RecordingError
from databus.core.packages import lacking
from databus.records import tables as t
from databus.records.batch_record import BatchRecord
from databus.records.quality.data_docs import LISTED, DataDocs
from databus.records.quality.findings import worst
from databus.records.quality.great_expectations_context import great_expectations, remove_docs_sites
from databus.records.quality.judged_expectations import ExpectationOutcome, with_judged
from databus.records.quality.metrics import RECONCILIATION, Metric, metrics_query, read_expected, read_metrics
from databus.records.quality.trend import newest_runs
from databus.records.reports import Reports
from databus.records.run_ranges import run_number
from databus.records.store import RecordStore
from databus.records.summary import RunSummary, summarize

_GX_SEVERITY = {"warn": "info", "quarantine": "warning", "fail": "critical"}


@dataclass(frozen=True)
class QualityResult:
    """Quality result of a run by Great Expectations.

    Attributes:
        flow: flow name.
        run_id: run id.
        success: whether every expectation was met.
        worst: severity of the gravest check that was violated, None when none was.
        evaluated: values looked at by all checks.
        violations: how many of them violate.
        metrics: the metrics that were judged.
        judged: what was found of the flow's own expectations.
        result: the validation result as Great Expectations' own JSON, with `meta.databus`.
    """

    flow: str
    run_id: str
    success: bool
    worst: str | None
    evaluated: int
    violations: int
    metrics: tuple[Metric, ...]
    judged: tuple[ExpectationOutcome, ...]
    result: Mapping[str, Any]

    @property
    def data_docs(self) -> str:
        """Address of the run's page of Data Docs, "" without one."""
        return str(self.result["meta"]["databus"]["data_docs"])


Judge = Callable[[RunSummary, Sequence[BatchRecord], Sequence[Metric]], Sequence[ExpectationOutcome]]
"""Judges a flow's expectations by a run's sums, its batches and what these found of the expectations."""


def evaluate_run(
    store: RecordStore,
    flow: str,
    run_id: str,
    now: datetime,
    judge: Judge = lambda *_: (),
    docs: DataDocs | None = None,
) -> QualityResult:
    """Judge a run's stored metrics and store the result; evaluated again, it replaces the one before.

    A run without any batch gets a result too: nothing was expected, and nothing was found. Of a flow without checks and
    expectations rows are added up without Great Expectations where that is not installed, and no page is built.

    Args:
        store: the records store.
        flow: flow name.
        run_id: run id.
        now: when it is evaluated, aware UTC.
        judge: judges the flow's expectations; their results become part of the run's.
        docs: where pages of Data Docs are built; None for none.

    Raises:
        RecordingError: the database cannot be reached, or Great Expectations could not evaluate an expectation.
        PackageMissingError: there are checks or expectations, and Great Expectations is not installed.
    """
    with store.transaction() as connection:
        number = run_number(store, connection, flow, run_id, "")
        metrics = read_metrics(connection, number)
        expected = read_expected(connection, number)
    batches = Reports(store).batches(flow, run_id)
    summary = summarize(flow, run_id, batches)
    judged = tuple(judge(summary, batches, expected))
    without = bool(lacking("quality")) and not judged and all(m.kind == RECONCILIATION for m in metrics)
    docs = None if without else docs
    result = with_judged(added_up(metrics) if without else validate(store, number, metrics), judged)
    result["suite_name"] = flow
    result["meta"]["run_id"] = {"run_name": run_id, "run_time": now.isoformat()}
    result["meta"]["databus"] = _meta(summary) | {"data_docs": docs.address(flow, run_id) if docs else ""}
    quality = QualityResult(
        flow=flow,
        run_id=run_id,
        success=bool(result["success"]),
        worst=worst(result),
        evaluated=sum(m.evaluated for m in metrics) + sum(j.evaluated for j in judged),
        violations=sum(m.violations for m in metrics) + sum(j.violations for j in judged),
        metrics=tuple(metrics),
        judged=judged,
        result=result,
    )
    _store(store, quality, now)
    if docs:
        docs.build(flow, run_id, result, newest_runs(store, flow, LISTED))
    return quality


def validate(store: RecordStore, run: int, metrics: Sequence[Metric]) -> dict[str, Any]:
    """Run the suite made of `metrics` over the metrics of run number `run`, and return its result as JSON.

    Raises:
        RecordingError: an expectation ended in an exception.
    """
    gx = great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    # Great Expectations substitutes $NAME in its configuration; in a URL the character stands as %24.
    url = store.url.render_as_string(hide_password=False)
    add = context.data_sources.add_sqlite if store.sqlite else context.data_sources.add_postgres
    source = add("records", connection_string=url, create_temp_table=False)
    try:
        query = metrics_query(run).compile(store.engine, compile_kwargs={"literal_binds": True})
        batch = source.add_query_asset("run", query=str(query)).add_batch_definition("run")
        suite = context.suites.add(gx.ExpectationSuite(name="run", expectations=_expectations(gx, metrics)))
        definition = gx.ValidationDefinition(name="run", data=batch, suite=suite)
        found = context.validation_definitions.add(definition).run(result_format="SUMMARY")
        result: dict[str, Any] = json.loads(json.dumps(found.to_json_dict()))
    finally:
        # It keeps two engines, one that tried the connection and one that reads, and closes neither.
        source.get_execution_engine().close()
        source.get_engine().dispose()
        remove_docs_sites(context)
    _require_evaluated(result)
    return result


def added_up(metrics: Sequence[Metric]) -> dict[str, Any]:
    """Return whether each table's rows add up, in the form of `validate`, without Great Expectations."""
    results = [
        {
            "success": metric.violations == 0,
            "expectation_config": {
                "type": "expect_column_values_to_be_between",
                "kwargs": {"column": "violations", "min_value": 0, "max_value": 0},
                "meta": metric.to_json(),
                "severity": _GX_SEVERITY[metric.severity],
            },
            "result": {"element_count": 1, "unexpected_count": int(metric.violations != 0)},
            "meta": {},
            "exception_info": {"raised_exception": False, "exception_message": None, "exception_traceback": None},
        }
        for metric in metrics
    ]
    return {"success": all(each["success"] for each in results), "results": results, "meta": {}}


def _expectations(gx: Any, metrics: Sequence[Metric]) -> list[Any]:
    """Return one expectation per metric: its row shows no violation; and that there is a row for each."""
    from great_expectations.expectations.row_conditions import Column

    found = [gx.expectations.ExpectTableRowCountToEqual(value=len(metrics))]
    for metric in metrics:
        condition = (Column("check_name") == metric.check) & (Column("table_name") == metric.table)
        found.append(
            gx.expectations.ExpectColumnValuesToBeBetween(
                column="violations",
                min_value=0,
                max_value=0,
                row_condition=condition & (Column("severity") == metric.severity),
                severity=_GX_SEVERITY[metric.severity],
                meta=metric.to_json(),
            )
        )
    return found


def _require_evaluated(result: Mapping[str, Any]) -> None:
    for item in result["results"]:
        info = item["exception_info"]
        # Per expectation a flat dict, or one dict for each metric that failed.
        for failed in [info] if "raised_exception" in info else info.values():
            if failed["raised_exception"]:
                kind = item["expectation_config"]["type"]
                raise RecordingError(
                    f"Great Expectations could not evaluate {kind}: {failed['exception_message']}",
                    hint="Check that its version is the pinned one.",
                    code="recording_quality",
                )


def _meta(summary: RunSummary) -> dict[str, Any]:
    return {
        "flow": summary.flow,
        "run_id": summary.run_id,
        "run_url": summary.run_url,
        "batches": list(summary.batches),
        "start": summary.start.to_json() if summary.start else None,
        "end": summary.end.to_json() if summary.end else None,
        "rows": summary.total.figures,
    }


def _store(store: RecordStore, quality: QualityResult, now: datetime) -> None:
    row = {
        "flow": quality.flow,
        "run_id": quality.run_id,
        "success": quality.success,
        "worst": quality.worst,
        "evaluated": quality.evaluated,
        "violations": quality.violations,
        "result": quality.result,
        "evaluated_at": now,
    }
    key = ("flow", "run_id")
    with store.transaction() as connection:
        connection.execute(store.upsert(t.quality_results, [row], key, [name for name in row if name not in key]))
