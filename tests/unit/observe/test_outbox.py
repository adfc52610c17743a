"""Telling once: whatever the interleaving of evaluators, their deaths and a channel's failures."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.core.alerts.alert import Alert, AlertEvent, AlertKind
from databus.core.alerts.book import AlertState, StoredAlertState
from databus.core.errors import AlertingError
from databus.observe.alerts.hysteresis import LONGEST_LOOK, NotificationTiming, RuleVerdict
from databus.observe.alerts.outbox import GIVE_UP, MAX_OWED, RETRY_S, TELLER_S, MemoryBook
from databus.observe.alerts.rules import Observation
from tests.unit.observe.alert_place import CLEAR, NOON, OVER, DiedError, Place, TestClock


def test_an_alert_says_what_an_operator_needs() -> None:
    place = Place()
    place.say(place.outbox(place.channel()), OVER)
    alert = place.heard[0][1]
    assert alert.title == "[WARNING] orders: lag 400 of 300 s"
    assert (alert.range, alert.figures) == ("(a:4, a:9]", {"lag_seconds": 400.0})
    assert alert.runbook == "https://runbooks.example/lag.md"
    assert alert.incident == "test/orders/lag#1"
    assert Alert.from_json(alert.to_json()) == alert


def test_retries_and_other_evaluators_do_not_repeat_it() -> None:
    place = Place()
    for _ in range(3):
        for outbox in (place.outbox(place.channel()), place.outbox(place.channel())):
            place.say(outbox, OVER)
            place.clock.wait(100)
    place.say(place.outbox(place.channel()), CLEAR)
    place.say(place.outbox(place.channel()), CLEAR)
    assert place.events == ["a raised", "a recovered"]


def test_a_slow_look_does_not_end_what_another_raised_meanwhile() -> None:
    place = Place()
    looked = place.clock.now()
    place.clock.wait(3)
    place.say(place.outbox(place.channel()), OVER)
    place.outbox(place.channel()).consider([CLEAR], (), lambda _kind: NotificationTiming(), looked)
    assert place.events == ["a raised"]
    (noted,) = place.book.load("orders").values()
    assert AlertState.from_json(noted.state.to_json()) == noted.state
    place.say(place.outbox(place.channel()), CLEAR)
    assert place.events == ["a raised", "a recovered"]


def test_a_state_of_an_older_version_is_read() -> None:
    written = AlertState(raised=True, number=2).to_json()
    del written["seen_at"]
    assert AlertState.from_json(written) == AlertState(raised=True, number=2)


def test_what_is_not_observed_any_more_has_recovered() -> None:
    place = Place()
    gap = Observation(AlertKind.GAP, RuleVerdict.OVER, "gap 3: purged", "3")
    outbox = place.outbox(place.channel())
    place.say(outbox, gap, OVER)
    place.say(outbox, OVER)
    assert [(alert.event, alert.kind, alert.subject) for _, alert in place.heard] == [
        (AlertEvent.RAISED, AlertKind.GAP, "3"),
        (AlertEvent.RAISED, AlertKind.LAG, ""),
        (AlertEvent.RECOVERED, AlertKind.GAP, "3"),
    ]
    # What cannot be known now, such as lag while the source is away, is not taken for well.
    place.say(outbox)
    assert len(place.heard) == 3


def test_what_is_over_is_told_with_the_run_and_range_it_was_raised_for() -> None:
    place = Place()
    gap = Observation(
        AlertKind.GAP, RuleVerdict.OVER, "gap 3: purged", "3", range="(5, 9]", run_id="r1", run_url="https://r/1"
    )
    place.say(place.outbox(place.channel()), gap)
    (noted,) = place.book.load("orders").values()
    assert AlertState.from_json(noted.state.to_json()) == noted.state
    place.say(place.outbox(place.channel()))
    told = [(alert.event, alert.range, alert.run_id, alert.run_url) for _, alert in place.heard]
    assert told == [(event, "(5, 9]", "r1", "https://r/1") for event in (AlertEvent.RAISED, AlertEvent.RECOVERED)]
    # Who knows better says so, and the next incident is another one's.
    place.say(place.outbox(place.channel()), OVER)
    place.say(place.outbox(place.channel()), Observation(AlertKind.LAG, RuleVerdict.CLEAR, "", run_id="r2"))
    place.say(place.outbox(place.channel()), Observation(AlertKind.LAG, RuleVerdict.OVER, ""))
    told = [(alert.range, alert.run_id, alert.run_url) for _, alert in place.heard[2:]]
    assert told == [(OVER.range, "", ""), (OVER.range, "r2", ""), ("", "", "")]


LATE = Observation(AlertKind.DEADLINE, RuleVerdict.OVER, "run r7 missed its deadline", "r7", run_id="r7")
LEASE = Observation(AlertKind.DEADLINE, RuleVerdict.OVER, "held for long", "lease")


def test_a_missed_deadline_is_over_when_the_run_is() -> None:
    place, asked = Place(), []
    outbox = place.outbox(place.channel())
    outbox.ended = lambda runs: asked.append(set(runs)) or ()  # type: ignore[func-returns-value]
    place.say(outbox, OVER, LEASE)
    assert asked == []
    place.say(outbox, LATE, LEASE)
    place.say(outbox, LEASE)
    assert asked == [{"r7"}]  # the lease's is no run's, and lag has nothing to do with it
    outbox.ended = lambda runs: runs
    place.say(outbox, LEASE)
    place.say(outbox, LEASE)
    late = [(alert.event, alert.run_id) for _, alert in place.heard if alert.subject == "r7"]
    assert late == [(AlertEvent.RAISED, "r7"), (AlertEvent.RECOVERED, "r7")]
    place.say(outbox, LATE)  # the triggerer repeats a callback whose triggerer died
    assert len(place.heard) == 4


def test_what_never_comes_back_is_forgotten_once_it_is_over_and_told() -> None:
    place, down = Place(), [True]

    def refuse(_alert: Alert) -> None:
        if down[0]:
            raise AlertingError("no route")

    outbox = place.outbox(place.channel("down", refuse))
    gap = Observation(AlertKind.GAP, RuleVerdict.OVER, "gap 3: purged", "3")
    place.say(outbox, LATE, LEASE, gap, OVER)
    outbox.ended = lambda runs: runs
    place.say(outbox, replace(LEASE, verdict=RuleVerdict.CLEAR), CLEAR)
    all_of_them = {"deadline/r7", "deadline/lease", "gap/3", "lag"}
    place.clock.wait(LONGEST_LOOK.total_seconds() + 1)
    place.say(outbox)
    assert set(place.book.load("orders")) == all_of_them  # the channel is owed them yet
    down[0] = False
    place.clock.wait(RETRY_S + 1)
    place.say(outbox)
    place.say(outbox)
    assert len(place.heard) == 2 * len(all_of_them)
    assert set(place.book.load("orders")) == {"deadline/lease", "lag"}
    place.say(outbox, gap)
    place.say(outbox)
    place.say(outbox)
    assert set(place.book.load("orders")) == {"deadline/lease", "lag", "gap/3"}  # who looks late knows what was told


def test_what_is_still_on_is_not_forgotten_however_long() -> None:
    place = Place()
    outbox = place.outbox(place.channel())
    gap = Observation(AlertKind.GAP, RuleVerdict.OVER, "gap 3: purged", "3")
    place.say(outbox, LATE, gap)
    for _ in range(3):
        place.clock.wait(2 * LONGEST_LOOK.total_seconds())
        place.say(outbox, gap)
    assert set(place.book.load("orders")) == {"deadline/r7", "gap/3"}
    assert len(place.heard) == 2


def test_a_channel_that_fails_gets_it_later_and_in_order() -> None:
    place = Place()
    down = [True]

    def refuse(_alert: Alert) -> None:
        if down[0]:
            raise AlertingError("no route")

    outbox = place.outbox(place.channel("up"), place.channel("down", refuse))
    place.say(outbox, OVER)
    place.say(outbox, CLEAR)
    assert place.events == ["up raised", "up recovered"]
    down[0] = False
    place.clock.wait(RETRY_S + 1)
    place.say(outbox)
    assert place.events == ["up raised", "up recovered", "down raised", "down recovered"]
    assert not any(at.state.owed for at in place.book.load("orders").values())


def test_what_waits_for_a_dead_channel_is_bounded() -> None:
    place = Place()

    def refuse(_alert: Alert) -> None:
        raise AlertingError("no route")

    outbox = place.outbox(place.channel("down", refuse), place.channel("up"))
    for _ in range(MAX_OWED):
        place.say(outbox, OVER)
        place.say(outbox, CLEAR)
    assert len(place.book.load("orders")["lag"].state.owed) == MAX_OWED
    assert len(place.events) == 2 * MAX_OWED


def test_what_a_channel_has_not_taken_for_a_day_is_dropped() -> None:
    place = Place()

    def refuse(_alert: Alert) -> None:
        raise AlertingError("no route")

    outbox = place.outbox(place.channel("down", refuse))
    place.say(outbox, OVER)
    place.clock.wait(GIVE_UP.total_seconds())
    place.say(outbox, OVER)
    assert place.book.load("orders")["lag"].state.owed == ()


def test_a_channel_takes_what_it_was_told_to_take() -> None:
    place = Place()
    only = place.channel("only", events=(AlertEvent.RECOVERED,), kinds=(AlertKind.LAG,))
    outbox = place.outbox(only, place.channel("none", kinds=(AlertKind.GAP,)))
    place.say(outbox, OVER)
    place.say(outbox, CLEAR)
    assert place.events == ["only recovered"]


def test_a_teller_that_died_is_stood_in_for() -> None:
    place = Place()

    def die(_alert: Alert) -> None:
        raise DiedError

    with contextlib.suppress(DiedError):
        place.say(place.outbox(place.channel("a", die)), OVER)
    other = place.outbox(place.channel("a"))
    place.say(other, OVER)
    assert place.heard == []  # the first may still be at it
    place.clock.wait(TELLER_S + 1)
    place.say(other, OVER)
    assert place.events == ["a raised"]


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_teller_whose_clock_is_wrong_is_left_alone_while_it_tells_and_stood_in_for_once_it_died(hours: int) -> None:
    place, wrong = Place(), TestClock(NOON + timedelta(hours=hours))
    right = place.outbox(place.channel("a"))

    def tell_meanwhile(_alert: Alert) -> None:
        place.clock.wait(TELLER_S - 1)
        place.say(right, OVER)

    place.say(place.outbox(place.channel("a", tell_meanwhile), clock=wrong), OVER)
    assert place.events == ["a raised"]

    def die(_alert: Alert) -> None:
        raise DiedError

    with contextlib.suppress(DiedError):
        place.say(place.outbox(place.channel("a", die), clock=wrong), replace(OVER, subject="other"))
    place.clock.wait(TELLER_S + 1)
    place.say(right)
    assert place.events == ["a raised", "a raised"]


def test_what_an_older_version_with_a_clock_ahead_has_written_holds_nothing_back() -> None:
    place = Place()

    def refuse(_alert: Alert) -> None:
        raise AlertingError("no route")

    place.say(place.outbox(place.channel("a", refuse)), OVER)
    noted: StoredAlertState = place.book.load("orders")["lag"]
    for teller in ("another", ""):
        ahead = replace(noted.state, teller=teller, teller_until=NOON + timedelta(hours=5))
        version = place.book.swap("orders", "lag", noted.version, ahead)
        noted = StoredAlertState(ahead, version)
        place.say(place.outbox(place.channel("a", refuse)))
        noted = place.book.load("orders")["lag"]
        assert noted.state.teller_until == NOON + timedelta(seconds=RETRY_S)  # it was tried
    place.clock.wait(RETRY_S + 1)
    place.say(place.outbox(place.channel("a")))
    assert place.events == ["a raised"]


class Unreadable(MemoryBook):
    """A book in which what is stored of lag cannot be read."""

    def load(self, flow: str) -> Any:
        broken = {"lag": StoredAlertState(AlertState(number=9), 9, "alert lag of flow orders: not JSON")}
        return {**broken, **super().load(flow)}

    def swap(self, flow: str, key: str, version: int | None, state: AlertState) -> int | None:
        if key == "lag" and version == 9:
            version = None
        return super().swap(flow, key, version, state)


def test_one_state_that_cannot_be_read_hides_no_other_and_is_replaced_once_it_is_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = Place(book=Unreadable(TestClock()))
    outbox = place.outbox(place.channel("a"))
    place.say(outbox, CLEAR, Observation(AlertKind.QUALITY, RuleVerdict.OVER, "4 violations"))
    assert [alert.kind for _, alert in place.heard] == [AlertKind.QUALITY]
    assert "alert lag of flow orders: not JSON" in caplog.text
    place.say(outbox, OVER)
    place.say(outbox, OVER)
    place.say(outbox, CLEAR)
    lag = [(str(alert.event), alert.number) for _, alert in place.heard if alert.kind is AlertKind.LAG]
    assert lag == [("raised", 10), ("recovered", 10)]


class Interrupting(MemoryBook):
    """A book at which, before chosen operations, somebody else acts or this process dies."""

    def __init__(self, shared: MemoryBook, plan: list[str], other: Callable[[], None]) -> None:
        super().__init__()
        self._shared, self._plan, self._other = shared, plan, other

    def now(self) -> datetime:
        return self._shared.now()

    def load(self, flow: str) -> Any:
        self._act()
        return self._shared.load(flow)

    def swap(self, flow: str, key: str, version: int | None, state: AlertState) -> int | None:
        self._act()
        done = self._shared.swap(flow, key, version, state)
        self._act()
        return done

    def remove(self, flow: str, key: str, version: int) -> None:
        self._act()
        self._shared.remove(flow, key, version)

    def _act(self) -> None:
        if self._plan:
            step = self._plan.pop(0)
            if step == "die":
                raise DiedError
            if step == "other":
                self._other()


@given(
    st.lists(st.sampled_from([OVER, CLEAR]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["go", "go", "other", "die"]), max_size=30),
)
@settings(deadline=None)
def test_every_transition_is_told_and_twice_only_after_a_death(observed: list[Observation], plan: list[str]) -> None:
    place = Place()
    deaths = 0
    for observation in observed:
        other = place.outbox(place.channel())
        mine = place.outbox(
            place.channel(),
            book=Interrupting(place.book, plan, lambda o=other, s=observation: place.say(o, s)),  # type: ignore[misc]
        )
        try:
            place.say(mine, observation)
        except DiedError:
            deaths += 1
        place.say(place.outbox(place.channel()), observation)
        place.clock.wait(1)
    place.clock.wait(TELLER_S + 1)
    place.say(place.outbox(place.channel()), observed[-1])
    # The oracle: the transitions of the observations themselves.
    expected, on = [], False
    for i, observation in enumerate(observed):
        if (observation is OVER) != on:
            on = not on
            expected.append((AlertEvent.RAISED if on else AlertEvent.RECOVERED, NOON + timedelta(seconds=i)))
    told = Counter((alert.event, alert.at) for _, alert in place.heard)
    assert set(told) == set(expected)
    assert sum(told.values()) - len(told) <= deaths
    assert not any(at.state.owed for at in place.book.load("orders").values())


def test_states_survive_their_json() -> None:
    place = Place()

    def refuse(_alert: Alert) -> None:
        raise AlertingError("no route")

    place.say(place.outbox(place.channel("a", refuse)), OVER)
    noted: StoredAlertState = place.book.load("orders")["lag"]
    assert noted.state.owed
    assert AlertState.from_json(noted.state.to_json()) == noted.state
