"""The life of an alert: what an operator hears while a figure moves about its threshold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.alerts.alert import AlertEvent
from databus.core.alerts.book import AlertState
from databus.observe.alerts.hysteresis import NotificationTiming, RuleVerdict, above, below, step, worst

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
THRESHOLD, RATIO = 100.0, 0.8
VALUES = st.lists(st.one_of(st.none(), st.floats(0, 200)), max_size=60)


def told(values: list[float | None], patience: NotificationTiming, every_s: float = 10) -> list[tuple[int, AlertEvent]]:
    state, events = AlertState(), []
    for i, value in enumerate(values):
        state, event = step(state, above(value, THRESHOLD, RATIO), NOON + timedelta(seconds=i * every_s), patience)
        if event is not None:
            events.append((i, event))
    return events


@given(VALUES)
def test_told_once_over_and_once_on_recovery(values: list[float | None]) -> None:
    # The oracle: a Schmitt trigger over the values that are known.
    expected, on = [], False
    for i, value in enumerate(values):
        if value is not None and not on and value > THRESHOLD:
            on = True
            expected.append((i, AlertEvent.RAISED))
        elif value is not None and on and value <= THRESHOLD * RATIO:
            on = False
            expected.append((i, AlertEvent.RECOVERED))
    assert told(values, NotificationTiming()) == expected


@given(VALUES, st.integers(0, 5))
def test_a_violation_is_told_after_it_has_held(values: list[float | None], ticks: int) -> None:
    expected, on, since = [], False, None
    for i, value in enumerate(values):
        if value is None:
            continue
        if on:
            if value <= THRESHOLD * RATIO:
                on, since = False, None
                expected.append((i, AlertEvent.RECOVERED))
            continue
        since = (i if since is None else since) if value > THRESHOLD else None
        if since is not None and i - since >= ticks:
            on = True
            expected.append((i, AlertEvent.RAISED))
    assert told(values, NotificationTiming(hold_s=ticks * 10)) == expected


def test_between_the_bounds_nothing_is_said() -> None:
    assert told([101, 99, 101, 81, 101, 80, 99, 101], NotificationTiming()) == [
        (0, AlertEvent.RAISED),
        (5, AlertEvent.RECOVERED),
        (7, AlertEvent.RAISED),
    ]


def test_an_alert_that_stays_on_is_reminded_of() -> None:
    events = told([101] * 7, NotificationTiming(remind_s=30))
    assert events == [(0, AlertEvent.RAISED), (3, AlertEvent.REMINDER), (6, AlertEvent.REMINDER)]


def test_each_raise_is_an_incident_of_its_own() -> None:
    state = AlertState()
    numbers = []
    for verdict in (RuleVerdict.OVER, RuleVerdict.CLEAR, RuleVerdict.OVER, RuleVerdict.BETWEEN, RuleVerdict.CLEAR):
        state, _ = step(state, verdict, NOON, NotificationTiming())
        numbers.append(state.number)
    assert numbers == [1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("looked_s_before", "event"),
    [(3, None), (300, None), (0, AlertEvent.RECOVERED), (-1, AlertEvent.RECOVERED), (3600, AlertEvent.RECOVERED)],
)
def test_who_looked_before_it_was_raised_does_not_say_that_it_is_over(
    looked_s_before: float, event: AlertEvent | None
) -> None:
    """An hour before is no slow look: two clocks disagree, and an alert that never ends would be worse."""
    raised, _ = step(AlertState(), RuleVerdict.OVER, NOON, NotificationTiming())
    later = NOON + timedelta(seconds=30)
    state, said = step(
        raised, RuleVerdict.CLEAR, later, NotificationTiming(), NOON - timedelta(seconds=looked_s_before)
    )
    assert said is event
    assert state.raised is (event is None)


def test_who_looked_before_it_was_over_does_not_raise_it_again() -> None:
    raised, _ = step(AlertState(), RuleVerdict.OVER, NOON, NotificationTiming())
    over, _ = step(raised, RuleVerdict.CLEAR, NOON + timedelta(seconds=10), NotificationTiming())
    assert step(
        over, RuleVerdict.OVER, NOON + timedelta(seconds=20), NotificationTiming(), NOON + timedelta(seconds=9)
    ) == (
        over,
        None,
    )


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(None, RuleVerdict.UNKNOWN), (99.0, RuleVerdict.OVER), (100.0, RuleVerdict.BETWEEN), (125.0, RuleVerdict.CLEAR)],
)
def test_a_figure_that_must_not_fall(value: float | None, verdict: RuleVerdict) -> None:
    assert below(value, 100.0, 0.8) is verdict


def test_verdicts_on_several_figures_join() -> None:
    assert worst([RuleVerdict.CLEAR, RuleVerdict.UNKNOWN, RuleVerdict.OVER]) is RuleVerdict.OVER
    assert worst([RuleVerdict.CLEAR, RuleVerdict.BETWEEN]) is RuleVerdict.BETWEEN
    assert worst([RuleVerdict.CLEAR, RuleVerdict.UNKNOWN]) is RuleVerdict.CLEAR
    assert worst([]) is RuleVerdict.UNKNOWN


def test_a_clock_that_was_ahead_holds_neither_a_raise_nor_a_reminder_back() -> None:
    ahead, patience = NOON + timedelta(hours=5), NotificationTiming(hold_s=60, remind_s=3600)
    state, _ = step(AlertState(), RuleVerdict.OVER, ahead, patience)
    state, event = step(state, RuleVerdict.OVER, NOON, patience)
    assert event is None
    state, event = step(state, RuleVerdict.OVER, NOON + timedelta(seconds=60), patience)
    assert event is AlertEvent.RAISED
    state, _ = step(AlertState(over_since=ahead), RuleVerdict.OVER, ahead + timedelta(seconds=60), patience)
    state, event = step(state, RuleVerdict.OVER, NOON, patience)
    assert event is None
    state, event = step(state, RuleVerdict.OVER, NOON + timedelta(seconds=3600), patience)
    assert event is AlertEvent.REMINDER
