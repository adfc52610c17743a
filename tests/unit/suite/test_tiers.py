from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite.groups import group_of, seconds_of
from tests.suite.steady import ROOT
from tests.suite.tiers import FULL, Full


def functions(file: Path) -> list[str]:
    return [node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("entry", FULL, ids=lambda entry: f"{entry.file}-{entry.test[:40]}-{entry.case}")
def test_each_entry_names_a_test_and_what_stays_of_it(entry: Full) -> None:
    assert any(name.startswith(entry.test or "test_") for name in functions(ROOT / "tests" / entry.file))
    assert entry.stays


def test_an_entry_has_its_cases_only() -> None:
    entry = Full("a/test_x.py", "test_it", "mysql", "the other")
    assert entry.has("tests/a/test_x.py::test_it_works[mysql-1]")
    assert entry.has("tests/a/test_x.py::TestClass::test_it[mysql]")
    assert not entry.has("tests/a/test_x.py::test_it_works[mariadb]")
    assert not entry.has("tests/a/test_x.py::test_it_works")
    assert not entry.has("tests/b/test_x.py::test_it_works[mysql]")
    assert Full("a/test_x.py", "", "", "").has("tests/a/test_x.py::test_other[1]")


@pytest.mark.parametrize(("chosen", "passed"), [(["-m", "not full"], 2), (["-m", "full"], 1), ([], 3)])
def test_the_marker_leaves_out_what_is_listed_and_nothing_else(tmp_path: Path, chosen: list[str], passed: int) -> None:
    (tmp_path / "test_tiered.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('server', ['a', 'b'])\ndef test_it(server): pass\n"
        "def test_other(): pass\n"
    )
    (tmp_path / "conftest.py").write_text(
        "from tests.suite import tiers\ntiers.FULL = (tiers.Full('test_tiered.py', 'test_it', 'b', '[a]'),)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.suite.tiers", "-p", "no:cacheprovider", *chosen, str(tmp_path)],
        cwd=tmp_path, check=False, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr


def test_groups_go_by_file_but_for_what_is_costly_to_start() -> None:
    assert group_of("tests/e2e/test_airflow.py::test_x") == "tests/e2e/"
    assert group_of("tests/integration/test_kill.py::test_x[a::b]") == "tests/integration/test_kill.py"
    assert seconds_of("tests/e2e/") > seconds_of("tests/integration/test_kill.py") > 0
    assert seconds_of("tests/unit/not/measured.py") < seconds_of("tests/integration/not_measured.py")
