from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.suite.groups import TOGETHER, group_of, next_group
from tests.unit.suite.inner_run import PYTEST, environment

E2E, SERVERS, SPARK, UNIT = (
    "tests/e2e/",
    "tests/integration/test_mirror.py",
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

_UNTIL_THE_THIRD_TAKES_ONE = (
    _WHO
    + """
    import time
    until = time.monotonic() + 120
    while "gw2 integration" not in Path({file!r}).read_text():
        assert time.monotonic() < until
        time.sleep(0.01)
"""
)


def taken(process: str, waiting: tuple[str, ...], beside: tuple[str, ...], *, roomy: bool = True) -> tuple[str, ...]:
    """Return the groups that a process takes one after the other, while the others take none."""
    left, found = list(waiting), []
    while (group := next_group(process, left, beside, roomy=roomy)) is not None:
        left.remove(group)
        found.append(group)
    return tuple(found)


@pytest.mark.parametrize(
    ("process", "beside", "groups"),
    [
        ("gw0", ("gw1",), GROUPS),
        ("gw0", ("gw1", "gw2"), (SERVERS, SPARK, UNIT)),
        ("gw1", ("gw0", "gw2"), (SERVERS, SPARK, UNIT)),
        ("gw2", ("gw0", "gw1"), GROUPS),
        ("gw2", ("gw0",), GROUPS),
        ("gw2", (), GROUPS),
        ("gw0", (), GROUPS),
    ],
)
def test_the_third_process_alone_waits_for_airflow(
    process: str, beside: tuple[str, ...], groups: tuple[str, ...]
) -> None:
    assert taken(process, GROUPS, beside) == groups


def test_the_third_process_begins_with_airflow_wherever_it_stands_and_then_takes_server_tests() -> None:
    assert taken("gw2", (SERVERS, UNIT, E2E, SPARK), ("gw0", "gw1")) == (E2E, SERVERS, SPARK, UNIT)


def test_the_first_process_takes_what_asks_for_all_servers_and_the_others_last_but_for_some() -> None:
    of_all = ("tests/integration/test_kill.py", "tests/integration/test_cli.py", "tests/integration/test_path.py")
    assert taken("gw0", (SERVERS, *of_all, UNIT), ("gw1", "gw2")) == (*of_all, SERVERS, UNIT)
    assert taken("gw1", (*of_all, SERVERS, SPARK, UNIT), ("gw0", "gw2")) == (SERVERS, SPARK, UNIT, of_all[0])
    assert taken("gw2", (*of_all, SERVERS, E2E, UNIT), ("gw0", "gw1")) == (E2E, SERVERS, UNIT, of_all[0])
    assert taken("gw1", (*of_all, SERVERS, UNIT), ("gw2",)) == (*of_all, SERVERS, UNIT)


def test_what_has_servers_is_taken_first_whatever_takes_longer() -> None:
    assert taken("gw0", (UNIT, SERVERS, SPARK), ("gw1",)) == (SERVERS, SPARK, UNIT)


def test_where_memory_is_short_the_third_process_takes_no_more_server_tests_than_airflows() -> None:
    assert taken("gw2", GROUPS, ("gw0", "gw1"), roomy=False) == (E2E, SPARK, UNIT)
    assert taken("gw0", GROUPS, ("gw1", "gw2"), roomy=False) == (SERVERS, SPARK, UNIT)
    assert taken("gw2", GROUPS, (), roomy=False) == GROUPS  # nobody else would


@pytest.mark.parametrize("roomy", [True, False])
def test_a_fourth_process_takes_tests_without_servers_alone(*, roomy: bool) -> None:
    assert taken("gw3", GROUPS, ("gw0", "gw1", "gw2"), roomy=roomy) == (UNIT,)


@pytest.mark.parametrize("roomy", [True, False])
def test_no_group_is_left_whatever_processes_are_there(*, roomy: bool) -> None:
    for processes in (
        {"gw0"},
        {"gw2"},
        {"gw0", "gw1"},
        {"gw0", "gw2"},
        {"gw1", "gw2"},
        {"gw0", "gw1", "gw2"},
        {"gw0", "gw1", "gw2", "gw3"},
    ):
        for group in GROUPS:
            takes = [p for p in processes if next_group(p, (group,), processes - {p}, roomy=roomy) == group]
            assert takes, (processes, group)


def test_groups_are_files_and_packages_that_share_what_is_costly() -> None:
    assert group_of("tests/e2e/test_wake.py::test_it[a]") == "tests/e2e/"
    assert group_of("tests/spark/test_checks.py::test_it") == "tests/spark/"
    assert group_of("tests/unit/core/test_lag.py::TestIt::test_it") == "tests/unit/core/test_lag.py"
    assert group_of("tests/integration/test_secrets.py::test_it") == "tests/integration/test_security.py"


def test_files_that_are_taken_together_are_there() -> None:
    root = Path(__file__).parents[3]
    assert [file for files in TOGETHER for file in files if not (root / file).is_file()] == []


def write_tests(root: Path, folder: str, files: int, test: str) -> None:
    """Write files of one test each, which note who runs them."""
    place = root / "tests" / folder
    place.mkdir(parents=True)
    for n in range(files):
        (place / f"test_{folder}_{n}.py").write_text(test.format(n=n, file=str(root / "seen")))


def run(root: Path, processes: int, room_gib: float = 0) -> list[tuple[str, ...]]:
    """Run the tests in so many processes; return (process, folder) of each as they ran."""
    (root / "pytest.ini").write_text("[pytest]\n")
    (root / "conftest.py").write_text(f"from tests.suite import groups\ngroups.ROOM_GIB = {room_gib}\n")
    done = subprocess.run(
        [*PYTEST, "-p", "tests.suite.groups", "--dist=loadscope", "--no-loadscope-reorder",
         "-n", str(processes), "tests"],
        cwd=root, check=False, capture_output=True, text=True, env=environment(),
        timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [tuple(line.split()) for line in (root / "seen").read_text().splitlines()]


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
@pytest.mark.parametrize("folders", [("e2e",), ("integration",), ("e2e", "integration", "unit")])
def test_every_test_of_a_real_run_is_run_once(tmp_path: Path, processes: int, folders: tuple[str, ...]) -> None:
    for folder in folders:
        write_tests(tmp_path, folder, 4, _WHO)
    ran = run(tmp_path, processes)
    assert sorted(folder for _, folder in ran) == sorted(folders * 4)
    if processes >= 3 and len(folders) == 3:
        assert {process for process, folder in ran if folder == "e2e"} == {"gw2"}
    assert {folder for process, folder in ran if process == "gw3"} <= {"unit"}


def test_a_third_process_takes_server_tests_once_airflow_is_over(tmp_path: Path) -> None:
    write_tests(tmp_path, "e2e", 4, _WHO)
    write_tests(tmp_path, "integration", 12, _UNTIL_THE_THIRD_TAKES_ONE)
    ran = run(tmp_path, 3)
    assert [folder for process, folder in ran if process == "gw2"][:5] == ["e2e"] * 4 + ["integration"]
    assert {process for process, folder in ran if folder == "e2e"} == {"gw2"}
    assert len(ran) == 16


def test_without_room_it_takes_none(tmp_path: Path) -> None:
    write_tests(tmp_path, "e2e", 4, _WHO)
    write_tests(tmp_path, "integration", 12, _WHO)
    ran = run(tmp_path, 3, room_gib=2**20)
    assert {folder for process, folder in ran if process == "gw2"} == {"e2e"}
    assert len(ran) == 16
