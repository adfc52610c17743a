"""State of a mirror in a word with its cause: the worst of what is known, "unknown" where that does not say enough."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from databus.core.positions.lag import duration_text
from databus.core.state.checkpoint import HistoryEntry

State = Literal["no_answer", "alert", "paused", "not_run", "behind", "unknown", "ok"]

LIMIT_S = 60.0
"""Seconds that a record may wait, and that a heartbeat may be late."""

BATCHES = 100
"""Among so many batches there is one with a heartbeat: each run writes one before its first."""


def standing(facts: Mapping[str, Any], heartbeat_s: float | None, moving_s: float) -> tuple[State, str]:
    """Return the state and what it comes of, "" where all is well.

    Args:
        facts: what `mirror_state` gives of a mirror.
        heartbeat_s: seconds between two heartbeats of it; None where it writes none.
        moving_s: since when batches are known of it, for one of which no heartbeat has arrived.
    """
    return next(_worst_first(facts, heartbeat_s, moving_s), ("ok", ""))


def _worst_first(facts: Mapping[str, Any], heartbeat_s: float | None, moving_s: float) -> Iterator[tuple[State, str]]:
    for problem in facts["problems"]:
        yield "no_answer", f"{problem['of']}: {problem['message']}"
    if facts["alerts"]:
        yield "alert", ", ".join(one["alert"] for one in facts["alerts"])
    if facts["paused"]:
        yield "paused", facts["paused"]
    if facts["batch"] is None:
        yield "not_run", "nothing was mirrored"
    lag = facts["lag"]
    if (waits_s := lag["known_seconds"]) > LIMIT_S:
        at_least = "at least " if lag["age_unknown"] else ""
        yield "behind", f"{_count(lag['records'], 'record')}, the oldest waits {at_least}{duration_text(waits_s)}"
    late_s, beat = LIMIT_S + (heartbeat_s or 0.0), facts["heartbeat"]
    if beat and beat["age_seconds"] is None and moving_s > late_s:
        yield "behind", "it has moved batches, and no heartbeat has arrived"
    if beat and (beat["age_seconds"] or 0.0) > late_s:
        yield "behind", f"its newest heartbeat is {duration_text(beat['age_seconds'])} old"
    if unknown := lag["age_unknown"]:
        more = unknown["partitions"] - 1
        where = unknown["first"] + (f" and {_count(more, 'other partition')}" if more else "")
        yield "unknown", f"records of {where} wait, nobody knows since when"


def moving_s(history: Sequence[HistoryEntry], now: datetime) -> float:
    """Return for how many seconds batches are known; infinite where there are `BATCHES` of them.

    Args:
        history: the newest entries.
        now: the time.
    """
    commits = [entry.at for entry in history if entry.action == "commit"]
    if len(commits) >= BATCHES:
        return math.inf
    return (now - min(commits)).total_seconds() if commits else 0.0


def _count(number: int, of: str) -> str:
    return f"{number:,} {of}{'' if number == 1 else 's'}"
