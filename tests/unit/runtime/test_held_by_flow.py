"""What a sink that is behind leaves out of the rows that it has yet to pass: those that the flow's own batches held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from databus.core.amendments import Amendment
from databus.core.errors import SourceDivergedError
from databus.core.offsets import SequenceOffset
from databus.core.receipts import CHECK, RejectedRow
from databus.runtime import held_by_flow
from tests.spark.test_replay_behind import LOOSE, ROWS, STRICT, Desk, _soon  # noqa: F401 - a fixture


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
        found = self.recorder.checked_batches(self.flow)
        with monkeypatch.context() as context:
            context.setattr(type(self.recorder), "checked_batches", lambda *_: dict.fromkeys(found))
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
