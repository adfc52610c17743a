from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.suite.steady import AT_MOST, FAILURES, REPORT, ROOT, steady
from tests.unit.suite.inner_run import environment


class Runs:
    """Pytest runs that end as they are told to: the whole one, then each test alone."""

    def __init__(self, folder: Path, failed: Sequence[str], again: dict[str, int], code: int = 1):
        self.failures, self.list = folder / "failures.json", folder / "unsteady.md"
        self.list.write_text("")
        self.asked: list[Sequence[str]] = []
        self.whole = ["whole"]
        self.said, self.stopped, self.skipped = ["call: a | b"], False, ()
        self.passes: dict[str, Sequence[str]] = {}
        self._failed, self._again, self._code = failed, again, code

    def __call__(self, arguments: Sequence[str]) -> int:
        self.asked.append(arguments)
        if arguments == self.whole:
            self._write(dict.fromkeys(self._failed, self.said))
            return self._code
        test = arguments[0]
        self._write({}, [] if test in self.skipped or self._again[test] else self.passes.get(test, [test]))
        return self._again[test]

    def _write(self, failed: dict[str, list[str]], passed: Sequence[str] = ()) -> None:
        self.failures.write_text(json.dumps({"failed": failed, "passed": passed, "stopped": self.stopped}))

    def steady(self) -> int:
        return steady(self.whole, self, self.failures, self.list, "today abc")


def test_what_passes_alone_is_unsteady_and_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs(tmp_path, ["a::one", "b::two"], {"a::one": 0, "b::two": 0})
    assert runs.steady() == 0
    assert runs.asked == [["whole"], ["a::one"], ["b::two"]]
    assert (
        runs.list.read_text() == "| today abc | a::one | `call: a \\| b` |\n| today abc | b::two | `call: a \\| b` |\n"
    )
    assert "UNSTEADY a::one\n    first call: a | b\n" in capsys.readouterr().out


@pytest.mark.parametrize("code", [1, 2, 5])
def test_what_fails_twice_or_is_not_there_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    runs = Runs(tmp_path, ["a::one", "b::two"], {"a::one": 0, "b::two": code})
    assert runs.steady() == 1
    assert "FAILED TWICE b::two\n" in capsys.readouterr().out
    assert "b::two" not in runs.list.read_text()


def test_many_failures_are_no_matter_of_unsteadiness(tmp_path: Path) -> None:
    runs = Runs(tmp_path, [f"a::{n}" for n in range(AT_MOST + 1)], {})
    assert runs.steady() == 1
    assert runs.asked == [["whole"]]


