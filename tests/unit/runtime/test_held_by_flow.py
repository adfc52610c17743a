"""What a sink that is behind leaves out of the rows that it has yet to pass: those that the flow's own batches held."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from databus.checkpoints.rules import lagging_sinks as split_transitions
from databus.core.batches.receipts import CHECK, RejectedRow
from databus.core.errors import SourceDivergedError
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.amendments import Amendment
from databus.records.recorder import SqlRecorder
from databus.runtime.beside import held_by_flow
from databus.runtime.takeover.flow_commits import FlowCommits
from databus.testing.memory_store import MemoryCheckpoints, MemoryServer
from tests.spark.replay_desk import LOOSE, ROWS, STRICT, Desk, _soon  # noqa: F401 - a fixture


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A flow in batches of its own, none of which needs Spark."""
    nothing: Any = None
    return Desk(tmp_path, nothing, batch_rows=6)


def held_and_behind(desk: Desk) -> set[str]:
    desk.minimum = STRICT
    desk.down(away=True)
    desk.run()
    desk.down(away=False)
    desk.minimum = LOOSE
    return {row.event_id for row in desk.listed()}


def test_rows_that_the_flow_held_are_left_out_and_counted_as_held(desk: Desk) -> None:
    held = held_and_behind(desk)
    result = desk.run()
    assert (result.behind, result.caught_up, len(held)) == ({}, {"b": ROWS - 18}, 18)
    assert desk.given("b") == desk.given("a")
    assert {(row.event_id, row.stage) for row in desk.listed()} == {(event, CHECK) for event in held}
    with desk.services() as services:
        own = services.store.of_sink("b").history("shop", 100)
    assert sum(counts.quarantined for entry in own for counts in entry.counts.values()) == 18


