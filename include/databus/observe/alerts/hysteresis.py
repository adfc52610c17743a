"""Alert hysteresis: raised once when its rule is violated, recovered once when it clearly is not any more. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from databus.core.alerts.alert import AlertEvent
from databus.core.alerts.book import AlertState

LONGEST_LOOK = timedelta(minutes=5)
"""What seems to be older than this was not seen so long ago: two machines' clocks disagree."""


class RuleVerdict(enum.Enum):
    """Rule verdict on a figure."""

    OVER = "over"
    BETWEEN = "between"
    """Below the threshold and above what counts as recovered: whatever was, stays."""
    CLEAR = "clear"
    UNKNOWN = "unknown"
    """Could not be measured: whatever was, stays, and the time of holding goes on."""


@dataclass(frozen=True)
class NotificationTiming:
    """Notification intervals: how soon and how often an alert is sent.

    Attributes:
        hold_s: a violation is sent after it has held for so many seconds.
        remind_s: an alert that is on is sent again after so many seconds; None for never.
    """

    hold_s: float = 0.0
    remind_s: float | None = None


def above(value: float | None, threshold: float, clear_ratio: float) -> RuleVerdict:
    """Judge a figure that must not exceed a threshold; it has recovered at threshold × clear_ratio or less."""
    if value is None:
        return RuleVerdict.UNKNOWN
    if value > threshold:
        return RuleVerdict.OVER
    return RuleVerdict.CLEAR if value <= threshold * clear_ratio else RuleVerdict.BETWEEN


def below(value: float | None, threshold: float, clear_ratio: float) -> RuleVerdict:
    """Judge a figure that must not fall below a threshold; it has recovered at threshold / clear_ratio or more."""
    if value is None:
        return RuleVerdict.UNKNOWN
    if value < threshold:
        return RuleVerdict.OVER
    return RuleVerdict.CLEAR if value * clear_ratio >= threshold else RuleVerdict.BETWEEN


def worst(verdicts: Iterable[RuleVerdict]) -> RuleVerdict:
    """Join verdicts on several figures of one alert: over if any is, clear if all that are known are."""
    said = set(verdicts)
    order = (RuleVerdict.OVER, RuleVerdict.BETWEEN, RuleVerdict.CLEAR)
    return next((verdict for verdict in order if verdict in said), RuleVerdict.UNKNOWN)


def step(
    state: AlertState,
    verdict: RuleVerdict,
    now: datetime,
    patience: NotificationTiming,
    seen_at: datetime | None = None,
) -> tuple[AlertState, AlertEvent | None]:
    """Return the state after a verdict, and the event to send, if any.

    Args:
        state: what is remembered.
        verdict: what was found.
        now: the time.
        patience: how soon and how often it is sent.
        seen_at: when that was seen which was judged; None for now. One of two watchdogs may take long over a look: what
            the other has seen after it stays.
    """
    seen_at = seen_at or now
    if verdict is RuleVerdict.UNKNOWN or _is_stale(state, seen_at):
        return state, None
    if verdict is RuleVerdict.CLEAR:
        if not state.raised:
            return replace(state, over_since=None), None
        return replace(state, raised=False, over_since=None, seen_at=seen_at), AlertEvent.RECOVERED
    if state.raised:
        return _while_on(state, verdict, now, patience)
    over_since = min(state.over_since or now, now) if verdict is RuleVerdict.OVER else None
    waiting = replace(state, over_since=over_since)
    if over_since is None or now - over_since < timedelta(seconds=patience.hold_s):
        return waiting, None
    raised = replace(waiting, raised=True, number=state.number + 1, since=now, told_at=now, seen_at=seen_at)
    return raised, AlertEvent.RAISED


def _is_stale(state: AlertState, seen_at: datetime) -> bool:
    return state.seen_at is not None and timedelta(0) < state.seen_at - seen_at <= LONGEST_LOOK


def _while_on(
    state: AlertState, verdict: RuleVerdict, now: datetime, patience: NotificationTiming
) -> tuple[AlertState, AlertEvent | None]:
    if state.told_at is None or patience.remind_s is None:
        return state, None
    if state.told_at > now:
        return replace(state, told_at=now), None  # sent by a clock that was ahead
    due = verdict is RuleVerdict.OVER and now - state.told_at >= timedelta(seconds=patience.remind_s)
    return (replace(state, told_at=now), AlertEvent.REMINDER) if due else (state, None)
