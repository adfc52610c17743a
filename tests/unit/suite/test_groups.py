from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite.groups import group_of, takes
from tests.suite.steady import ROOT

E2E, SERVERS, SPARK, UNIT = (
    "tests/e2e/",
    "tests/integration/test_kill.py",
    "tests/spark/",
    "tests/unit/core/test_lag.py",
)
GROUPS = (E2E, SERVERS, SPARK, UNIT)

_WHO = """
import os
from pathlib import Path
def test_{n}():
    with open({file!r}, "a") as f:
        f.write(os.environ["PYTEST_XDIST_WORKER"] + " " + Path(__file__).parent.name + "\\n")
"""


@pytest.mark.parametrize(
    ("process", "beside", "taken"),
    [
        ("gw0", ("gw1",), GROUPS),
        ("gw0", ("gw1", "gw2"), (SERVERS, SPARK, UNIT)),
        ("gw1", ("gw0", "gw2"), (SERVERS, SPARK, UNIT)),
        ("gw2", ("gw0", "gw1"), (E2E, SPARK, UNIT)),
        ("gw2", ("gw0",), (E2E, SPARK, UNIT)),
        ("gw2", (), GROUPS),
        ("gw0", (), GROUPS),
    ],
)
def test_the_third_process_waits_for_airflow_and_starts_no_other_servers(
    process: str, beside: tuple[str, ...], taken: tuple[str, ...]
) -> None:
    assert tuple(group for group in GROUPS if takes(process, group, beside)) == taken


def test_no_group_is_left_whatever_processes_are_there() -> None:
    for processes in ({"gw0"}, {"gw2"}, {"gw0", "gw1"}, {"gw0", "gw2"}, {"gw1", "gw2"}, {"gw0", "gw1", "gw2"}):
        for group in GROUPS:
            assert any(takes(process, group, processes - {process}) for process in processes), (processes, group)


def test_groups_are_files_and_packages_that_share_what_is_costly() -> None:
    assert group_of("tests/e2e/test_wake.py::test_it[a]") == "tests/e2e/"
    assert group_of("tests/spark/test_checks.py::test_it") == "tests/spark/"
    assert group_of("tests/unit/core/test_lag.py::TestIt::test_it") == "tests/unit/core/test_lag.py"


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("folders", [("e2e",), ("integration",), ("e2e", "integration", "unit")])
def test_every_test_of_a_real_run_is_run_once(tmp_path: Path, processes: int, folders: tuple[str, ...]) -> None:
    seen = tmp_path / "seen"
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for folder in folders:
        place = tmp_path / "tests" / folder
        place.mkdir(parents=True)
        for n in range(4):
            (place / f"test_{folder}_{n}.py").write_text(_WHO.format(n=n, file=str(seen)))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.suite.groups", "--dist=loadscope", "--no-loadscope-reorder",
         "-n", str(processes), "tests"],
        cwd=tmp_path, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [tuple(line.split()) for line in seen.read_text().splitlines()]
    assert sorted(folder for _, folder in ran) == sorted(folders * 4)
    if processes == 3 and len(folders) == 3:
        assert {process for process, folder in ran if folder == "e2e"} == {"gw2"}
        assert "gw2" not in {process for process, folder in ran if folder == "integration"}