def test_an_order_that_nothing_tells_leaves_it_to_the_event_ids(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    held_and_behind(desk)

    def diverged(*_: Any) -> bool:
        raise SourceDivergedError("a failover lies between")

    monkeypatch.setattr(held_by_flow, "overlap", diverged)
    desk.run()
    assert desk.given("b") == desk.given("a")


def test_of_batches_without_a_report_the_history_tells(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    held_and_behind(desk)
    checked = held_by_flow.HeldByFlow.over

    def unreported(self: held_by_flow.HeldByFlow, moved: Any) -> frozenset[str]:
        found = [replace(batch, range=None, paged=False) for batch in self.recorder.checked_batches(self.flow, 0)]
        with monkeypatch.context() as context:
            context.setattr(type(self.recorder), "checked_batches", lambda *_: found)
            context.setattr(type(self.recorder), "paged", lambda *_: 0)
            return checked(self, moved)

    monkeypatch.setattr(held_by_flow.HeldByFlow, "over", unreported)
    desk.run()
    assert desk.given("b") == desk.given("a")


def test_what_was_held_by_a_batch_that_was_never_committed_is_not_left_out(desk: Desk) -> None:
    """Its plan was closed, and the batch that took its place gave the rows to the others."""
    desk.down(away=True)
    desk.run()
    desk.down(away=False)
    with desk.services() as services:
        row = RejectedRow(next(iter(desk.given("a"))), "shop.orders", None, "a cause", CHECK, "p", "{}")
        services.recorder.quarantine("shop", 99, [row])
    desk.run()
    assert desk.given("b") == desk.given("a")
    assert desk.given("b").total() == ROWS


def test_what_was_held_before_a_rewind_and_given_to_the_others_after_it_is_not_left_out(desk: Desk) -> None:
    held = rewound_after_a_mend(desk)
    desk.run()
    for sink in ("a", "b"):
        assert held <= desk.given(sink).keys()
        assert set(desk.given(sink).values()) == {1, 2}  # rows that the check had let pass come again, as a rewind says


def test_what_a_stricter_check_holds_of_the_sink_alone_is_under_its_name(desk: Desk) -> None:
    desk.down(away=True)
    desk.run()
    desk.down(away=False)
    desk.minimum = STRICT
    desk.run()
    assert {row.stage for row in desk.listed()} == {"b"}
    assert len(desk.listed()) == 18
    assert {row.event_id for row in desk.listed()} | desk.given("b").keys() == desk.given("a").keys()


def rewound_after_a_mend(desk: Desk) -> set[str]:
    """Let the check hold rows, mend it, set the flow back, and let sink a have them while b is away; return them."""
    desk.minimum = STRICT
    desk.run()
    held = {row.event_id for row in desk.listed()}
    with desk.services() as services:
        lease = services.store.claim("shop", "ada", 0.0)
        made = Amendment("rewind", "ada", "the check was mended", SequenceOffset(0), None, {}, None, {})
        services.store.amend("shop", lease, made)
        lease.release()
    desk.minimum = LOOSE
    desk.down(away=True)
    desk.run()
    desk.down(away=False)
    return held


def test_when_it_left_is_known_though_its_own_history_was_trimmed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories of sinks that are behind have no pages: ZooKeeper lets all go that so many entries have followed."""
    before = MemoryCheckpoints._put

    def put(self: MemoryCheckpoints, state: Any, *rest: Any) -> None:
        before(self, state, *rest)
        if self._sink:
            state.history = state.history[-1:]

    monkeypatch.setattr(MemoryCheckpoints, "_put", put)
    held = rewound_after_a_mend(desk)
    with desk.services() as services:
        kept = services.store.of_sink("b").load("shop")
    assert kept is not None
    assert kept.detached == 4
    desk.run()
    assert held <= desk.given("a").keys()
    assert held <= desk.given("b").keys()


def test_what_an_earlier_life_of_the_flow_held_is_not_left_out(desk: Desk) -> None:
    """ZooKeeper is made anew and the flow begun again: batches are numbered from 1, entries of the quarantine stay."""
    desk.minimum = STRICT
    desk.run()
    held = {row.event_id for row in desk.listed()}
    desk.server = MemoryServer()
    desk.minimum = LOOSE
    desk.down(away=True)
    desk.run(max_batches=2)
    desk.down(away=False)
    desk.run()
    for sink in ("a", "b"):
        assert held <= desk.given(sink).keys()


def test_a_batch_that_is_not_paged_yet_is_found_in_the_history(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read once; then only what has come since, however long a batch stays that was never committed."""
    held_and_behind(desk)
    asked: list[int] = []
    history = MemoryCheckpoints.history

    def counted(self: MemoryCheckpoints, flow: str, last: int) -> Any:
        asked.append(last)
        return history(self, flow, last)

    with desk.services() as services:
        row = RejectedRow("never", "shop.orders", None, "a cause", CHECK, "p", "{}")
        services.recorder.quarantine("shop", 99, [row], "closed")
        monkeypatch.setattr(MemoryCheckpoints, "history", counted)
        commits = FlowCommits("shop", services.store)
        assert sorted(batch for batch, _ in commits.behind(0)) == [1, 2, 3, 4]
        assert commits.behind(0) is commits.behind(2)
        assert asked == [1, 5, 1, 0, 1, 0]
    monkeypatch.undo()
    desk.run()
    assert desk.given("b") == desk.given("a")


def test_what_an_earlier_databus_held_and_let_go_is_left_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entries have no plan, and its checkpoints of sinks that are behind do not say when these left."""
    quarantine, detached = SqlRecorder.quarantine, split_transitions.detached

    def unplanned(self: SqlRecorder, flow: str, batch: int, rows: Any, **_: Any) -> None:
        quarantine(self, flow, batch, rows)

    def unsaid(*arguments: Any) -> Any:
        checkpoint, plan = detached(*arguments)
        return replace(checkpoint, detached=None), plan

    monkeypatch.setattr(SqlRecorder, "quarantine", unplanned)
    monkeypatch.setattr(split_transitions, "detached", unsaid)
    held = held_and_behind(desk)
    monkeypatch.undo()
    desk.run()
    assert not held & desk.given("b").keys()
    assert desk.given("b") == desk.given("a")
