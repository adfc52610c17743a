"""What a flow takes as `expectations`: JSON, suites, files; without Great Expectations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from databus import Expectations, Flow, Mock, Noop
from databus.core.errors import ConfigError
from databus.core.expectations import Expectation, expectations_of
from databus.registry import flow_from_json

NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id", "mostly": 0.5}}
SUITE = {
    "name": "orders",
    "expectations": [
        NOT_NULL,
        {
            "expectation_type": "expect_column_values_to_be_between",
            "kwargs": {"column": "total", "min_value": 0, "max_value": None, "mostly": 1, "row_condition": None},
            "meta": {"notes": "none", "databus": {"action": "quarantine", "tables": ["shop.orders"]}},
            "severity": "warning",
        },
    ],
}


def flow(expectations: Any) -> Flow:
    return Flow(name="f", source=Mock(tables=("shop.orders",), rows=5), sinks=(Noop(),), expectations=expectations)


def test_a_suite_is_taken_apart() -> None:
    first, second = flow(SUITE).expectations

    assert (first.name, first.action, first.mostly) == (
        "expect_column_values_to_not_be_null(id, mostly=0.5)", "warn", 0.5,
    )  # fmt: skip
    assert second.name == "expect_column_values_to_be_between(total, min_value=0)@shop.orders"
    assert (second.action, second.severity, second.meta) == ("quarantine", "warning", {"notes": "none"})


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_suite_files_are_read_from_where_they_are_named(tmp_path: Path, suffix: str) -> None:
    import yaml

    (tmp_path / f"suite{suffix}").write_text(json.dumps(SUITE) if suffix == ".json" else yaml.safe_dump(SUITE))
    dag = tmp_path / "dag.py"
    dag.write_text(
        f"from databus import Expectations, Flow, Mock, Noop\n"
        f"expected = Expectations('suite{suffix}', action='fail')\n"
        f"flow = Flow(name='f', source=Mock(rows=5), sinks=(Noop(),), expectations=expected)"
    )
    found: dict[str, Any] = {"__file__": str(dag)}
    exec(compile(dag.read_text(), str(dag), "exec"), found)

    assert [e.action for e in found["flow"].expectations] == ["fail", "quarantine"]


def test_great_expectations_own_objects(gx: Any) -> None:
    between = gx.expectations.ExpectColumnValuesToBeBetween(column="total", min_value=0, strict_min=True, mostly=0.9)
    suite = gx.ExpectationSuite(name="s", expectations=[gx.expectations.ExpectColumnToExist(column="id")])

    found = flow([between, Expectations(suite, action="fail", tables=("shop.*",))]).expectations

    assert [e.name for e in found] == [
        "expect_column_values_to_be_between(total, min_value=0.0, mostly=0.9, strict_min=true)",
        "expect_column_to_exist(id)@shop.*",
    ]


@pytest.fixture
def gx() -> Any:
    from databus.records.quality.great_expectations_context import great_expectations

    return great_expectations()


def test_a_flow_goes_through_json() -> None:
    made = flow(SUITE)

    assert flow_from_json(json.loads(json.dumps(made.to_json()))) == made
    assert "expectations" not in flow(()).to_json()
    assert made.spec_hash("1") != flow(()).spec_hash("1")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "int is neither an expectation nor a suite"),
        ({"kwargs": {}}, "names no `type`"),
        ({"type": "not_null"}, "'not_null' is not the name of an expectation"),
        ({**NOT_NULL, "meta": {"databus": {"acton": "fail"}}}, "meta.databus has acton"),
        ("nowhere.json", "no file nowhere.json"),
        ([NOT_NULL, NOT_NULL], "expectation names must be unique"),
        (Expectations(NOT_NULL, action="stop"), "action"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_named(given: Any, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        flow(given)
    assert message in raised.value.message
    assert "test_expectations.py" in raised.value.message


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    for name in ("a.json", "a.yaml"):
        (tmp_path / name).write_text("{[")
        with pytest.raises(ConfigError, match=name):
            expectations_of(tmp_path / name)


def test_camel_case_is_great_expectations_class_name() -> None:
    assert Expectation(type="ExpectColumnValuesToBeNull").type == "expect_column_values_to_be_null"


def test_nothing_heavy_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "suite.json").write_text(json.dumps(SUITE))
    code = (
        "import sys\nfrom databus import Flow, Mock, Noop\nfrom databus.checks.expected import expected_checks\n"
        f"f = Flow(name='f', source=Mock(rows=5), sinks=(Noop(),), expectations={str(tmp_path / 'suite.json')!r})\n"
        "assert len(expected_checks(f)) == 2\n"
        "heavy = {'great_expectations', 'pandas', 'numpy', 'pyarrow', 'pyspark', 'yaml'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
