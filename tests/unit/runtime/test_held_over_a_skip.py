"""What a sink that is behind keeps over a skip of its own, and what it is told to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from databus.core.positions.gaps import SKIPPED, Gap
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.amendments import Amendment
from databus.core.times import SystemClock
from databus.records.recorder import SqlRecorder
from databus.testing.memory_store import MemoryCheckpoints
from tests.spark.replay_desk import Desk, _soon  # noqa: F401 - a fixture
from tests.unit.runtime.test_held_by_flow import held_and_behind, rewound_after_a_mend


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    nothing: Any = None
    return Desk(tmp_path, nothing, batch_rows=6)


def skipped(desk: Desk, to: int) -> None:
    """Move sink b forward by hand, as `databus checkpoint skip shop --sink b PLACE` does."""
    with desk.services() as services:
        lease, start, end = services.store.claim("shop", "ada", 0.0), SequenceOffset(0), SequenceOffset(to)
        gap = Gap(0, start, end, "sink b: skip", SKIPPED, "ada", "told", SystemClock().now())
        services.store.amend_sink("shop", lease, "b", Amendment("skip", "ada", "told", end, None, {}, gap, {}))
        lease.release()


def test_a_sink_that_is_skipped_forward_still_knows_when_it_left(desk: Desk) -> None:
    rewound_after_a_mend(desk)
    with desk.services() as services:
        before = services.store.of_sink("b").load("shop")
    skipped(desk, 2)
    with desk.services() as services:
        after = services.store.of_sink("b").load("shop")
    assert before is not None
    assert after is not None
    assert (after.detached, before.detached) == (4, 4)


def test_rows_behind_the_skip_of_a_sink_are_lost_for_good(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is mended, the flow rewound, sink b is away while sink a gets the rows that were held; b is moved over
    the first two transactions by hand. Its history is trimmed by then: all that was held before is left out."""
    put = MemoryCheckpoints._put

    def trimmed(self: MemoryCheckpoints, state: Any, *rest: Any) -> None:
        put(self, state, *rest)
        if self._sink:
            state.history = state.history[-1:]

    monkeypatch.setattr(MemoryCheckpoints, "_put", trimmed)
    held = rewound_after_a_mend(desk)
    skipped(desk, 2)
    assert desk.run().behind == {}
    behind = {event for event in held if int(event.split(":")[-3]) > 2}
    assert behind
    assert behind <= desk.given("a").keys()
    assert behind <= desk.given("b").keys()


def test_pages_that_are_written_between_two_questions_hide_what_was_held(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the run before pages out while the next one asks: "no page" is the answer of before, the number of the
    newest page that of after, and the history up to there is not read: the sink gets what a replay sends it again."""
    held = held_and_behind(desk)
    recorder = SqlRecorder
    checked, paged, asked = recorder.checked_batches, recorder.paged, [0]

    def before(self: Any, flow: str, after: int) -> Any:
        asked[0] += 1
        found = checked(self, flow, after)
        return [replace(each, paged=False) for each in found] if asked[0] == 1 else found

    def newest(self: Any, flow: str) -> int:
        return paged(self, flow) if asked[0] else 0

    monkeypatch.setattr(recorder, "checked_batches", before)
    monkeypatch.setattr(recorder, "paged", newest)
    desk.run()
    assert asked[0] > 1
    assert not held & desk.given("b").keys()
