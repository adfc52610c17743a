from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.suite.inner_run import PYTEST, environment


@pytest.mark.parametrize("processes", ["0", "2"])
def test_each_file_is_told_once(tmp_path: Path, processes: str) -> None:
    """Where one process runs all, pytest would write a line of the file beside it."""
    for name in ("one", "two"):
        (tmp_path / f"test_{name}.py").write_text("def test_it(): pass\ndef test_other(): pass\n")
    done = subprocess.run(
        [*PYTEST, "-p", "tests.suite.progress", "-n", processes],
        cwd=tmp_path, check=False, capture_output=True, text=True, env=environment(),
    )  # fmt: skip
    told = [line.split()[-1] for line in done.stdout.splitlines() if "test_" in line and "rootdir" not in line]
    assert sorted(told) == ["test_one.py", "test_two.py"], done.stdout
    assert "4 passed" in done.stdout
