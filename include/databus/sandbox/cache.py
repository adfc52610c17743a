"""Downloaded servers, kept between runs: each folder is made whole or not at all, once among parallel runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; blocks until it is free, and the kernel frees it when the holder dies.

    Not re-entrant: the same thread asking twice waits for ever.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


def cache_root() -> Path:
    """`$DATABUS_CACHE`, or `databus` in the user's cache folder (`$XDG_CACHE_HOME`, `~/.cache`)."""
    if chosen := os.environ.get("DATABUS_CACHE"):
        return Path(chosen).expanduser().absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser().absolute() / "databus"


def cached_folder(name: str, recipe: str, make: Callable[[Path], None], root: Path | None = None) -> Path:
    """The folder `<root>/<name>-<digest of recipe>`, made by `make` when it is not there.

    Idempotent and safe between processes: one makes it under a lock, in a temporary folder renamed at the end; the
    others wait for the lock. A changed recipe makes a new folder and leaves the old one, which a server may still use.

    Args:
        name: server and version, such as `kafka-4.3.1`.
        recipe: all that decides the content (pom, sources).
        make: fills the empty folder it is given; an exception leaves no trace.
        root: the cache, by default `cache_root()`.
    """
    root = cache_root() if root is None else root
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]
    folder = root / f"{name}-{digest}"
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with file_lock(root / f".{folder.name}.lock"):
        if folder.is_dir():
            return folder
        building = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=root))
        try:
            make(building)
            # mkdtemp makes it private; mysqld and mariadbd read their files as another user.
            building.chmod(0o755)
            building.rename(folder)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
    return folder
