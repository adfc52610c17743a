"""Who a database server runs as, and what it can reach."""

import os
import pwd
from pathlib import Path

from databus.sandbox import os_user
from databus.sandbox.os_user import can_traverse, reachable_cache, reachable_folder

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
