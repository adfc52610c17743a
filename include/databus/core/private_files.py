"""Private files: folders that only their owner enters (0700), files that only their owner reads (0600).

What lies there holds rows. Folders that exist already stay as they are: whoever made them decided; `wider` finds them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

FOLDER_MODE, FILE_MODE = 0o700, 0o600
_OTHERS = 0o077


def private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing; one that is there stays as it is."""
    for path in reversed([folder, *folder.parents]):
        if not path.exists():
            path.mkdir(mode=FOLDER_MODE, exist_ok=True)


def private_file(path: Path | str) -> BinaryIO:
    """Open a new file for writing, private from its first byte."""
    return open(path, "wb", opener=private_opener)


def write_private(path: Path | str, data: bytes) -> None:
    """Write a new file, private from its first byte."""
    with private_file(path) as file:
        file.write(data)


def wider(folder: Path, most: int = 100_000) -> Iterator[tuple[Path, int]]:
    """Yield what below a folder, itself included, others than the owner may enter, read or change, with its mode.

    Args:
        folder: the folder, or a file; nothing is found of one that is not there.
        most: entries that are looked at.
    """
    for path in itertools.islice(itertools.chain((folder,), folder.rglob("*")), most):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        if mode & _OTHERS and not path.is_symlink():
            yield path, mode & 0o777


def private_opener(path: str, flags: int) -> int:
    """Return the descriptor of a file that is private where it is new: an opener for `open`."""
    return os.open(path, flags, FILE_MODE)
