"""Visits every state of the protocol model, and tells from which the flow can no longer be finished; see model.py."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from databus.checkpoints import claimant
from tests.faults.model import Model
from tests.faults.model_state import Size, State, Violation


@dataclass
class Explored:
    """What a search found.

    Attributes:
        states: number of states.
        transitions: number of steps between them.
        finished: states in which every unit is committed.
        violation: what does not hold, "" for nothing.
        trace: how it came to that.
        complete: every reachable state was looked at.
        seconds: duration.
    """

    states: int = 0
    transitions: int = 0
    finished: int = 0
    violation: str = ""
    trace: tuple[str, ...] = ()
    complete: bool = False
    seconds: float = 0.0


def explore(size: Size, max_states: int = 10_000_000) -> Explored:
    """Visit every state; stop at the first violation."""
    began = time.monotonic()
    with _fixed_identity():
        found = _explore(Model(size), max_states)
    found.seconds = time.monotonic() - began
    return found


def _explore(model: Model, max_states: int) -> Explored:
    found = Explored()
    numbers: dict[State, int] = {}
    origin: list[tuple[int, str]] = []
    before: list[list[int]] = []
    good: list[int] = []

    def trace(number: int) -> tuple[str, ...]:
        steps: list[str] = []
        while number > 0:
            number, text = origin[number][0], origin[number][1]
            steps.append(text)
        return tuple(reversed(steps))

    first = model.first()
    numbers[first] = 0
    origin.append((-1, ""))
    before.append([])
    frontier = [first]
    while frontier:
        following: list[State] = []
        for state in frontier:
            number = numbers[state]
            try:
                model.check(state)
                for text, after in model.steps(state):
                    found.transitions += 1
                    known = numbers.get(after)
                    if known is None:
                        known = numbers[after] = len(origin)
                        origin.append((number, text))
                        before.append([])
                        following.append(after)
                    before[known].append(number)
            except Violation as error:
                found.violation, found.trace, found.states = str(error), trace(number), len(numbers)
                return found
            if model.finished(state) or model.at_bound(state):
                good.append(number)
                found.finished += model.finished(state)
            if len(numbers) > max_states:
                found.states = len(numbers)
                return found
        frontier = following
    found.states, found.complete = len(numbers), True
    reached = set(good)
    while good:
        for earlier in before[good.pop()]:
            if earlier not in reached:
                reached.add(earlier)
                good.append(earlier)
    stuck = next((n for n in range(len(origin)) if n not in reached), None)
    if stuck is not None:
        found.violation, found.trace = "the flow can never be finished from here", trace(stuck)
    return found


@contextmanager
def _fixed_identity() -> Iterator[None]:
    """Host and process id stand in leases; states that differ in nothing else must be equal."""
    logging.disable(logging.WARNING)
    try:
        with mock.patch.object(claimant.os, "getpid", int), mock.patch.object(claimant.socket, "gethostname", str):  # type: ignore[attr-defined]
            yield
    finally:
        logging.disable(logging.NOTSET)
