"""The user that database servers run as: they refuse, rightly, to run as root."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import uuid
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox.cache import file_lock

DATABASE_USER = "mysql"
SYSTEM_DATA = Path("/var/lib/databus-sandbox")

_OWNER = "data-id"
"""File with the same text in a server's own folder and beside its data in the system's: they belong together."""


def server_user() -> pwd.struct_passwd:
    """The user for a database server: this one, or, for root, the system user `mysql`, made when it is missing.

    Raises:
        SandboxError: the user cannot be made.
    """
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    with file_lock(Path("/run/lock/databus-user.lock")):
        try:
            return pwd.getpwnam(DATABASE_USER)
        except KeyError:
            pass
        argv = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        argv += ["--shell", "/usr/sbin/nologin", DATABASE_USER]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SandboxError(
                f"the system user {DATABASE_USER} cannot be made: {done.stderr.strip()}",
                hint=f"Make it: sudo {' '.join(argv)}",
            )
        return pwd.getpwnam(DATABASE_USER)


def can_traverse(path: Path, user: pwd.struct_passwd) -> bool:
    """Return whether `user` may pass every folder above `path`; folders that do not exist yet count as passable."""
    for folder in path.absolute().parents:
        try:
            found = folder.stat()
        except FileNotFoundError:
            continue
        if user.pw_uid == 0 or found.st_mode & stat.S_IXOTH:
            continue
        if found.st_uid == user.pw_uid and found.st_mode & stat.S_IXUSR:
            continue
        return False
    return True


def reachable_folder(folder: Path, user: pwd.struct_passwd) -> Path:
    """`folder`, or a place of its own in the system's data when `user` cannot reach it (a private home)."""
    if can_traverse(folder / "any", user):
        return folder
    digest = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]
    return SYSTEM_DATA / digest / folder.name


def reachable_cache(root: Path, user: pwd.struct_passwd) -> Path:
    """The cache `root`, or one in the system's data when `user` cannot reach that."""
    return root if can_traverse(root / "any", user) else SYSTEM_DATA / "cache"


def own(folder: Path, user: pwd.struct_passwd) -> None:
    """Make `folder`, and give it to `user`."""
    if folder.is_relative_to(SYSTEM_DATA):  # made readable whatever the umask says
        for parent in reversed([p for p in folder.parents if p.is_relative_to(SYSTEM_DATA)]):
            parent.mkdir(parents=True, exist_ok=True)
            parent.chmod(0o755)
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(folder, user.pw_uid, user.pw_gid)


def clear_foreign_data(folder: Path, data: Path) -> None:
    """Delete what a removed sandbox, whose home had the same path, left in the system's data.

    Data without a mark, of an earlier version, is kept where the server was started in its folder before.

    Args:
        folder: the server's own folder.
        data: where all of its data goes: `reachable_folder` of the same.
    """
    if not data.is_relative_to(SYSTEM_DATA):
        return
    ours, theirs = folder / _OWNER, data / _OWNER
    known = ours.read_text(encoding="utf-8") if ours.exists() else ""
    found = theirs.read_text(encoding="utf-8") if theirs.exists() else ""
    if known and known == found:
        return
    started_before = any(folder.glob("log/*"))
    if data.exists() and not (started_before and not known and not found):
        shutil.rmtree(data)
    fresh = uuid.uuid4().hex
    for mark in (theirs, ours):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(fresh, encoding="utf-8")


def remove_folder(folder: Path) -> None:
    """Delete a data folder, and the folder made for it in the system's data."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.is_relative_to(SYSTEM_DATA):
        shutil.rmtree(folder.parent, ignore_errors=True)
