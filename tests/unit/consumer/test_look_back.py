"""Look-back: whatever the flow, compaction, retention and kills do meanwhile, state and stream are what the source has.

The variants at the end lack one step each, and are found out.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from databus.consumer import look_back as module
from databus.consumer.change import Change, Message
from databus.consumer.look_back import Ask, LookBack, Marks, Phase, SinkMark, has_all
from databus.consumer.progress import UNKNOWN, EndProgress, Progress, StateProgress
from databus.consumer.state_rows import StateEnd, change_of
from databus.consumer.window import ChangesWindow
from databus.core.errors import StateBehindError
from tests.unit.consumer.state_model import CHANGES, STATE, Brokers, Flow, Row


class KilledError(Exception):
    """The consumer's process ends."""


class Program:
    """Consumer and its effects: rows by key with the state that they came with, which outlive kills.

    Args:
        flow: the flow.
        kills: chance of a kill at each step.
    """

    make = LookBack
    trusts_tombstones = False
    stores_early = False
    ends_early = False

    def __init__(self, flow: Flow, kills: float):
        self.flow, self.kills = flow, kills
        self.brokers = Brokers(flow)
        self.table: dict[str, tuple[int, int]] = {}
        self.stored: int | None = None
        self.whole = 0
        self.last: dict[str, int] = {}
        self.kept: dict[str, int] = {}
        self._state = 0

    def live(self, steps: int) -> None:
        """Read until killed, or for some steps and then to the end of a flow that stands still."""
        self.last = {} if self.stored is None else dict(self.kept)
        progress = Progress(CHANGES, UNKNOWN if self.stored is None else self.stored)
        at = self.stored
        if at is None:
            progress, at = self.begin(), -1
        reading = False
        while True:
            steps -= 1
            if steps == 0:
                self.flow.quiet()
                self.kills, self.flow.chance = 0, random.Random(0)
                self.flow.step = lambda: None  # type: ignore[method-assign]
            self.step()
            if not progress.whole and at < 0:
                at = self.look_back(progress)
                if at < 0:
                    progress = self.begin()
                continue
            if not reading:
                self.brokers.begin(CHANGES, at)
                reading = True
            taken = self.brokers.taken(CHANGES)
            if taken.gone:
                progress, at, reading = self.begin(), -1, False
                continue
            for message in taken.messages:
                if not progress.told and message.offset() >= progress.whole_at:
                    self.deliver(StateEnd(CHANGES, progress.whole_at), EndProgress(progress), progress)
                self.deliver(message, progress, progress)
            if taken.at_end and not progress.told and self.flow.changes.end >= progress.whole_at:
                self.deliver(StateEnd(CHANGES, progress.whole_at), EndProgress(progress), progress)
            if steps < 0 and taken.at_end:
                return

    def step(self) -> None:
        if self.flow.chance.random() < self.kills:
            raise KilledError

    def begin(self) -> Progress:
        self._state += 1
        self.last = {}
        progress = Progress(CHANGES, UNKNOWN)
        progress.begin_with_state(self._state)
        progress.stored = UNKNOWN if self.stored is None else self.stored
        return progress

    def look_back(self, progress: Progress) -> int:
        """Read the state; return where the changes go on, below 0 where it has to begin anew."""
        tombstones = math.inf if self.trusts_tombstones else self.flow.tombstones
        ask = Ask(CHANGES, STATE, "changes", "state", tombstones, 150.0)
        looking = self.make(ask, self.brokers, self.brokers.clock)
        rows = StateProgress(STATE, progress)
        self.of_state: dict[str, int] = {}
        while looking.phase not in (Phase.DONE, Phase.LOST):
            self.step()
            for message in looking.step():
                self.deliver(message, rows, progress)
        if looking.phase is Phase.LOST:
            return -1
        progress.go_on(looking.first, looking.first if self.ends_early else looking.whole_at, looking.window)
        return looking.first

    def deliver(self, message: Message, progress: Progress, of: Progress) -> None:
        self.step()
        change = change_of(message, progress, None)
        if isinstance(change, Change):
            progress.deliver(message.offset())
            self.apply(change, of)
            progress.acknowledge_all()
        else:
            progress.pass_over(message.offset() + 1)
        if (of.whole or self.stores_early) and of.acked > of.stored:
            self.stored = of.stored = of.acked
            self.kept = dict(self.last)

    def apply(self, change: Change, of: Progress) -> None:
        if change.op == "e":
            self.whole += 1
            self.table = {key: row for key, row in self.table.items() if row[1] == change.state}
            assert {k: n for k, (n, _) in self.table.items()} == self.flow.source_at(change.offset + 1), "not whole"
            return
        raw = change._message.key()
        assert raw is not None
        key, number = raw.decode(), int(change.event_id[1:])
        assert number > self.last.get(key, -1), "older behind newer"
        self.last[key] = number
        if change.deleted:
            self.table.pop(key, None)
        else:
            assert change.after is not None
            assert change.op == ("r" if change.topic == STATE[0] else "c")
            assert change.after["n"] == number
            self.table[key] = (number, change.state)


