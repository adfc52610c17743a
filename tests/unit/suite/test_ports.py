from __future__ import annotations

import re
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.ports import AIRFLOW, APART, FIRST, PROCESSES, ports_from
from tests.suite.steady import ROOT
from tests.unit.suite.inner_run import PYTEST, environment

EPHEMERAL = 32_768
"""First port of those that the kernel takes for outgoing connections."""

ASKED = re.compile(r"\bports_from\((\d[\d_]*)\)")
WIDEST = 60
"""A sandbox takes fewer ports than that."""


def asked() -> list[tuple[str, int]]:
    """Return each first port that a test's sandbox asks for, with its file."""
    found = [
        (file.relative_to(ROOT / "tests").as_posix(), int(first))
        for file in sorted((ROOT / "tests").rglob("*.py"))
        for first in sorted({*ASKED.findall(file.read_text(encoding="utf-8"))})
        if file.name != "test_ports.py"
    ]
    assert len(found) > 15
    return found


def test_the_processes_ranges_lie_apart_and_where_the_kernel_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    firsts = []
    for process in ("gw0", "gw1", "gw2"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", process)
        firsts.append(ports_from(FIRST))
    ranges = sorted((first, first + APART) for first in firsts)
    assert all(before[1] <= after[0] for before, after in pairwise(ranges))
    assert ranges[0][0] > 1024
    assert ranges[-1][1] <= EPHEMERAL


def test_more_processes_than_ranges_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{PROCESSES}")
    with pytest.raises(ValueError, match="gw3 has no ports of its own: a run has at most 3 processes"):
        ports_from(FIRST)
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    done = subprocess.run(
        [*PYTEST, "-p", "tests.suite.groups", "-n", f"{PROCESSES + 2}", "--dist=loadscope"],
        cwd=tmp_path, check=False, capture_output=True, text=True, env=environment(),
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "5 processes: servers have ports for 3, one more takes tests without servers (PROCESSES=4)" in done.stderr


@pytest.mark.parametrize(("file", "first"), asked())
def test_each_sandbox_has_its_place_in_the_range(file: str, first: int) -> None:
    assert FIRST <= first < FIRST + APART - WIDEST
    assert (first in AIRFLOW) == file.startswith("e2e/")


def test_no_two_files_ask_for_the_same_ports() -> None:
    assert [first for first, files in Counter(first for _, first in asked()).items() if files > 1] == []
