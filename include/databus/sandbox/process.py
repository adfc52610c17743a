"""Processes that the sandbox starts: known by pid and start time, marked, signalled without races.

A pid alone is recycled by the kernel, so a process is identified by (pid, start time in ticks, boot id) and is
signalled through a pidfd that was opened before that identity was checked. Every process carries a mark in its
environment, which its children inherit: it finds those that left the session or outlived their leader. Source of the
fields: proc(5), pidfd_open(2).
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_PACKAGE_ROOT = Path(__file__).resolve().parents[2]
LOCAL_HOSTS = "127.0.0.1,localhost"

MARK_VARIABLE = "DATABUS_SANDBOX_MARK"
_POLL_S = 0.05
_NO_PROCESS = {errno.ESRCH, errno.ENOENT, errno.EINVAL}
"""Answers of pidfd_open to a number that nobody has, or that a thread has now (EINVAL, since Linux 6.9 ENOENT)."""
_children: dict[int, subprocess.Popen[bytes]] = {}
"""Processes of this interpreter's own, kept so that they are reaped and not left as zombies."""


@dataclass(frozen=True)
class ProcessIdentity:
    """Process identity for good: a recycled pid has another start time, a restarted machine another boot id."""

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True)
class Command:
    """A program to run.

    Attributes:
        role: its name within the server, unique there (`broker-1`, `scheduler`).
        argv: program and arguments.
        cwd: working folder.
        log: file that its output is appended to.
        env: variables set on top of the caller's environment.
        unset: variables of the caller that must not be inherited.
    """

    role: str
    argv: tuple[str, ...]
    cwd: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ("PYTHONDONTWRITEBYTECODE",)

    def environment(self) -> dict[str, str]:
        """The full environment of the new process."""
        inherited = {k: v for k, v in os.environ.items() if k not in self.unset}
        return {**inherited, **self.env}


@cache
def boot_id() -> str:
    """Identity of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@dataclass(frozen=True)
class _Stat:
    pid: int
    state: str
    parent: int
    session: int
    start_ticks: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name (field 2) may hold spaces and brackets: count from the last bracket.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(pid, fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def _all_stats() -> list[_Stat]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [stat for pid in pids if (stat := _stat(pid)) is not None and stat.state not in "ZX"]


def identify(pid: int) -> ProcessIdentity | None:
    """Identity of the live process with this pid; None if there is none (a zombie counts as none)."""
    _reap(pid)
    stat = _stat(pid)
    if stat is None or stat.state in "ZX":
        return None
    return ProcessIdentity(pid, stat.start_ticks, boot_id())


def is_alive(process: ProcessIdentity) -> bool:
    """Return whether exactly this process still runs (a stopped one does)."""
    return identify(process.pid) == process


def is_paused(process: ProcessIdentity) -> bool:
    """Return whether exactly this process exists and is stopped by SIGSTOP."""
    stat = _stat(process.pid)
    return is_alive(process) and stat is not None and stat.state in "Tt"


def spawn(command: Command, mark: str) -> ProcessIdentity:
    """Start `command` as leader of a session of its own, marked with `mark`.

    Raises:
        OSError: the program cannot be run.
    """
    command.log.parent.mkdir(parents=True, exist_ok=True)
    command.cwd.mkdir(parents=True, exist_ok=True)
    with command.log.open("ab") as log:
        child = subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env={**command.environment(), MARK_VARIABLE: mark},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[child.pid] = child
    stat = _stat(child.pid)
    # An unreaped child keeps its pid, so its entry is there even when it has already ended.
    return ProcessIdentity(child.pid, stat.start_ticks if stat else 0, boot_id())


def members(leaders: Iterable[ProcessIdentity], mark: str) -> list[ProcessIdentity]:
    """All live processes that belong to `leaders` or carry a mark equal to `mark` or starting with `mark:`.

    Belonging means: the leader itself, its session, its descendants. A leader that is gone, or whose pid is now
    another's, contributes nothing: then only the mark counts.
    """
    stats = _all_stats()
    live = {leader.pid for leader in leaders if is_alive(leader)}
    found = {stat.pid for stat in stats if stat.pid in live or stat.session in live}
    grown = True
    while grown:
        children = {stat.pid for stat in stats if stat.parent in found} - found
        found |= children
        grown = bool(children)
    found |= {stat.pid for stat in stats if _has_mark(stat.pid, mark)}
    found.discard(os.getpid())
    return [ProcessIdentity(stat.pid, stat.start_ticks, boot_id()) for stat in stats if stat.pid in found]


def _has_mark(pid: int, mark: str) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    return any(item == wanted or item.startswith(wanted + b":") for item in environ.split(b"\0"))


def send(process: ProcessIdentity, number: signal.Signals) -> bool:
    """Send a signal to exactly this process; False if it is gone. A recycled pid is never hit."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError as error:
        if error.errno in _NO_PROCESS:
            return False
        raise
    try:
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True


def wait_gone(processes: Sequence[ProcessIdentity], timeout_s: float) -> list[ProcessIdentity]:
    """Wait until all have ended; returns those that have not when the time is up."""
    deadline = time.monotonic() + timeout_s
    left = [process for process in processes if is_alive(process)]
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = [process for process in left if is_alive(process)]
    return left


def kill_all(leaders: Sequence[ProcessIdentity], mark: str, timeout_s: float = 10.0) -> list[ProcessIdentity]:
    """SIGKILL every member, also those forked meanwhile; returns what is left (a process in uninterruptible sleep)."""
    deadline = time.monotonic() + timeout_s
    while left := members(leaders, mark):
        for process in left:
            send(process, signal.SIGKILL)
        left = wait_gone(left, 1.0)
        if left and time.monotonic() > deadline:
            return left
    return []


def stop_all(leaders: Sequence[ProcessIdentity], mark: str, grace_s: float) -> list[ProcessIdentity]:
    """SIGTERM the leaders, then their remaining members, then SIGKILL; returns what is left.

    A leader first gets its chance to end its children in order. Paused processes are resumed, else they could not end.
    """
    for process in members(leaders, mark):
        send(process, signal.SIGCONT)
    for leader in leaders:
        send(leader, signal.SIGTERM)
    wait_gone(leaders, grace_s)
    orphans = members(leaders, mark)
    for process in orphans:
        send(process, signal.SIGTERM)
    wait_gone(orphans, min(grace_s, 5.0))
    return kill_all(leaders, mark)


def _reap(pid: int) -> None:
    child = _children.get(pid)
    if child is not None:
        with suppress(OSError):
            if child.poll() is not None:
                _children.pop(pid, None)


def python_environment() -> dict[str, str]:
    """Return an environment with this interpreter in `PATH`, this package in `PYTHONPATH`, no local proxy."""
    inherited = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    # A relative entry means another folder in a process that works elsewhere.
    absolute = [str(Path(part).absolute()) for part in inherited]
    python_path = dict.fromkeys([str(_PACKAGE_ROOT), *absolute])
    scripts = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(python_path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        "NO_PROXY": LOCAL_HOSTS,
        "no_proxy": LOCAL_HOSTS,
    }
