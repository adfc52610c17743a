"""The range that a replay reads, and with it its plan's hash, is the same whoever tells it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from databus.core.errors import ConfigError
from databus.core.positions.offset_ranges import moved_part
from databus.core.positions.offsets import KafkaOffsets, OffsetRange, SequenceOffset
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.sink_markers import SlotMark
from databus.ops.quarantine.replay_range import BatchRanges

FROM = KafkaOffsets({"orders": dict.fromkeys(range(20), 5)})
WHOLE = OffsetRange(FROM, KafkaOffsets({"orders": {**FROM.positions["orders"], 3: 9}}))
PLAN = Plan(
    "i",
    "flow.quarantine",
    2,
    OffsetRange(SequenceOffset(1), SequenceOffset(2)),
    {"kafka": SinkPlan(2, (1, 1)), "search": SinkPlan(1, (0,))},
    "h",
    datetime(2026, 1, 1, tzinfo=UTC),
)


def ranges(*, reported: bool) -> BatchRanges:
    commits = [
        SimpleNamespace(action="commit", batch=6, previous=FROM, offset=FROM),
        SimpleNamespace(action="rewind", batch=7, previous=FROM, offset=FROM),
        SimpleNamespace(action="commit", batch=7, previous=WHOLE.start, offset=WHOLE.end),
    ]
    told: Any = SimpleNamespace(batch_range=lambda _: moved_part(WHOLE) if reported else None)
    store: Any = SimpleNamespace(history=lambda *_: commits)
    return BatchRanges("flow", store, told)


def test_of_a_batch_that_a_sink_made_alone_its_own_history_tells() -> None:
    """A kill may have left it without a report, and nothing fills one in."""
    nothing: Any = SimpleNamespace(batch_range=lambda _: None)
    own, other = ranges(reported=False).store, SimpleNamespace(history=lambda *_: ())
    store: Any = SimpleNamespace(history=lambda *_: (), of_sink=lambda name: own if name == "search" else other)
    assert BatchRanges("flow", store, nothing, ("kafka", "search")).of(7) == moved_part(WHOLE)
    with pytest.raises(ConfigError):
        BatchRanges("flow", store, nothing, ("kafka",)).of(7)


def holding(*held: Plan | None) -> dict[str, Any]:
    marks = [None if plan is None else SlotMark(plan.batch, plan.hash) for plan in held]
    sink: Any = SimpleNamespace(marked=True, marks=lambda slots, *, settled: marks[:slots], register=lambda: None)
    return {"kafka": sink, "search": SimpleNamespace()}


def test_a_report_that_is_filled_in_between_two_tries_changes_nothing() -> None:
    assert moved_part(WHOLE) != WHOLE
    assert ranges(reported=False).of(7) == ranges(reported=True).of(7) == moved_part(WHOLE)


@pytest.mark.parametrize("reported", [False, True])
@pytest.mark.parametrize("written", [WHOLE, moved_part(WHOLE)], ids=["021bfd3, from the history", "now"])
def test_a_replay_found_unfinished_goes_on_over_the_range_that_it_was_written_with(
    written: OffsetRange, *, reported: bool
) -> None:
    before = holding(None, replace(PLAN, range=written))
    assert ranges(reported=reported).as_written(PLAN, 7, before) == written
    assert ranges(reported=reported).as_written(PLAN, 7, holding(None, None)) == moved_part(WHOLE)


def test_a_batch_that_nobody_knows_is_named() -> None:
    with pytest.raises(ConfigError, match="what range batch 8 had") as unknown:
        ranges(reported=False).of(8)
    assert unknown.value.code == "quarantine_range_unknown"
