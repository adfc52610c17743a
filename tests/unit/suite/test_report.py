from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite.report import FILE, HALVES, code, outcome, page
from tests.suite.steady import ROOT

_TESTS = """
import pytest
def test_one(): pass
@pytest.mark.full
def test_two(): pass
def test_three(): assert False
"""


def part(at: str, passed: int, *failed: str, why_cut_off: str = "") -> str:
    counts = {"passed": ["t"] * passed, "failed": list(failed), "error": [], "skipped": []}
    return outcome(counts, at, 12.34, why_cut_off)


def test_a_run_of_all_is_the_page() -> None:
    kept = page("", "full", part("abc", 7), "abc")
    whole = page(kept, "", part("def", 3, "tests/a.py::x"), "def")
    assert "abc" not in whole
    assert whole.startswith("# The last whole run")
    assert "* commit `def`, 20" in whole
    assert "* 3 passed, 1 failed, 0 error, 0 skipped\n* 12.3 minutes, " in whole
    assert whole.endswith("* failed: `tests/a.py::x`\n")


@pytest.mark.parametrize("order", [HALVES, HALVES[::-1]])
def test_two_halves_at_one_commit_make_the_page_whichever_is_run_first(order: tuple[str, str]) -> None:
    passed = {"not full": 4000, "full": 70}
    text = page("what was there\n", order[0], part("abc", passed[order[0]]), "abc")
    assert text.count("* not run at this commit") == 1
    text = page(text, order[1], part("abc", passed[order[1]]), "abc")
    assert "not run at this commit" not in text
    first, second = text.split("\n## ")[1:]
    assert first.startswith('`-m "not full"`\n\n* commit `abc`, ')
    assert "* 4000 passed" in first
    assert second.startswith('`-m "full"`\n\n* commit `abc`, ')
    assert "* 70 passed" in second
    assert page(text, "full", part("abc", 71), "abc").replace("71", "70") == text


def test_a_half_of_another_commit_is_taken_off() -> None:
    text = page(page("", "full", part("abc", 70), "abc"), "not full", part("def", 4000), "def")
    assert "abc" not in text
    assert "70 passed" not in text
    assert '## `-m "full"`\n\n* not run at this commit\n' in text


def test_code_that_no_commit_holds_is_told(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        told = ["-c", "user.name=n", "-c", "user.email=e", *arguments]
        subprocess.run(["git", *told], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "docs").mkdir()
    for name in ("a.py", "docs/test_full.md"):
        (tmp_path / name).write_text("1")
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    name = code(tmp_path)
    assert name.isalnum()
    (tmp_path / "docs" / "test_full.md").write_text("the page itself")
    assert code(tmp_path) == name
    (tmp_path / "b.py").write_text("2")
    assert code(tmp_path) == f"{name} with changes"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], ["# The last whole run", "* 2 passed, 1 failed", "* failed: `test_x.py::test_three`"]),
        (["-m", "full"], ['## `-m "full"`', "* 1 passed, 0 failed"]),
        (["-m", "not full"], ['## `-m "not full"`', "* 1 passed, 1 failed"]),
        (["-n", "2", "--dist", "loadscope"], ["* 2 passed, 1 failed"]),
        (["-x"], ["* cut off: stopping after 1 failures"]),
        (["-k", "one"], []),
        (["test_x.py"], []),
        (["-m", "other"], []),
    ],
)
def test_a_run_of_only_some_tests_writes_no_report(tmp_path: Path, arguments: list[str], told: list[str]) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = .\nmarkers = full: f\n")
    (tmp_path / "test_x.py").write_text(_TESTS)
    file = tmp_path / "report.md"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.suite.report", "-p", "no:cacheprovider", *arguments],
        cwd=tmp_path, check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), FILE: str(file)}, timeout=240,
    )  # fmt: skip
    assert file.exists() == bool(told), done.stdout + done.stderr
    if not told:
        assert "no report into" in done.stdout
    for line in told:
        assert line in file.read_text(), done.stdout + done.stderr
