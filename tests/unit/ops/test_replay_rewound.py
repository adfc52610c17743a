"""What a rewind means for rows that were held before it: the flow itself moves them again, so no replay sends them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from databus.core.positions.gaps import SKIPPED, Gap
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.amendments import Amendment
from databus.ops.quarantine.replay_range import BatchRanges
from databus.ops.quarantine.replay_refusals import ReplayRefusal
from databus.ops.quarantine.replay_rewound import MOVED_AGAIN, RewoundRows
from databus.ops.quarantine.show import held_rows
from databus.records.quarantine.held_row import OTHERWISE, HeldRow, HeldState
from databus.records.quarantine.rows import Selection
from databus.records.recorder import SqlRecorder
from databus.testing.memory_store import MemoryServer
from tests.spark.replay_desk import ADA, LOOSE, STRICT, Desk, _soon  # noqa: F401 - a fixture


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A flow whose check has held rows of each of its four batches: (0, 3], (3, 6], (6, 9] and (9, 10]."""
    nothing: Any = None
    desk = Desk(tmp_path, nothing, batch_rows=6)
    desk.minimum = STRICT
    desk.run()
    assert batches(desk.listed()) == [1, 2, 3, 4]
    desk.minimum = LOOSE
    return desk


def batches(rows: list[HeldRow]) -> list[int]:
    return sorted({row.batch for row in rows})


def move(desk: Desk, action: Any, place: int) -> None:
    with desk.services() as services:
        lease, standing = services.store.claim("shop", "ada", 0.0), services.store.load("shop")
        assert standing is not None
        now, to = services.clock.now(), SequenceOffset(place)
        gap = Gap(0, standing.offset, to, "skip", SKIPPED, "ada", "", now) if action == "skip" else None
        services.store.amend("shop", lease, Amendment(action, "ada", "the check was mended", to, None, {}, gap, {}))
        lease.release()


def left(desk: Desk, *, consents: bool = False) -> tuple[list[int], list[ReplayRefusal]]:
    """Return the batches whose rows are for a replay, and what is refused."""
    with desk.services() as services, held_rows(desk.flow, services) as rows:
        said, ranges = replace(ADA, consents=consents), BatchRanges("shop", services.store, rows, ("a", "b"))
        rewound = RewoundRows("shop", services.store, ranges, said, services.clock.now())
        kept, refused = rewound.left(rows.select(Selection()))
    return batches(kept), refused


def test_without_a_rewind_all_are_for_the_replay(desk: Desk) -> None:
    assert left(desk) == ([1, 2, 3, 4], [])


def test_what_the_flow_has_moved_again_is_settled(desk: Desk) -> None:
    held = {row.event_id for row in desk.listed()}
    move(desk, "rewind", 3)
    desk.run()
    assert left(desk) == ([1], [])
    settled = desk.listed(HeldState.REPLAYED)
    assert batches(settled) == [2, 3, 4]
    assert {row.replay for row in settled} == {OTHERWISE}
    assert {row.why for row in settled} == {"moved again by the flow itself since its rewind (history entry 6, by ada)"}
    given = desk.given("a")
    assert {row.event_id for row in settled} == held & given.keys()
    assert left(desk) == ([1], [])


def test_what_is_held_anew_is_for_the_replay(desk: Desk) -> None:
    """Under its new batch; also where it was settled before, and the flow was set back once more."""
    move(desk, "rewind", 0)
    desk.run()
    assert left(desk) == ([], [])
    move(desk, "rewind", 0)
    desk.minimum = STRICT
    desk.run()
    assert left(desk) == ([9, 10, 11, 12], [])


def test_what_the_flow_has_yet_to_pass_again_waits(desk: Desk) -> None:
    move(desk, "rewind", 6)
    kept, refused = left(desk)
    assert kept == [1, 2]
    assert [(one.batch, one.error.code) for one in refused] == [(3, MOVED_AGAIN), (4, MOVED_AGAIN)]
    assert "has yet to pass them again" in refused[0].error.message
    assert left(desk, consents=True) == ([1, 2, 3, 4], [])
    desk.run()
    assert left(desk) == ([1, 2], [])


@pytest.mark.parametrize("skipped", [False, True])
def test_what_was_moved_again_in_part_is_for_a_person_to_decide(desk: Desk, *, skipped: bool) -> None:
    move(desk, "rewind", 0 if skipped else 4)
    if skipped:
        move(desk, "skip", 4)
    desk.run()
    kept, refused = left(desk)
    assert kept == ([] if skipped else [1])
    assert [(one.batch, one.error.code) for one in refused] == [(b, MOVED_AGAIN) for b in ([1, 2] if skipped else [2])]
    assert "moved again in part" in refused[0].error.message
    assert "--accept" in refused[0].error.hint


def test_a_rewind_of_a_flow_that_was_begun_anew_says_nothing_of_batches_of_former_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of an earlier databus do not name the plan: of two reports of a number neither is sure."""
    quarantine = SqlRecorder.quarantine
    monkeypatch.setattr(SqlRecorder, "quarantine", lambda *said, **_: quarantine(*said))
    nothing: Any = None
    desk = Desk(tmp_path, nothing, batch_rows=20)
    desk.minimum = STRICT
    desk.run()
    desk.server, desk.minimum, desk.batch_rows = MemoryServer(), LOOSE, 6
    desk.run()
    move(desk, "rewind", 0)
    desk.run()
    assert left(desk) == ([1], [])


def test_entries_of_an_earlier_databus_go_by_the_report_of_their_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarantine = SqlRecorder.quarantine
    monkeypatch.setattr(SqlRecorder, "quarantine", lambda *said, **_: quarantine(*said))
    nothing: Any = None
    desk = Desk(tmp_path, nothing)
    desk.minimum = STRICT
    desk.run()
    desk.minimum = LOOSE
    move(desk, "rewind", 0)
    desk.run()
    assert left(desk) == ([], [])
