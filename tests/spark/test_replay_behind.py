"""Held rows, replays and a sink that is behind, in any order: each sink gets each row once, or it is listed for it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from databus.core.batches.receipts import CHECK, RejectedRow
from databus.core.errors import CheckpointConflictError, DatabusError
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.amendments import Amendment
from databus.ops.quarantine.replay import _Replays
from databus.records.quarantine.held_row import HeldState
from tests.spark.replay_desk import LOOSE, ROWS, STRICT, Desk, _read_once, _soon, once  # noqa: F401 - fixtures
from tests.unit.runtime.marked_sinks import Killed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def desk(tmp_path: Path, spark: Any) -> Desk:
    return Desk(tmp_path, spark)


def held_and_behind(desk: Desk) -> list[str]:
    """Let the check hold all rows that have a weight while sink b is away; return their ids."""
    desk.minimum = STRICT
    desk.down(away=True)
    assert list(desk.run().behind) == ["b"]
    desk.down(away=False)
    desk.minimum = LOOSE
    held = [row.event_id for row in desk.listed()]
    assert {row.stage for row in desk.listed()} == {CHECK}
    assert (desk.given("a").total(), desk.given("b").total(), len(held)) == (ROWS - len(held), 0, 18)
    return held


@pytest.mark.usefixtures("_read_once")
def test_a_sink_that_catches_up_under_a_mended_check_leaves_held_rows_to_their_replay(desk: Desk) -> None:
    held = held_and_behind(desk)
    result = desk.run()
    assert result.behind == {}
    assert desk.given("b") == desk.given("a")
    assert not desk.given("b") & Counter(held)
    (done,) = desk.replay()
    assert (done.replayed, {name: given.dispatched for name, given in done.sinks.items()}) == (18, {"a": 18, "b": 18})
    assert once(desk.given("a"), desk.given("b"))


@pytest.mark.usefixtures("_read_once")
def test_a_replay_of_rows_that_a_sink_has_yet_to_pass_waits_until_it_has(desk: Desk) -> None:
    held_and_behind(desk)
    with pytest.raises(CheckpointConflictError, match=r"sink b .*stands at 0") as refused:
        desk.replay()
    assert refused.value.code == "quarantine_sink_behind"
    assert len(desk.listed()) == 18
    desk.run()
    desk.replay()
    assert once(desk.given("a"), desk.given("b"))


@pytest.mark.usefixtures("_read_once")
def test_what_a_sink_got_by_a_replay_it_leaves_out_when_it_catches_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replays of the version before did not ask whether a sink was behind; one may be finished as it was begun."""
    held_and_behind(desk)
    monkeypatch.setattr("databus.ops.quarantine.replay.require_passed", lambda *_: None)
    desk.replay()
    desk.minimum = STRICT  # nor does it hold them anew
    desk.run()
    assert once(desk.given("a"), desk.given("b"))
    assert desk.listed() == []


@pytest.mark.usefixtures("_read_once")
def test_in_the_other_lane_it_leaves_them_out_as_well(desk: Desk) -> None:
    desk.lane = "spark"
    held = held_and_behind(desk)
    desk.discard(*held[2:])
    assert desk.run().caught_up == {"b": ROWS - 18}
    desk.replay()
    assert desk.given("b") == desk.given("a")
    assert set(desk.given("a").values()) == {1}
    assert [event for event in held if event in desk.given("b")] == held[:2]


@pytest.mark.usefixtures("_read_once")
def test_what_was_discarded_meanwhile_goes_to_no_sink(desk: Desk) -> None:
    held = held_and_behind(desk)
    desk.discard(held[0])
    desk.run()
    desk.replay()
    for sink in ("a", "b"):
        assert desk.given(sink).total() == len(desk.given(sink)) == ROWS - 1
        assert held[0] not in desk.given(sink)


@pytest.mark.usefixtures("_read_once")
def test_what_a_stricter_check_holds_of_a_sink_alone_is_sent_to_it_alone(desk: Desk) -> None:
    desk.down(away=True)
    desk.run()
    desk.down(away=False)
    desk.minimum = STRICT
    desk.run()
    held = desk.listed()
    assert {(row.stage, row.batch) for row in held} == {("b", 2)}
    assert (desk.given("a").total(), desk.given("b").total(), len(held)) == (ROWS, ROWS - 18, 18)
    (still,) = desk.replay()  # nothing was mended yet
    assert (still.replayed, still.held) == (0, 18)
    desk.minimum = LOOSE
    (done,) = desk.replay()
    assert (done.replayed, {name: given.dispatched for name, given in done.sinks.items()}) == (18, {"b": 18})
    assert once(desk.given("a"), desk.given("b"))


