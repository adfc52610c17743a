from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.suite.groups import group_of, seconds_of
from tests.suite.steady import ROOT
from tests.suite.tiers import COLLECTED, FULL, Full
from tests.unit.suite.inner_run import environment

CASE = re.compile(r"\[([\w-]+)\]")
FILE = re.compile(r"[\w/*]*test_[\w*]+\.py")
FUNCTION = re.compile(r"\btest_\w+\b(?!\*|\.py)")


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest) -> list[str]:
    """Return each test of the files that the tiers name, as pytest names them: this run's, where it is of all files."""
    files = sorted({f"tests/{entry.file}" for entry in FULL})
    here = request.config.stash.get(COLLECTED, [])
    whole = not any("::" in argument for argument in request.config.args)
    if whole and {test.partition("::")[0] for test in here}.issuperset(files):
        return here
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-n", "0", *files],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def function_of(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def test_each_entry_has_tests_and_what_it_says_stays_does(collected: list[str]) -> None:
    of_file, entries = defaultdict[str, list[str]](list), defaultdict[str, list[Full]](list)
    for entry in FULL:
        entries[entry.file].append(entry)
    for test in collected:
        of_file[test.partition("::")[0].removeprefix("tests/")].append(test)
    whole_files = {f"tests/{entry.file}" for entry in FULL if not entry.test and not entry.case}
    wrong = []
    for entry in FULL:
        tests = [test for test in of_file[entry.file] if entry.has(test)]
        stay = {test for test in of_file[entry.file] if not any(other.has(test) for other in entries[entry.file])}
        functions = {function_of(test) for test in tests}
        roots = (ROOT / "tests", ROOT / "tests" / Path(entry.file).parent)
        beside = [function_of(test) for test in stay]

        def files(pattern: str, roots: tuple[Path, ...] = roots) -> set[str]:
            found = {path.relative_to(ROOT).as_posix() for root in roots for path in root.glob(pattern)}
            return found - whole_files

        cases, named = CASE.findall(entry.stays), FUNCTION.findall(entry.stays)
        gone = [f"[{case}]" for case in cases if not any(t.startswith(f"{f}[{case}") for f in functions for t in stay)]
        gone += [file for file in FILE.findall(entry.stays) if not files(file)]
        gone += [name for name in named if not any(f.rpartition("::")[2].startswith(name) for f in beside)]
        if gone or not tests or not entry.stays:
            wrong.append((entry, f"{len(tests)} tests; do not stay: {gone}"))
    assert wrong == []


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
        cwd=tmp_path, check=False, capture_output=True, text=True, env=environment(),
    )  # fmt: skip
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr


def test_groups_go_by_file_but_for_what_is_costly_to_start() -> None:
    assert group_of("tests/e2e/test_airflow.py::test_x") == "tests/e2e/"
    assert group_of("tests/integration/test_kill.py::test_x[a::b]") == "tests/integration/test_kill.py"
    assert seconds_of("tests/e2e/") > seconds_of("tests/integration/test_kill.py") > 0
    assert seconds_of("tests/unit/not/measured.py") < seconds_of("tests/integration/not_measured.py")
