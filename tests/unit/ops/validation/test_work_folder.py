"""Folders of comparisons: deleted at their end, and by the next comparison where the process was killed."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from databus.ops.validation.work_folder import _delete_left, work_folder

_HOLDS = """
import time
from databus.ops.validation.work_folder import work_folder
with work_folder() as folder:
    (folder / "rows").write_text("rows")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_killed_comparison_s_folder_is_deleted_by_the_next_one_and_a_living_one_s_stays(temporary: Path) -> None:
    elsewhere = temporary / "databus-validate-by-hand"
    elsewhere.mkdir()
    command = [sys.executable, "-c", _HOLDS]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)}
    ) as it:
        assert it.stdout is not None
        theirs = Path(it.stdout.readline().strip())
        try:
            assert theirs.name.startswith(f"databus-validate-{it.pid}-")
            with work_folder() as mine:
                assert theirs.is_dir()
                assert mine.is_dir()
            assert not mine.exists()
        finally:
            it.send_signal(signal.SIGKILL)
    assert (theirs / "rows").exists()
    with work_folder() as mine:
        assert sorted(temporary.iterdir()) == sorted([mine, elsewhere])


def test_one_that_begins_as_another_begins_keeps_its_folder(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, looks = fcntl.flock, 0

    def with_looks(file: Any, how: int) -> None:
        """Let another comparison look for what is left, just before this one's lock and just behind it."""
        nonlocal looks
        mine = how == fcntl.LOCK_EX
        looks += mine
        if mine:
            _delete_left()
        lock(file, how)
        if mine:
            _delete_left()

    monkeypatch.setattr(fcntl, "flock", with_looks)
    with work_folder() as mine:
        _delete_left()
        assert (mine.is_dir(), looks) == (True, 1)
    assert list(temporary.iterdir()) == []
