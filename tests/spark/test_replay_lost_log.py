"""Replays of rows whose log is gone: they block nothing, and are told by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from databus.core.batches.receipts import CHECK
from databus.core.errors import OffsetPurgedError, ReplaysRefusedError
from databus.core.positions.offsets import OffsetRange
from databus.ops.quarantine import replay as quarantine_replay
from databus.records.quarantine.held_row import HeldState
from databus.records.quarantine.rows import HeldRows
from databus.sources.mock.source import MockSource
from databus.testing.memory_store import MemoryCheckpoints
from tests.spark.replay_desk import LOOSE, STRICT, Desk, _read_once, _soon  # noqa: F401 - fixtures
from tests.unit.runtime.marked_sinks import Killed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.usefixtures("_read_once")]

PER_BATCH = 4


@pytest.fixture
def desk(tmp_path: Any, spark: Any) -> Desk:
    """A flow whose first three batches hold rows, which it would let go by now."""
    desk = Desk(tmp_path, spark, batch_rows=PER_BATCH)
    desk.minimum = STRICT
    desk.run(max_batches=3)
    desk.minimum = LOOSE
    assert {row.batch for row in desk.listed()} == {1, 2, 3}
    return desk


@pytest.fixture
def purge(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the log before a place be gone."""
    real = MockSource.reopen

    def until(first: int) -> None:
        def reopen(source: MockSource, planned: OffsetRange) -> Any:
            if int(str(planned.end)) <= first:
                raise OffsetPurgedError(f"the log up to {first} is gone", hint="Choose a place behind the gap.")
            return real(source, planned)

        monkeypatch.setattr(MockSource, "reopen", reopen)

    return until


def batches(desk: Desk, state: HeldState = HeldState.HELD) -> set[int]:
    return {row.batch for row in desk.listed(state)}


def test_rows_of_a_log_that_is_gone_do_not_keep_others_from_being_replayed(
    desk: Desk, purge: Callable[[int], None]
) -> None:
    purge(2 * PER_BATCH // 2)
    with pytest.raises(ReplaysRefusedError, match=r"batch 1 \(\d rows\): .*; batch 2 \(\d rows\)") as refused:
        desk.replay()
    (done,) = refused.value.done
    assert (done.batch, done.held, batches(desk), batches(desk, HeldState.REPLAYED)) == (3, 0, {1, 2}, {3})
    assert "quarantine discard shop --event" in refused.value.hint
    assert "behind the gap" not in refused.value.hint
    lost = [row.event_id for row in desk.listed()]
    with pytest.raises(OffsetPurgedError) as alone:
        desk.replay(*(row.event_id for row in desk.listed() if row.batch == 1))
    assert "quarantine discard shop --event" in alone.value.hint
    assert desk.discard(*lost) == len(lost)
    assert desk.replay() == []


def killed_at(desk: Desk, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, nth: int = 1) -> None:
    """Begin to replay the rows of batch 1, and end the process after the n-th return of a call."""
    real, calls = getattr(owner, name), list[int]()

    def call(*arguments: Any, **named: Any) -> Any:
        done = real(*arguments, **named)
        calls.append(1)
        if len(calls) == nth:
            raise Killed
        return done

    with monkeypatch.context() as dying:
        dying.setattr(owner, name, call)
        with pytest.raises(Killed):
            desk.replay(*(row.event_id for row in desk.listed() if row.batch == 1))


def test_a_replay_that_wrote_nothing_is_closed_once_its_log_is_gone(
    desk: Desk, purge: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at(desk, monkeypatch, MemoryCheckpoints, "write_plan")
    purge(PER_BATCH // 2)
    mine = [row for row in desk.listed() if row.batch == 1]
    with pytest.raises(ReplaysRefusedError) as refused:
        desk.replay()
    closed, *others = refused.value.done
    assert (closed.batch, closed.replayed, closed.held) == (1, 0, len(mine))
    assert [(done.batch, done.held) for done in others] == [(2, 0), (3, 0)]
    assert [(row.event_id, row.stage, row.cause) for row in desk.listed()] == [
        (row.event_id, CHECK, row.cause) for row in mine
    ]
    assert desk.discard(*(row.event_id for row in mine)) == len(mine)
    assert desk.replay() == []


@pytest.mark.parametrize("end", [None, *((HeldRows, "settle"), (quarantine_replay, "close_for_good"))])
def test_of_a_replay_that_one_sink_has_the_other_alone_lacks_the_rows(
    desk: Desk, purge: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, end: tuple[Any, str] | None
) -> None:
    from databus.runtime.beside import replay

    killed_at(desk, monkeypatch, replay, "dispatch")
    purge(PER_BATCH // 2)
    mine = {row.event_id for row in desk.listed() if row.batch == 1}
    assert mine <= desk.given("a").keys()
    if end is not None:
        killed_at(desk, monkeypatch, *end)  # while it is closed
    with pytest.raises(ReplaysRefusedError):
        desk.replay()
    left = desk.listed()
    assert {(row.event_id, row.stage, row.batch) for row in left} == {(event, "b", 1) for event in mine}
    assert all(re.search(r"in_range\(weight.*, replay 1 could not be finished$", row.cause) for row in left)
    assert mine <= {row.event_id for row in desk.listed(HeldState.REPLAYED) if row.stage == CHECK}
    assert not mine & desk.given("b").keys()
    assert set(desk.given("a").values()) == {1}


def test_a_replay_that_all_sinks_have_is_told_as_replayed(
    desk: Desk, purge: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at(desk, monkeypatch, HeldRows, "settle")
    purge(PER_BATCH // 2)
    results = desk.replay()
    assert [(done.batch, done.held) for done in results] == [(1, 0), (2, 0), (3, 0)]
    assert desk.listed() == []
    assert desk.given("a") == desk.given("b")
    assert set(desk.given("a").values()) == {1}
