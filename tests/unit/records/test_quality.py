"""One Great Expectations result per run, over the stored metrics."""

from __future__ import annotations

import sys
import tempfile

import pytest

from databus.core.batches.counts import TableCounts
from databus.core.errors import PackageMissingError
from databus.records.quality import result as evaluation
from databus.records.quality.data_docs import DataDocs
from databus.records.quality.findings import findings
from databus.records.quality.result import evaluate_run
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from databus.records.store import RecordStore
from tests.contract.record_samples import NOON, check, report


def judged(store, *reports):
    for each in reports:
        SqlRecorder(store).record(each)
    return evaluate_run(store, "orders_to_kafka", "r", NOON)


def test_the_batches_of_a_run_give_one_result(store):
    quality = judged(store, report(1, "r"), report(2, "r"), report(3, "another"))
    assert not quality.success
    assert (quality.worst, quality.violations) == ("quarantine", 2)
    stored = Reports(store).quality("orders_to_kafka", "r")
    assert stored == quality.result
    assert stored["meta"]["great_expectations_version"]
    assert stored["meta"]["databus"]["batches"] == [1, 2]
    assert stored["meta"]["databus"]["start"]["pos"] == 100
    assert stored["meta"]["databus"]["rows"]["read"] == 24
    # row count, 2 checks, 2 tables' reconciliation
    assert stored["statistics"]["evaluated_expectations"] == 5
    assert stored["statistics"]["unsuccessful_expectations"] == 1
    (failed,) = (r for r in stored["results"] if not r["success"])
    assert failed["expectation_config"]["severity"] == "warning"
    assert failed["result"]["partial_unexpected_list"] == [2]
    assert failed["expectation_config"]["meta"] == {
        "check": "not_null(email)",
        "kind": "not_null",
        "column": "email",
        "table": "shop.orders",
        "severity": "quarantine",
        "evaluated": 20,
        "violations": 2,
        "violating_percent": 10.0,
    }


def test_a_clean_run_succeeds_and_is_judged_anew_when_asked(store):
    clean = judged(store, report(1, "r", checks=(check(0),)))
    assert (clean.success, clean.worst) == (True, None)
    again = judged(store, report(2, "r", checks=(check(4),)))
    assert not again.success
    assert Reports(store).quality("orders_to_kafka", "r") == again.result


def test_rows_not_accounted_for_fail_the_run(store):
    quality = judged(store, report(1, "r", checks=(), tables={"shop.orders": TableCounts(10, 1, 1, 7)}))
    assert (quality.success, quality.worst, quality.violations) == (False, "fail", 1)


def test_names_with_quotes_and_percent_signs_are_judged(store):
    name = "accepted_values(status, ['it''s', \"new\", '100%', ':x'])"
    quality = judged(store, report(1, "r", checks=(check(2, name, kind="accepted_values"), check(0, "it's"))))
    assert [m.check for m in quality.metrics if m.violations] == [name]
    assert quality.result["statistics"]["unsuccessful_expectations"] == 1


def test_an_idle_run_has_a_result_too(store):
    quality = judged(store)
    assert quality.success
    assert quality.result["statistics"]["evaluated_expectations"] == 1
    assert Reports(store).quality("orders_to_kafka", "r") is not None
    assert Reports(store).quality("orders_to_kafka", "never judged") is None


def test_no_temporary_folder_is_left_behind(store, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    judged(store, report(1, "r"))
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_dollar_in_the_url_is_not_taken_for_a_variable(tmp_path):
    with RecordStore(f"sqlite:///{tmp_path}/pa$HOME.db") as store:
        assert judged(store, report(1, "r", checks=(check(0),))).success


@pytest.mark.parametrize("module", ["pandas", "great_expectations"])
def test_reading_reports_loads_no_heavy_module(module):
    import subprocess

    code = f"import sys, databus.records.reports, databus.records.quality.result; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("odd", [False, True])
def test_without_great_expectations_rows_are_added_up_alike(store, monkeypatch, tmp_path, odd):
    tables = {"shop.orders": TableCounts(10, 1, 1, 7 if odd else 8), "shop.items": TableCounts(2, 0, 0, 2)}
    full = judged(store, report(1, "r", checks=(), tables=tables))
    monkeypatch.setattr(evaluation, "lacking", lambda _: ("great-expectations",))
    monkeypatch.setitem(sys.modules, "great_expectations", None)
    plain = evaluate_run(store, "orders_to_kafka", "r", NOON, docs=DataDocs(tmp_path / "docs"))
    assert (plain.success, plain.worst) == (full.success, full.worst) == (not odd, "fail" if odd else None)
    assert findings(plain.result) == findings(full.result)
    assert len(findings(plain.result)) == 2
    assert Reports(store).quality("orders_to_kafka", "r") == plain.result
    assert (plain.data_docs, (tmp_path / "docs").exists()) == ("", False)


def test_checks_without_great_expectations_are_refused(store, monkeypatch):
    judged(store, report(1, "r"))
    monkeypatch.setitem(sys.modules, "great_expectations", None)
    with monkeypatch.context() as patched:
        patched.setattr("databus.core.packages.find_spec", lambda name: name if name == "pandas" else None)
        with pytest.raises(PackageMissingError, match=r"needs great-expectations, which is not installed") as caught:
            evaluate_run(store, "orders_to_kafka", "r", NOON)
    assert "pip install 'databus[quality]'" in caught.value.hint
