"""Folder of a comparison's files; what killed processes left is deleted at the start of the next comparison."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)

_PREFIX = "databus-validate-"
_NAME = re.compile(rf"{_PREFIX}(\d+)-\w+")
_LOCK, _UNLOCKED = "lock", "lock.new"


@contextmanager
def work_folder() -> Iterator[Path]:
    """Give an empty private folder in TMPDIR, with the process's number in its name; delete it at the end.

    The folder is held by a lock on a file in it, which ends with the process: numbers of processes are told apart on
    one machine only, and containers may share TMPDIR.

    Raises:
        OSError: there is no room, or no right.
    """
    _delete_left()
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as name:
        folder = Path(name)
        with (folder / _UNLOCKED).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / _UNLOCKED).rename(folder / _LOCK)  # others find it locked, or not at all
            yield folder


def _delete_left() -> None:
    """Delete the folders of this user that no live process holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            mine = folder.lstat().st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
            if mine and _NAME.fullmatch(folder.name) and _left(folder):
                shutil.rmtree(folder, ignore_errors=True)
                log.info("deleted %s: its comparison was killed", folder)
        except OSError:  # another process deletes it just now
            continue


def _left(folder: Path) -> bool:
    with (folder / _LOCK).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
