from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.suite.report import HALVES, KINDS, code, outcome, page
from tests.suite.steady import REPORT, ROOT
from tests.unit.suite.inner_run import PYTEST, environment

_TESTS = """
import pytest
def test_one(): pass
@pytest.mark.full
def test_two(): pass
def test_three(): assert False
"""


def part(at: str, passed: int, *failed: str) -> str:
    counts = {kind: list[str]() for kind in KINDS} | {"passed": ["t"] * passed, "failed": list(failed)}
    return outcome(counts, at, 12.34)


def test_a_run_of_all_is_the_page() -> None:
    kept = page("", "full", part("abc", 7), "abc")
    whole = page(kept, "", part("def", 3, "tests/a.py::x"), "def")
    assert "abc" not in whole
    assert whole.startswith("# The last whole run")
    assert "* commit `def`, 20" in whole
    assert "* 3 passed, 1 failed, 0 error, 0 skipped, 0 xfailed, 0 xpassed\n* 12.3 minutes, " in whole
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


def run(folder: Path, *arguments: str) -> tuple[str, str]:
    """Run the tests of a folder; return what the terminal was told, and the report ("" where there is none)."""
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = .\nmarkers = full: f\nfilterwarnings = error\n")
    file = folder / "report.md"
    done = subprocess.run(
        [*PYTEST, "-p", "tests.suite.report", *arguments],
        cwd=folder, check=False, capture_output=True, text=True,
        env=environment(**{REPORT: str(file)}), timeout=240,
    )  # fmt: skip
    return done.stdout + done.stderr, file.read_text() if file.exists() else ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], ["# The last whole run", "* 2 passed, 1 failed", "* failed: `test_x.py::test_three`"]),
        (["-m", "full"], ['## `-m "full"`', "* 1 passed, 0 failed"]),
        (["-m", "not full"], ['## `-m "not full"`', "* 1 passed, 1 failed"]),
        (["-n", "2", "--dist", "loadscope"], ["* 2 passed, 1 failed"]),
    ],
)
def test_a_run_of_all_tests_or_of_a_half_writes_its_report(
    tmp_path: Path, arguments: list[str], told: list[str]
) -> None:
    (tmp_path / "test_x.py").write_text(_TESTS)
    said, report = run(tmp_path, *arguments)
    for line in told:
        assert line in report, said


@pytest.mark.parametrize(
    "arguments",
    [
        ["-k", "one"],
        ["test_x.py"],
        ["-m", "other"],
        ["--deselect", "test_x.py::test_two"],
        ["--ignore", "test_y.py"],
        ["--ignore-glob", "*_y.py"],
        ["--collect-only"],
        ["--setup-plan"],
        ["--setup-only"],
        ["--lf"],
        ["--sw"],
    ],
    ids=" ".join,
)
def test_a_run_of_only_some_tests_writes_no_report(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "test_x.py").write_text(_TESTS)
    (tmp_path / "test_y.py").write_text("def test_four(): pass\n")
    (tmp_path / "report.md").write_text("as it was")
    said, report = run(tmp_path, *arguments)
    assert report == "as it was", said
    assert "no report into" in said
    assert "INTERNALERROR" not in said


@pytest.mark.parametrize("how", ["raise KeyboardInterrupt", "assert 0", "import os; os._exit(9)"])
def test_a_run_that_was_cut_off_leaves_the_report_of_the_last_whole_one(tmp_path: Path, how: str) -> None:
    (tmp_path / "test_x.py").write_text(f"def test_one(): {how}\ndef test_two(): pass\n")
    (tmp_path / "report.md").write_text("as it was")
    arguments = ["-n", "1", "--max-worker-restart=0"] if "exit" in how else ["-x"]
    said, report = run(tmp_path, *arguments)
    assert report == "as it was", said
    assert "no report into" in said
    assert "cut off: " in said


def test_the_report_names_what_was_skipped_or_expected_to_fail(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "import pytest\n@pytest.mark.xfail\ndef test_one(): assert 0\n"
        "@pytest.mark.xfail\ndef test_two(): pass\n@pytest.mark.skip(reason='r')\ndef test_three(): pass\n"
    )
    _, report = run(tmp_path)
    assert "* 0 passed, 0 failed, 0 error, 1 skipped, 1 xfailed, 1 xpassed\n" in report
    for kind, test in (("xfailed", "one"), ("xpassed", "two"), ("skipped", "three")):
        assert f"* {kind}: `test_x.py" in report
        assert kind == "skipped" or f"* {kind}: `test_x.py::test_{test}`" in report


def test_make_hands_the_report_s_place_over_whatever_it_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "a place"
    (folder / ".venv").mkdir(parents=True)
    for name in ("requirements.txt", "pyproject.toml", ".venv/.ready"):
        (folder / name).touch()
    (folder / "Makefile").write_text((ROOT / "Makefile").read_text())
    made = subprocess.run(["make", "-n", "test-full"], cwd=folder, check=True, capture_output=True, text=True)
    words = shlex.split(made.stdout.splitlines()[-1])
    assert words[:3] == [f"{REPORT}={folder}/docs/test_full.md", ".venv/bin/python", "-m"]
