"""Who a database server runs as, and what it can reach."""

import os
import pwd
import shutil
from pathlib import Path

import pytest

from databus.sandbox import os_user
from databus.sandbox.os_user import can_traverse, clear_foreign_data, reachable_cache, reachable_folder

NOBODY = pwd.getpwnam("nobody")


def test_a_private_folder_above_cannot_be_passed(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    assert not can_traverse(private / "below" / "data", NOBODY)
    assert can_traverse(private / "below" / "data", pwd.getpwuid(os.geteuid()))


def test_data_below_a_private_folder_moves_to_a_place_of_its_own(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    moved = {reachable_folder(private / name / "mysql", NOBODY) for name in ("one", "two")}
    assert len(moved) == 2
    assert all(folder.is_relative_to(os_user.SYSTEM_DATA) and folder.name == "mysql" for folder in moved)
    assert reachable_cache(private, NOBODY).is_relative_to(os_user.SYSTEM_DATA)


def test_reachable_folders_stay() -> None:
    folder = Path("/") / "databus-test-that-does-not-exist" / "mysql"
    assert reachable_folder(folder, NOBODY) == folder


def _started(home: Path, data: Path) -> Path:
    """Start a server in a home, as far as its data goes; return a file that it wrote."""
    clear_foreign_data(home, data)
    (home / "log").mkdir(parents=True, exist_ok=True)
    (home / "log" / "server.log").touch()
    data.mkdir(parents=True, exist_ok=True)
    written = data / "ibdata1"
    written.touch()
    return written


def test_a_new_home_begins_without_the_data_that_a_removed_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os_user, "SYSTEM_DATA", tmp_path / "system")
    home, data = tmp_path / "home" / "mysql", tmp_path / "system" / "digest" / "mysql"
    written = _started(home, data)
    clear_foreign_data(home, data)
    assert written.exists()  # started again
    shutil.rmtree(home)
    clear_foreign_data(home, data)
    assert not written.exists()
    written = _started(home, data)
    clear_foreign_data(home, data)
    assert written.exists()


def test_data_of_an_earlier_version_stays_with_the_home_that_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os_user, "SYSTEM_DATA", tmp_path / "system")
    home, data = tmp_path / "home" / "mysql", tmp_path / "system" / "digest" / "mysql"
    written = _started(home, data)
    for mark in (home, data):
        (mark / "data-id").unlink()
    clear_foreign_data(home, data)
    assert written.exists()
    (home / "log" / "server.log").unlink()
    (home / "data-id").unlink()
    (data / "data-id").unlink()
    clear_foreign_data(home, data)
    assert not written.exists()
