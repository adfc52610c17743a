"""Turns among processes of one machine: as many as there are places, to whoever waits longest, also after kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator

import pytest

from databus.runtime.live import cpu_turns as machine_turns
from databus.runtime.live.cpu_turns import _REMOVE, WITHIN_S, MachineTurns

WAITING = 14
"""GETNCNT of semctl: how many wait for a turn."""

HOLD = """
import sys, time
from databus.runtime.live.cpu_turns import MachineTurns
turns = MachineTurns(int(sys.argv[2]), sys.argv[1])
turns.take()
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def name() -> Iterator[str]:
    name = f"test {uuid.uuid4().hex}"
    yield name
    for places in (1, 2):
        turns = MachineTurns(places, name)
        turns._libc.semctl(turns._set, 0, _REMOVE)


def waits(turns: MachineTurns) -> bool:
    """Take a turn; tell whether it did not come."""
    turns.take()
    return not turns._held


@pytest.mark.parametrize("places", [1, 2])
def test_there_are_as_many_turns_as_places(name: str, places: int) -> None:
    holders = [MachineTurns(places, name) for _ in range(places)]
    assert [waits(holder) for holder in holders] == [False] * places
    late = MachineTurns(places, name)
    assert waits(late)
    holders[0].give_back()
    assert not waits(late)


def test_a_turn_is_taken_and_given_back_once(name: str) -> None:
    turns, other = MachineTurns(1, name), MachineTurns(1, name)
    for _ in range(3):
        turns.take()
    turns.give_back()
    turns.give_back()
    assert not waits(other)
    assert waits(turns)


def test_a_killed_process_leaves_its_place(name: str) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, name, "1"], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == "held\n"
        turns = MachineTurns(1, name)
        assert waits(turns)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    assert not waits(turns)


def test_who_waits_longest_is_next_and_who_gives_back_is_last(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_turns, "WITHIN_S", 60.0)
    order: list[int] = []
    holder = MachineTurns(1, name)
    holder.take()

    def flow(number: int) -> None:
        turns = MachineTurns(1, name)
        for _ in range(5):
            turns.take()
            assert turns._held
            order.append(number)
            time.sleep(0.02)
            turns.give_back()

    threads = [threading.Thread(target=flow, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while holder._libc.semctl(holder._set, 0, WAITING) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    holder.give_back()
    for thread in threads:
        thread.join()
    assert len(order) == 20
    first = order[:4]
    assert sorted(first) == [0, 1, 2, 3]
    assert order == first * 5


def test_after_turns_that_never_came_none_is_asked_for_and_the_next_semaphore_is_a_new_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, turns = MachineTurns(1, name), MachineTurns(1, name)
    assert not waits(stuck)
    assert [waits(turns) for _ in range(3)] == [True] * 3
    began = turns._from
    assert began > time.monotonic()
    assert waits(turns)  # and did not wait: see `_from`
    monkeypatch.setattr(turns, "_from", 0.0)
    assert not waits(turns)
    stuck.give_back()  # to a semaphore that is gone: nobody gets a second place by it
    assert waits(MachineTurns(1, name))
    assert WITHIN_S < 1


def test_where_there_are_no_semaphores_every_turn_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda *_args, **_options: object())
    turns = MachineTurns(1)
    turns.take()
    turns.give_back()
