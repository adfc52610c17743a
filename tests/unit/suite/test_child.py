"""Ctrl-C of a run: what its processes started is stopped before anything ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.suite.steady import ROOT

_TEST = """
import time
from pathlib import Path
import pytest
@pytest.fixture(scope="session", autouse=True)
def server():
    yield
    time.sleep({stops_s})
    Path(__file__).with_suffix(".stopped").touch()
def test_it():
    Path(__file__).with_suffix(".begun").touch()
    time.sleep(60)
"""


@pytest.mark.parametrize(("processes", "stops_s"), [(0, 1.0), (2, 6.5)])
def test_servers_are_stopped_after_an_interrupt(tmp_path: Path, processes: int, stops_s: float) -> None:
    """Pytest-xdist alone would interrupt a process again after five seconds."""
    files = [tmp_path / f"test_{n}.py" for n in range(max(1, processes))]
    for file in files:
        file.write_text(_TEST.format(stops_s=stops_s))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.suite.steady", "-p", "tests.suite.whole", "-p", "no:cacheprovider",
         "-c", str(tmp_path / "pytest.ini"), "-n", str(processes), *map(str, files)],
        cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        # What a shell starts in the background ignores interrupts, and so would this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    until = time.monotonic() + 60
    while not all(file.with_suffix(".begun").exists() for file in files):
        assert time.monotonic() < until
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert all(file.with_suffix(".stopped").exists() for file in files), said
    assert run.returncode == 130, said
