"""A run whose failed tests are tried once more, each alone: what passes then is named unsteady, and put on a list.

`python -m tests.suite.steady [pytest's arguments]`; more than five failures, or one that fails twice, fail the run.
The next work begins with the list (docs/unsteady.md): an unsteady test is a fault of the test or of the product.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.suite import child
from tests.suite.whole import Whole, watched

AT_MOST = 5
"""Failures that are tried again; more of them are no matter of unsteadiness."""

LOST = "???: "
"""So begins what is said where a process died: pytest-xdist names no phase."""

TEARDOWN = "teardown: "
"""So begins what is said where a teardown failed: it may be the file's, which a test alone would not repeat."""

FAILURES = "DATABUS_TEST_FAILURES"
"""Variable that names the file into which a run writes which tests failed, with what was said, and which passed;
it is not there where the run did not end."""

REPORT = "DATABUS_TEST_REPORT"
"""Variable that names the file into which a whole run writes its report (`tests.suite.report`)."""

ROOT = Path(__file__).parents[2]
LIST = ROOT / "docs" / "unsteady.md"
NO_COMMIT = "no commit"
_RUN = """
import sys, pytest
try:
    code = pytest.main(sys.argv[1:])
except BaseException:
    sys.excepthook(*sys.exc_info())
    code = 99
sys.exit(code)
"""
"""Python's own exit code of an exception is 1, as pytest's of failed tests is."""

Run = Callable[[Sequence[str]], int]


class Failures:
    """The tests of a run that failed, each with what was said of each of its phases, and those that passed."""

    def __init__(self, file: Path, whole: Whole) -> None:
        self._file, self._whole = file, whole
        self._failed: defaultdict[str, list[str]] = defaultdict(list)
        self._passed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid].append(f"{report.when}: {_said(report)}")
        elif report.passed and report.when == "call":
            self._passed.append(report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost: whether the run was whole is known by then
    def pytest_sessionfinish(self) -> Generator[None]:
        yield
        found = {"failed": self._failed, "passed": self._passed, "stopped": bool(self._whole.why)}
        self._file.write_text(json.dumps(found), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Note failures where the variable asks for it; a run's processes report them to their controller."""
    file = os.environ.pop(FAILURES, None)  # not for a pytest that a test runs
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(Path(file), watched(config)), "failures")


def _said(report: pytest.TestReport) -> str:
    """Return the line that tells what went wrong, at most 200 characters."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    line = next((line for line in text.splitlines() if line.strip()), "nothing was said")
    return line.strip()[:200]


def steady(arguments: Sequence[str], run: Run, failures: Path, unsteady_list: Path, at: str) -> int:
    """Run, try failed tests again, tell what is unsteady; return the exit code.

    Args:
        arguments: pytest's, of the whole run.
        run: runs pytest with arguments, and has it write its failures to `failures`.
        failures: that file.
        unsteady_list: the list that unsteady tests are appended to.
        at: commit and time, for the list.
    """
    code = run(arguments)
    if not failures.exists():
        _say(f"pytest left with {code} before its run ended: nothing is known of it")
        return code or int(pytest.ExitCode.INTERNAL_ERROR)
    if code != pytest.ExitCode.TESTS_FAILED:
        return code
    found = json.loads(failures.read_text(encoding="utf-8"))
    failed: dict[str, list[str]] = found["failed"]
    final = {test: phase for test, said in failed.items() if (phase := _final(said))}
    if found["stopped"] or final or not 0 < len(failed) <= AT_MOST:
        why = f"at most {AT_MOST} are; none of a run that was not whole, none of which only the teardown failed"
        _say(f"{len(failed)} tests failed: not tried again ({why})")
        for test, phase in final.items():
            _say(f"FINAL {test}\n    {phase}")
        return code
    twice = []
    for test, (first, *more) in failed.items():
        of_file = any(phase.startswith(TEARDOWN) for phase in more)
        alone = [test.partition("::")[0], *_tier(arguments)] if of_file else [test]
        _say(f"=== once more, alone: {' '.join(alone)}")
        again = run(alone)
        passed = json.loads(failures.read_text(encoding="utf-8"))["passed"] if failures.exists() else ()
        if again != pytest.ExitCode.OK or test not in passed:  # skipped is not passed
            twice.append(test)
            continue
        _append(unsteady_list, at, test, "; ".join((first, *more)))
        _say("\n    ".join((f"UNSTEADY {test}", f"first {first}", *more)))
    for test in twice:
        _say(f"FAILED TWICE {test}\n    first {failed[test][0]}")
    return int(code) if twice else 0


def _final(said: Sequence[str]) -> str:
    """Return what is not tried again: a lost process, or a teardown that failed though its test did not; "" for none.

    A test that fails leaves behind what its end would have taken away: then its whole file is run once more.
    """
    if lost := next((phase for phase in said if phase.startswith(LOST)), ""):
        return lost
    return said[0] if said[0].startswith(TEARDOWN) else ""


def _tier(arguments: Sequence[str]) -> Sequence[str]:
    """Return the choice of tests by mark among pytest's arguments."""
    at = arguments.index("-m") if "-m" in arguments else len(arguments)
    return arguments[at : at + 2]


def _say(text: str) -> None:
    """Print in what the terminal can show."""
    encoding = sys.stdout.encoding or "ascii"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def _append(unsteady_list: Path, at: str, test: str, first: str) -> None:
    cell = first.replace("|", "\\|").replace("`", "'")
    with unsteady_list.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"| {at} | {test.replace('|', '/')} | `{cell}` |\n")


def commit(root: Path = ROOT) -> str:
    """Return the short name of the commit that is checked out; "no commit" where there is none, or no git."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=root, check=False, capture_output=True, text=True
        )
    except FileNotFoundError:
        return NO_COMMIT
    return found.stdout.strip() or NO_COMMIT


def main(arguments: Sequence[str]) -> int:
    """Run the tests in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        failures = Path(folder) / "failures.json"
        environment = {**os.environ, FAILURES: str(failures)}

        def run(chosen: Sequence[str]) -> int:
            failures.unlink(missing_ok=True)
            code = child.run([sys.executable, "-c", _RUN, *chosen], ROOT, environment)
            environment.pop(REPORT, None)  # one test alone is no run to report
            return code

        at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} {commit()}"
        return steady(arguments, run, failures, LIST, at)


if __name__ == "__main__":
    sys.exit(child.interruptible(lambda: main(sys.argv[1:])))
