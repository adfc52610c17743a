"""Expectations in a run's result, the trend over runs, and the pages of Data Docs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from databus.cli.main import app
from databus.cli.quality import sparkline
from databus.core.errors import ConfigError
from databus.core.expectations import BY_ROW, Expectation
from databus.records.quality import data_docs
from databus.records.quality.data_docs import DataDocs
from databus.records.quality.judged_expectations import ExpectationOutcome
from databus.records.quality.result import QualityResult, evaluate_run
from databus.records.quality.trend import newest_runs, trends
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from tests.contract.record_samples import NOON, check, report

NOT_NULL = Expectation(type="expect_column_values_to_not_be_null", kwargs={"column": "email"}, action="quarantine")
MEAN = Expectation(type="expect_column_mean_to_be_between", kwargs={"column": "total", "min_value": 1}, action="fail")
FLOW = "orders_to_kafka"


def judged_run(store: RecordStore, number: int, unexpected: int, docs: DataDocs | None = None) -> QualityResult:
    """Record a run of one batch and judge it: by row, and one that could not be judged."""
    found = check(unexpected, NOT_NULL.name, kind=BY_ROW)
    SqlRecorder(store).record(report(number, f"run:{number}", checks=(found,)))

    def judge(_summary: Any, _batches: Any, metrics: Any) -> list[ExpectationOutcome]:
        (metric,) = metrics
        result = {"element_count": metric.evaluated, "unexpected_count": metric.violations, "unexpected_percent": 0.0}
        by_row = ExpectationOutcome(NOT_NULL, not metric.violations, "every row", result)
        return [by_row, ExpectationOutcome(MEAN, False, "", error="only a <sample> was read")]

    now = NOON + timedelta(minutes=number)
    return evaluate_run(store, FLOW, f"run:{number}", now, judge, docs)


def test_expectations_are_part_of_the_one_result(store: RecordStore) -> None:
    quality = judged_run(store, 1, 2)

    assert (quality.success, quality.worst, quality.violations) == (False, "quarantine", 3)
    first, second, *others = quality.result["results"]
    assert first["expectation_config"]["kwargs"] == {"column": "email"}
    assert first["expectation_config"]["meta"]["databus"]["judged_by"] == "every row"
    assert second["exception_info"]["exception_message"] == "only a <sample> was read"
    # What expectations count as rows pass is not judged twice: row count and two tables' reconciliation are left.
    assert len(others) == 3
    assert all(item["success"] for item in others)
    assert judged_run(store, 2, 0).worst == "warn"  # the one that could not be judged


def test_the_trend_is_that_of_the_newest_runs(store: RecordStore) -> None:
    for number, unexpected in enumerate((0, 5, 1), 1):
        judged_run(store, number, unexpected)

    found = {each["name"]: each for each in trends(newest_runs(store, FLOW, 10))}
    assert found[NOT_NULL.name]["trend"] == [0.0, 50.0, 10.0]
    assert (found[NOT_NULL.name]["violations"], found[NOT_NULL.name]["action"]) == (1, "quarantine")
    assert found[MEAN.name]["trend"] == [None, None, None]
    assert found[MEAN.name]["error"] == "only a <sample> was read"
    assert [run.run_id for run in newest_runs(store, FLOW, 2)] == ["run:3", "run:2"]
    assert trends(newest_runs(store, "another", 2)) == []
    assert sparkline([0.0, 50.0, None, 10.0]) == "▁█·▂"


def test_pages_are_great_expectations_own_and_linked(
    store: RecordStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_docs, "KEEP_PAGES", 2)
    docs = DataDocs(tmp_path / "docs")
    pages = [Path(unquote(judged_run(store, n, n, docs).data_docs.removeprefix("file://"))) for n in (1, 2, 3)]

    assert [page.exists() for page in pages] == [False, True, True]
    page = pages[2].read_text()
    assert "values must never be null" in page
    assert "only a &lt;sample&gt; was read" in page
    assert (pages[2].parent / "../../../../index.html").resolve() == (tmp_path / "docs" / "index.html").resolve()
    assert "flows/orders_to_kafka.html" in (tmp_path / "docs" / "index.html").read_text()
    listed = (tmp_path / "docs" / "flows" / "orders_to_kafka.html").read_text()
    assert listed.index("run:3") < listed.index("run:2") < listed.index("run:1")


def test_an_address_is_that_of_the_web_server(tmp_path: Path) -> None:
    docs = DataDocs(tmp_path, "https://docs.example/dq/")

    address = docs.address("f", "scheduled__2026-11-21T12:00:00+00:00")

    assert address == ("https://docs.example/dq/validations/f/scheduled__2026-11-21T12_00_00%2B00_00/result/index.html")


def test_a_folder_that_cannot_be_written_fails_no_run(
    store: RecordStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    quality = judged_run(store, 1, 0, DataDocs(tmp_path / "file" / "docs"))

    assert len(quality.judged) == 2
    assert "Data Docs of run run:1 not written" in caplog.text


def test_the_command_prints_results_and_trend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'records.db'}"
    monkeypatch.setenv("DATABUS_RECORDS_URL", url)
    with RecordStore(url) as store:
        for number, unexpected in enumerate((0, 5, 1), 1):
            judged_run(store, number, unexpected)

    shown = CliRunner().invoke(app, ["quality", FLOW, "-o", "json"])
    found = json.loads(shown.stdout)
    assert [run["run_id"] for run in found["runs"]] == ["run:3", "run:2", "run:1"]
    assert found["latest"][0]["trend"] == [0.0, 50.0, 10.0]
    table = CliRunner().invoke(app, ["quality", FLOW])
    assert table.exit_code == 0
    assert "▁█▂" in table.stdout
    assert "not judged: expect_column_mean_to_be_between" in table.stderr


def test_the_command_refuses_a_flow_that_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABUS_RECORDS_URL", f"sqlite:///{tmp_path / 'records.db'}")
    text = "from databus import Flow, Mock, Noop\nflow = Flow(name='fresh', source=Mock(rows=1), sinks=(Noop(),))\n"
    (tmp_path / "fresh.py").write_text(text)
    assert CliRunner().invoke(app, ["quality", "fresh", "--dags", str(tmp_path)]).exit_code == 0
    refused = CliRunner().invoke(app, ["quality", "frsh", "--dags", str(tmp_path)])
    assert isinstance(refused.exception, ConfigError)
    assert "Did you mean fresh?" in refused.exception.hint
