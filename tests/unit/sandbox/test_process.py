"""Processes: identity, membership, signals. Real processes, no servers."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from databus.sandbox.process import (
    Command,
    ProcessIdentity,
    boot_id,
    identify,
    is_alive,
    is_paused,
    kill_all,
    members,
    send,
    spawn,
    stop_all,
)

SLEEP = "import time; time.sleep(600)"
# A leader that starts a child in another session, tells its pid, and sleeps; the child ignores SIGTERM.
FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"],
    start_new_session=True, stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""
Start = Callable[[str, str], ProcessIdentity]


def until(condition: Callable[[], object], what: str, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.01)


@pytest.fixture
def mark() -> str:
    return f"test-{os.getpid()}-{time.monotonic_ns()}"


@pytest.fixture
def start(tmp_path: Path, mark: str) -> Iterator[Start]:
    started: list[ProcessIdentity] = []

    def begin(script: str, role: str) -> ProcessIdentity:
        command = Command(role, (sys.executable, "-c", script), tmp_path, tmp_path / f"{role}.log")
        started.append(spawn(command, f"{mark}:{role}"))
        return started[-1]

    yield begin
    kill_all(started, mark)


def child_of_family(tmp_path: Path, role: str) -> ProcessIdentity:
    log = tmp_path / f"{role}.log"
    until(lambda: log.read_text().endswith("\n"), "the leader names its child")
    child = identify(int(log.read_text()))
    assert child is not None
    return child


def test_a_started_process_is_known_by_pid_and_start(start: Start) -> None:
    process = start(SLEEP, "a")
    assert is_alive(process)
    assert identify(process.pid) == process


def test_a_recycled_pid_is_neither_alive_nor_signalled(start: Start, mark: str) -> None:
    process = start(SLEEP, "a")
    earlier = replace(process, start_ticks=process.start_ticks - 1)
    other_boot = replace(process, boot_id="another boot")
    for stale in (earlier, other_boot):
        assert not is_alive(stale)
        assert not send(stale, signal.SIGKILL)
        assert members([stale], "no such mark") == []
        assert stop_all([stale], "no such mark", grace_s=0.1) == []
    assert is_alive(process)


def test_pause_and_resume_are_seen(start: Start) -> None:
    process = start(SLEEP, "a")
    assert not is_paused(process)
    send(process, signal.SIGSTOP)
    until(lambda: is_paused(process), "the process is stopped")
    assert is_alive(process)
    send(process, signal.SIGCONT)
    until(lambda: not is_paused(process), "the process runs")


def test_members_hold_a_child_in_another_session(start: Start, mark: str, tmp_path: Path) -> None:
    leader = start(FAMILY, "family")
    child = child_of_family(tmp_path, "family")
    assert set(members([leader], "no such mark")) == {leader, child}


def test_an_orphan_is_found_by_its_mark(start: Start, mark: str, tmp_path: Path) -> None:
    leader = start(FAMILY, "family")
    child = child_of_family(tmp_path, "family")
    send(leader, signal.SIGKILL)
    until(lambda: not is_alive(leader), "the leader ends")
    assert members([leader], mark) == [child]
    assert members([leader], f"{mark}:family") == [child]


def test_a_mark_is_compared_whole(start: Start, mark: str) -> None:
    process = start(SLEEP, "kafka-b")
    until(lambda: members([], mark) == [process], "the mark is visible")
    assert members([], f"{mark}:kafka") == []
    assert members([], f"{mark}:kafka-b") == [process]


def test_stop_ends_the_whole_family_and_no_other(start: Start, mark: str, tmp_path: Path) -> None:
    leader = start(FAMILY, "family")
    decoy = start(SLEEP, "decoy")
    child = child_of_family(tmp_path, "family")
    assert stop_all([leader], f"{mark}:family", grace_s=0.2) == []
    assert not is_alive(leader)
    assert not is_alive(child)
    assert is_alive(decoy)


def test_a_paused_process_can_be_stopped(start: Start, mark: str) -> None:
    process = start(SLEEP, "a")
    send(process, signal.SIGSTOP)
    until(lambda: is_paused(process), "the process is stopped")
    assert stop_all([process], mark, grace_s=10.0) == []
    assert not is_alive(process)


def test_python_settings_of_the_caller_are_not_inherited(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("DATABUS_TEST_INHERITED", "yes")
    names = "('PYTHONDONTWRITEBYTECODE', 'DATABUS_TEST_INHERITED')"
    process = start(f"import os; print([os.environ.get(name) for name in {names}])", "env")
    until(lambda: not is_alive(process), "the process ends")
    assert (tmp_path / "env.log").read_text() == "[None, 'yes']\n"


def test_a_pid_that_a_thread_has_now_is_no_process() -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        recycled = ProcessIdentity(thread.native_id or 0, 1, boot_id())
        assert send(recycled, signal.SIGTERM) is False
    finally:
        release.set()
        thread.join()
