"""Whether a run was whole: what a lost process, wherever it is lost, makes of a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.suite.inner_run import PYTEST, environment

IN_PROCESSES = ["--dist=loadscope", "--no-loadscope-reorder", "--max-worker-restart=0"]  # as in the Makefile

_NO_ROOM = "from tests.suite import groups\ngroups.ROOM_GIB = groups.SCARCE_GIB = 2**20\n"
"""The third process takes Airflow's tests alone, and ends before the others."""

_DIES_BEFORE_IT_SAYS_SO = """
import os, pytest
@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    if os.environ.get('PYTEST_XDIST_WORKER') == 'gw2':
        os._exit(9)
"""

_DIES_AS_PYTHON_ENDS = """
import atexit, os, signal
if os.environ.get('PYTEST_XDIST_WORKER') == 'gw1':
    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
"""

_NEVER_ENDS = """
import atexit, os, time
from tests.suite import whole
from xdist.workermanage import NodeManager
NodeManager.EXIT_TIMEOUT = whole._KILLED_AFTER_S = 9
whole._STANDS_AFTER_S = 0.5
def stands_here():
    time.sleep(60)
if os.environ.get('PYTEST_XDIST_WORKER') == 'gw1':
    atexit.register(stands_here)
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder, in groups."""
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    return subprocess.run(
        [*PYTEST, "-p", "tests.suite.whole", "-p", "tests.suite.groups", *arguments],
        cwd=folder, check=False, capture_output=True, text=True, timeout=120,
        env=environment(),
    )  # fmt: skip


def write_tests(folder: Path, test: str = "def test_it(): time.sleep(0.3)") -> None:
    """Write one test of Airflow, and twelve of servers that take longer."""
    for package in ("e2e", "integration"):
        (folder / "tests" / package).mkdir(parents=True)
    (folder / "tests" / "e2e" / "test_e.py").write_text("def test_e(): pass\n")
    for n in range(12):
        (folder / "tests" / "integration" / f"test_{n:02d}.py").write_text(f"import time\n{test}\n")


def test_a_process_lost_between_tests_fails_the_run(tmp_path: Path) -> None:
    """Nothing is pending in it: pytest-xdist has no test to call failed, stops, and ends with 0."""
    write_tests(tmp_path)
    (tmp_path / "conftest.py").write_text(_NO_ROOM + _DIES_BEFORE_IT_SAYS_SO)
    done = run(tmp_path, "-n", "3", *IN_PROCESSES)
    assert done.returncode == 1, done.stdout
    assert "cut off: process gw2 ended before it was done (exit code 9), " in done.stdout
    assert "of 13 tests did not run" in done.stdout


def test_a_process_that_dies_as_python_ends_fails_the_run(tmp_path: Path) -> None:
    write_tests(tmp_path, "def test_it(): pass")
    (tmp_path / "conftest.py").write_text(_DIES_AS_PYTHON_ENDS)
    done = run(tmp_path, "-n", "2", *IN_PROCESSES)
    assert "13 passed" in done.stdout
    assert done.returncode == 1, done.stdout
    assert "cut off: process gw1 died as it ended, after its last test (SIGSEGV)" in done.stdout


def test_where_a_process_stands_that_does_not_end_is_told(tmp_path: Path) -> None:
    write_tests(tmp_path, "def test_it(): pass")
    (tmp_path / "conftest.py").write_text(_NEVER_ENDS)
    done = run(tmp_path, "-n", "2", *IN_PROCESSES)
    assert done.returncode == 0, done.stdout
    told = done.stdout.partition("process gw1 did not end after its last test, and was killed")[2]
    assert " in stands_here" in told, done.stdout


@pytest.mark.parametrize("processes", ["0", "3"])
@pytest.mark.parametrize("chosen", [(), ("-k", "test_e"), ("--collect-only",), ("-k", "nothing")], ids=" ".join)
def test_a_whole_run_is_called_so(tmp_path: Path, processes: str, chosen: tuple[str, ...]) -> None:
    write_tests(tmp_path, "def test_it(): pass")
    done = run(tmp_path, "-n", processes, *IN_PROCESSES, *chosen)
    assert done.returncode == (5 if "nothing" in chosen else 0), done.stdout
    assert "cut off" not in done.stdout.replace("cut off: no tests collected", "")


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_run_that_collects_not_all_fails(tmp_path: Path, processes: str) -> None:
    write_tests(tmp_path, "def test_it(): pass")
    (tmp_path / "tests" / "integration" / "test_00.py").write_text("import nothing_of_that_name\n")
    done = run(tmp_path, "-n", processes, *IN_PROCESSES)
    assert done.returncode != 0, done.stdout
    assert "cut off: tests/integration/test_00.py could not be collected" in done.stdout


def test_a_test_that_leaves_with_0_fails_the_run(tmp_path: Path) -> None:
    write_tests(tmp_path, "import pytest\ndef test_it(): pytest.exit('enough', returncode=0)")
    done = run(tmp_path)
    assert done.returncode == 1, done.stdout
    assert "cut off: enough" in done.stdout or "tests did not run" in done.stdout