@pytest.mark.usefixtures("_read_once")
def test_a_replay_that_is_finished_after_a_closing_was_cut_off_answers_for_what_the_closing_left(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log was away for a while: an entry of a sink that the closing made is answered by the check's."""
    desk.minimum = STRICT
    desk.run()
    desk.minimum = LOOSE
    held = desk.listed()

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as context:
        context.setattr(_Replays, "_commit", killed)
        with pytest.raises(Killed):
            desk.replay(held[0].event_id)
    with desk.services() as services:
        row = RejectedRow(held[0].event_id, held[0].table, None, "a cause, replay 1 could not be …", "b", "p", "{}")
        services.recorder.quarantine("shop", held[0].batch, [row])
    (done,) = desk.replay(held[0].event_id)
    assert (done.replayed, desk.given("a")[held[0].event_id], desk.given("b")[held[0].event_id]) == (1, 1, 1)
    assert [row.event_id for row in desk.listed()] == [row.event_id for row in held[1:]]


@pytest.mark.usefixtures("_read_once")
def test_held_rows_that_the_flow_moved_again_behind_a_rewind_are_not_sent_once_more(desk: Desk) -> None:
    """Else they came after newer rows of their keys; one that a sink has refused since goes to that sink alone."""
    desk.minimum = STRICT
    desk.run()
    held = [row.event_id for row in desk.listed()]
    with desk.services() as services:
        lease = services.store.claim("shop", "ada", 0.0)
        made = Amendment("rewind", "ada", "the check was mended", SequenceOffset(0), None, {}, None, {})
        services.store.amend("shop", lease, made)
        lease.release()
    desk.minimum = LOOSE
    desk.run()
    with desk.services() as services:
        refused = RejectedRow(held[0], "shop.orders", None, "too large", "b", "p", "{}")
        services.recorder.quarantine("shop", 2, [refused], plan_hash="whatever")
    (done,) = desk.replay()
    assert (done.batch, done.replayed, list(done.sinks)) == (2, 1, ["b"])
    assert {event: desk.given("a")[event] for event in held} == dict.fromkeys(held, 1)
    assert {event: desk.given("b")[event] for event in held} == {**dict.fromkeys(held, 1), held[0]: 2}
    assert desk.listed() == []


@pytest.mark.usefixtures("_read_once")
@pytest.mark.parametrize(("steps", "seed"), [(6, 0), *((12, seed) for seed in range(8))])
def test_in_any_order_each_sink_has_each_row_once_or_it_is_listed(
    tmp_path: Path, spark: Any, steps: int, seed: int
) -> None:
    chance = random.Random(seed)
    desk, told = Desk(tmp_path, spark, batch_rows=6), [f"seed {seed}"]

    def step(what: str) -> None:
        told.append(what)
        before = desk.minimum
        try:
            if what == "run":
                desk.run(max_batches=chance.choice([1, 2, None]))
            elif what == "catch up":
                for _ in range(20):
                    if not desk.run().behind:
                        break
            elif what == "replay":
                desk.replay()
            elif what == "discard":
                held = desk.listed()
                if held:
                    desk.discard(chance.choice(held).event_id)
            elif what in ("strict", "loose"):
                desk.minimum = STRICT if what == "strict" else LOOSE
            else:
                desk.down(away=what == "away")
        except Killed:
            told[-1] += " killed"
        except DatabusError as error:
            told[-1] += f" {error.code}"
            # What is half written is finished by the definition under which it was begun.
            if error.code == "checkpoint_plan_changed":
                desk.minimum = STRICT if before == LOOSE else LOOSE
        assert_once(desk, told)

    desk.minimum = chance.choice([STRICT, LOOSE])
    desk.chance = chance if seed % 2 else None
    for what in ("away", "run", *chance.choices(STEPS, weights=WEIGHTS, k=steps)):
        step(what)
    desk.chance = None
    for what in ("back", "catch up", "replay", "loose", "catch up", "replay"):
        step(what)
    assert_once(desk, told, over=True)


STEPS, WEIGHTS = ("run", "replay", "discard", "strict", "loose", "away", "back"), (5, 2, 1, 2, 2, 1, 2)


def assert_once(desk: Desk, told: Sequence[str], *, over: bool = False) -> None:
    """No sink has a row twice; in the end it has each that is not listed for it."""
    held = [row for row in desk.listed(None) if row.state is not HeldState.REPLAYED]
    for sink in ("a", "b"):
        given = desk.given(sink)
        assert given.total() == len(given), (sink, told, [event for event, times in given.items() if times > 1])
        if over:
            listed = {row.event_id for row in held if row.stage in (CHECK, sink)}
            assert len(given.keys() | listed) == ROWS, (sink, told)