def history(seed: int, kind: type[Program] = Program) -> Program:
    chance = random.Random(seed)
    flow = Flow(chance)
    for _ in range(chance.randint(0, 150)):
        flow.step()
    program = kind(flow, chance.choice((0.0, 0.01, 0.05)))
    for life in range(40):
        if life == 8:
            program.kills = 0
            flow.calm_down()
        try:
            program.live(chance.randint(1, 60))
        except (KilledError, StateBehindError):
            for _ in range(chance.randint(0, 100)):
                flow.step()
            continue
        break
    assert {key: number for key, (number, _) in program.table.items()} == flow.alive, "not what the source has"
    return program


@pytest.mark.parametrize(("first", "count"), [(0, 60), (60, 600), (660, 600)])
def test_state_and_stream_are_what_the_source_has(first: int, count: int) -> None:
    whole = sum(history(seed).whole for seed in range(first, first + count))
    assert whole >= count


def at_once(phase: Phase) -> Callable[..., Any]:
    """Return a `_met` that does not wait in one phase."""

    def met(self: LookBack, place: Any, sink: str, other: str) -> int | None:
        if self.phase is phase:
            return self._topics.end(place)
        return LookBack._met(self, place, sink, other)

    return met


class ForgetsTombstones(LookBack):
    def _is_news(self, message: Message) -> bool:
        return super()._is_news(message) and message.value() is not None


class NoWindow(ChangesWindow):
    def passes(self, key: bytes | None, offset: int) -> bool:
        return False


def a_number_is_enough(reached: Marks, noted: Marks) -> bool:
    return bool(reached and noted) and min(m.batch for m in reached) >= max(m.batch for m in noted) and reached[0].whole


FOUND_AT = {
    "it does not wait for the state": 124,
    "it does not wait for the changes": 14,
    "it forgets tombstones": 27,
    "it trusts tombstones for ever": 102,
    "it stores the place before the end": 163,
    "a greater number is enough": 45,
}
"""Variant → the first history that finds it out, so that those before it need not be tried."""
WEAK: dict[str, dict[str, Any]] = {
    "it does not wait for the state": {"make": type("W", (LookBack,), {"_met": at_once(Phase.COVER)})},
    "it does not wait for the changes": {"make": type("W", (LookBack,), {"_met": at_once(Phase.FOLLOW)})},
    "it forgets tombstones": {"make": ForgetsTombstones},
    "it trusts tombstones for ever": {"trusts_tombstones": True},
    "it stores the place before the end": {"stores_early": True},
    "it tells the end as the state was read": {"ends_early": True},
}


def found_out(kind: type[Program], first: int) -> str:
    for seed in range(first, first + 300):
        try:
            history(seed, kind)
        except AssertionError as error:
            return str(error)
    return "no history finds it out"


@pytest.mark.parametrize("why", [*WEAK, "no window", "a greater number is enough"])
def test_each_step_is_needed(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "no window":
        monkeypatch.setattr(module, "ChangesWindow", NoWindow)
    if why == "a greater number is enough":
        monkeypatch.setattr(module, "has_all", a_number_is_enough)
    kind = type("Weak", (Program,), WEAK.get(why, {}))
    told = found_out(kind, FOUND_AT.get(why, 0))
    assert re.match("not whole|older behind newer|not what the source has", told), told


def test_a_row_that_a_newer_one_of_the_state_alone_took_away_is_waited_for() -> None:
    """The sink of the state was first, and compaction is done with it before the changes have it."""
    flow = Flow(random.Random(1))
    brokers = Brokers(flow, still=True)
    first, second = Row("k", 0, deleted=False), Row("k", 1, deleted=False)
    for sink in ("changes", "state"):
        flow.commit(sink, True, 1, [first])
    looking = LookBack(Ask(CHANGES, STATE, "changes", "state", 100.0, 100.0), brokers, brokers.clock)
    while looking.phase is not Phase.STATE:
        looking.step()
    flow.commit("state", True, 2, [second])
    del flow.state.records[0]
    for _ in range(20):
        assert looking.step() == []
    assert looking.phase is Phase.SETTLE
    flow.commit("changes", True, 2, [second])
    looking.step()
    assert (looking.phase, looking.first, looking.whole_at) == (Phase.DONE, 2, 4)


def mark(batch: int, whole: bool = True, end: str = "") -> SinkMark:
    return SinkMark(batch, whole, end)


@pytest.mark.parametrize(
    ("reached", "noted", "answer"),
    [
        ((), (mark(1),), False),
        ((mark(1),), (), False),
        ((mark(3),), (mark(3),), True),
        ((mark(3),), (mark(3, whole=False),), True),
        ((mark(3, whole=False),), (mark(3),), False),
        ((mark(4),), (mark(3),), False),
        ((mark(4, end="x"),), (mark(3, end="x"),), True),
        ((mark(4, end="x"),), (mark(3, whole=False, end="x"),), False),
        ((mark(3), mark(2)), (mark(3), mark(3)), False),
        ((mark(3), mark(3)), (mark(3), mark(2)), True),
    ],
)
def test_a_sink_has_all_of_another(reached: Marks, noted: Marks, answer: bool) -> None:
    assert has_all(reached, noted) is answer