@pytest.mark.parametrize(
    "how",
    [
        {"said": ["???: worker gw1 crashed"]},
        {"said": ["teardown: leak"]},
        {"said": ["call: it was late", "???: worker gw1 crashed"]},
        {"stopped": True},
    ],
    ids=["lost", "teardown", "call and lost", "stopped"],
)
def test_a_lost_process_a_teardown_and_a_run_that_was_not_whole_fail_the_run(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    runs = Runs(tmp_path, ["a::one"], {"a::one": 0})
    vars(runs).update(how)
    assert runs.steady() == 1
    assert runs.asked == [["whole"]]


def test_with_a_teardown_that_failed_after_its_test_the_whole_file_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(tmp_path, ["a.py::one"], {"a.py": 0})
    runs.said, runs.passes = ["call: it was late", "teardown: leak"], {"a.py": ["a.py::one", "a.py::two"]}
    runs.whole = ["-n", "3", "-m", "not full", "-x"]
    assert runs.steady() == 0
    assert runs.asked == [runs.whole, ["a.py", "-m", "not full"]]
    assert "UNSTEADY a.py::one\n    first call: it was late\n    teardown: leak\n" in capsys.readouterr().out
    assert "`call: it was late; teardown: leak`" in runs.list.read_text()


def test_what_is_skipped_alone_has_not_passed(tmp_path: Path) -> None:
    runs = Runs(tmp_path, ["a::one"], {"a::one": 0})
    runs.skipped = ("a::one",)
    assert runs.steady() == 1


@pytest.mark.parametrize("code", [0, 2, 3, 4, 5])
def test_only_failed_tests_are_tried_again(tmp_path: Path, code: int) -> None:
    runs = Runs(tmp_path, ["a::one"], {}, code)
    assert runs.steady() == code
    assert runs.asked == [["whole"]]


def test_failures_of_a_real_run_are_noted_with_what_was_said_first(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.fixture\ndef broken():\n    raise OSError('no such thing')\n"
        "@pytest.fixture\ndef ends():\n    yield\n    raise OSError('at the end')\n"
        "def test_fails():\n    assert 1 == 2\n"
        "def test_never_begins(broken): pass\n"
        "def test_fails_and_ends(ends):\n    assert 3 == 4\n"
        "def test_is_well(): pass\n"
    )
    found = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.suite.steady", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, check=False, capture_output=True, env=environment(**{FAILURES: str(found)}),
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    told = json.loads(found.read_text())
    assert [test.partition("::")[2] for test in told["passed"]] == ["test_is_well"]
    assert not told["stopped"]
    assert {test.partition("::")[2]: said for test, said in told["failed"].items()} == {
        "test_fails": ["call: assert 1 == 2"],
        "test_never_begins": ["setup: OSError: no such thing"],
        "test_fails_and_ends": ["call: assert 3 == 4", "teardown: OSError: at the end"],
    }


@pytest.mark.parametrize(
    ("broken", "processes"),
    [("test_other.py", "0"), ("test_other.py", "2"), ("conftest.py", "0"), ("conftest.py", "2")],
)
def test_a_run_that_was_not_whole_is_not_saved_by_its_unsteady_test(
    tmp_path: Path, broken: str, processes: str
) -> None:
    """Under pytest-xdist a file that cannot be imported, and anywhere an error at the end, exit as failed tests do."""
    once = "from pathlib import Path\ndef test_once():\n    p = Path(__file__).with_name('was')\n"
    (tmp_path / "test_it.py").write_text(once + "    was = p.exists(); p.touch(); assert was\n")
    (tmp_path / "test_other.py").write_text("def test_other(): pass\n")
    wrong = "import nothing_of_that_name\n" if broken == "test_other.py" else "def pytest_unconfigure(): 1 / 0\n"
    (tmp_path / broken).write_text(wrong)
    done = run_steady(tmp_path, processes)
    assert done.returncode not in (0, None), done.stdout + done.stderr
    assert "UNSTEADY" not in done.stdout


_ONCE = "from pathlib import Path\ndef first():\n    was = Path(__file__).with_name('was')\n"
_ONCE += "    now = not was.exists(); was.touch(); return now\n"
_PLUGINS = ("xdist", "tests.suite.steady", "tests.suite.groups", "tests.suite.report")


def run_steady(folder: Path, processes: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder as `make test RERUN=1` does."""
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    code = (
        "import sys; from pathlib import Path; from tests.suite import steady\n"
        f"steady.ROOT = Path({str(folder)!r}); steady.LIST = steady.ROOT / 'list.md'\n"
        "sys.exit(steady.main(sys.argv[1:]))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, "-p", "tests.suite.steady", "-n", processes, "--dist=loadscope",
         "--no-loadscope-reorder", "--max-worker-restart=0"],
        cwd=ROOT, check=False, capture_output=True, text=True, timeout=120, errors="backslashreplace",
        env=environment(PYTEST_ADDOPTS=" ".join(f"-p {plugin}" for plugin in _PLUGINS)) | variables,
    )  # fmt: skip


@pytest.mark.parametrize(("again", "code"), [("False", 0), ("True", 1)], ids=["once", "each time"])
def test_a_teardown_of_a_file_that_failed_after_its_test_is_repeated(tmp_path: Path, again: str, code: int) -> None:
    (tmp_path / "test_it.py").write_text(
        _ONCE + "import pytest\n"
        "@pytest.fixture(scope='module', autouse=True)\ndef leak():\n"
        "    now, seen = first(), []\n    yield now, seen\n"
        f"    assert not (now or {again} and len(seen) > 1), 'servers are left behind'\n"
        "def test_one(leak):\n    leak[1].append(1)\n"
        "def test_two(leak):\n    leak[1].append(2)\n    assert not leak[0], 'was late'\n"
    )
    done = run_steady(tmp_path, "0")
    assert done.returncode == code, done.stdout
    assert ("UNSTEADY" in done.stdout) == (code == 0)
    assert ("teardown: AssertionError: servers are left behind" in done.stdout) == (code == 0)


def test_a_process_lost_in_the_teardown_of_a_failed_test_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        _ONCE + "import os, time, pytest\n"
        "@pytest.fixture\ndef dies():\n    now = first()\n    yield now\n"
        "    if now:\n        time.sleep(0.5); os._exit(9)\n"
        "def test_dies(dies):\n    assert not dies\n"
    )
    for n in range(4):
        (tmp_path / f"test_other_{n}.py").write_text("import time\ndef test_it(): time.sleep(0.3)\n")
    done = run_steady(tmp_path, "2")
    assert done.returncode != 0, done.stdout
    assert "UNSTEADY" not in done.stdout


def test_a_process_that_leaves_with_0_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("import os\ndef test_one(): os._exit(0)\ndef test_two(): assert 0\n")
    done = run_steady(tmp_path, "0")
    assert done.returncode == pytest.ExitCode.INTERNAL_ERROR
    assert "pytest left with 0 before its run ended" in done.stdout


@pytest.mark.parametrize(
    ("said", "variables"),
    [("key \\udc80", {}), ("Größe", {"PYTHONIOENCODING": "ascii"}), ("it", {"PATH": "/nowhere"})],
    ids=["a lone surrogate", "an ASCII terminal", "no git"],
)
def test_whatever_was_said_an_unsteady_test_is_listed(tmp_path: Path, said: str, variables: dict[str, str]) -> None:
    (tmp_path / "test_x.py").write_text(_ONCE + f"def test_one():\n    assert not first(), '{said}'\n")
    done = run_steady(tmp_path, "0", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "UNSTEADY test_x.py::test_one" in done.stdout
    assert "test_x.py::test_one" in (tmp_path / "list.md").read_text()


def test_a_report_is_of_the_whole_run_and_not_of_what_runs_again(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(_ONCE + "def test_one():\n    assert not first()\ndef test_two(): pass\n")
    report = tmp_path / "report.md"
    done = run_steady(tmp_path, "0", **{REPORT: str(report)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "UNSTEADY test_x.py::test_one" in done.stdout
    assert "no report into" not in done.stdout
    assert "* 1 passed, 1 failed," in report.read_text()
