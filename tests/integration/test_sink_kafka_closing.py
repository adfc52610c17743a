"""Plans that the Kafka sink closes on a real broker: abandoned, cut off on the way, and opened again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from databus.core.batching import Batching
from databus.core.errors import (
    CheckpointConflictError,
    MarkerDivergedError,
    SinkFencedError,
    StaleEpochError,
)
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import Plan, SourcePlan
from databus.runtime.plan import next_plan
from databus.runtime.takeover.closing import ClosingOutcome, close_unwritten, open_again
from databus.sinks.kafka.markers import Marker
from databus.sinks.kafka.session import Session
from databus.sinks.kafka.sink import KafkaSink
from tests.contract.sink_contract import inserts, source_plan
from tests.integration.kafka_target import (
    KafkaAdapter,
    PausedWrite,
    forget_kept,
)

pytestmark = pytest.mark.integration


class KilledError(BaseException):
    """The process ends here."""


@pytest.fixture
def adapter(servers: str) -> Iterator[KafkaAdapter]:
    with closing(KafkaAdapter(servers)) as adapter:
        yield adapter


def changed_flow(sink: KafkaSink, pending: Plan, spec_hash: str = "another") -> Any:
    """What planning uses of a session, of a flow that is not what it was when the plan in flight was made."""
    return SimpleNamespace(
        flow=SimpleNamespace(name=pending.flow, batching=Batching()),
        store=SimpleNamespace(pending_plan=lambda flow: pending),
        spec_hash=spec_hash,
        takes_up=lambda plan: plan.spec_hash == spec_hash,
        split=False,
        replays=False,
        sinks={"kafka": sink},
        sink_spec={"kafka": sink.spec}.__getitem__,
        source=SimpleNamespace(
            plan=Mock(side_effect=AssertionError("planned anew")), reopen=lambda planned: SourcePlan(planned, (), 0, 0)
        ),
    )


def standing(sink: KafkaSink) -> tuple[int, str] | None:
    """Batch and plan of the first slot's mark."""
    (mark,) = sink.marks(1)
    return (mark.batch, mark.plan_hash) if mark else None


def stands(sink: KafkaSink) -> list[tuple[int, str] | None]:
    """Batch and plan of two slots' marks."""
    return [mark and (mark.batch, mark.plan_hash) for mark in sink.marks(2)]


def close_some(monkeypatch: pytest.MonkeyPatch, sink: KafkaSink, plan: Plan, slots: int) -> None:
    """Close a plan; die after so many slots."""
    commit, left = Session.commit, iter(range(slots))

    def cut_off(self: Session, marker: Marker) -> None:
        if next(left, None) is None:
            raise KilledError
        commit(self, marker)

    with monkeypatch.context() as patch, suppress(KilledError):
        patch.setattr(Session, "commit", cut_off)
        close_unwritten({"kafka": sink}, plan, Mock())


def checkpoint_before(plan: Plan) -> Checkpoint:
    slots = {name: pinned.prev for name, pinned in plan.sinks.items()}
    return Checkpoint(plan.range.start, plan.batch - 1, Epoch(1), "run", "", {}, None, plan.clock, slots)


class TestUpkeep:
    def test_an_abandoned_plan_can_be_followed_but_never_written(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        plan, changes = adapter.plan(sink, 1, 0), inserts(range(40), 1500)
        zombie = PausedWrite(adapter, sink, plan, changes)
        assert sink.abandon(plan) == {0: "abandoned"}
        assert isinstance(zombie.finish(), SinkFencedError)
        with pytest.raises(MarkerDivergedError, match="abandoned"):
            adapter.write(sink, plan, changes)
        assert sink.abandon(plan) == {0: "abandoned"}
        assert not sink.wrote_any_of(plan)
        assert adapter.delivered() == []
        adapter.write(sink, adapter.plan(sink, 2, 1), inserts([7], 2500))
        assert adapter.read_back() == {7: 0}

    def test_a_changed_flow_stops_where_a_writer_that_lives_writes_while_its_plan_is_closed(
        self, adapter: KafkaAdapter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fenced slot by slot, after markers were looked at, slot 1 was written under both plans."""
        sink = adapter.make_sink(slots=2)
        plan, changes = adapter.plan(sink, 1, 0), inserts(range(6), 1500)
        even, odd = [c for c in changes if c.id % 2 == 0], [c for c in changes if c.id % 2]
        connect, late = Session._connect, iter([odd])

        def connected(self: Session) -> None:
            connect(self)
            if self.slot == 1 and (rows := next(late, None)):  # the closer has come to slot 1: a task tried again
                adapter.write(sink, plan, rows, slot=1)

        monkeypatch.setattr(Session, "_connect", connected)
        with pytest.raises(CheckpointConflictError, match=r"batch 1 .* half written \(already in: kafka\)"):
            next_plan(changed_flow(sink, plan), Mock(), checkpoint_before(plan))
        # The former definition finishes its batch: each row is there once.
        forget_kept()
        assert adapter.write(sink, plan, odd, slot=1).duplicate
        adapter.write(sink, plan, even, slot=0)
        assert sorted(adapter.delivered()) == sorted(c.event_id for c in changes)

    def test_slots_closed_before_a_writer_came_back_are_opened_again(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink(slots=2)
        for batch, first in ((1, 0), (2, 10)):  # without markers before, and with some
            plan = adapter.plan(sink, batch, batch - 1)
            changes = inserts(range(first, first + 6), batch * 1000 + 500)
            even, odd = [c for c in changes if c.id % 2 == 0], [c for c in changes if c.id % 2]
            forget_kept()
            before, fenced = standing(sink), sink.fence(plan)
            assert fenced is not None
            assert fenced.held() == []
            adapter.write(sink, plan, odd, slot=1)
            with pytest.raises(SinkFencedError):
                fenced.abandon()
            fenced.discard()
            with pytest.raises(MarkerDivergedError, match=r"slot 0: found .* abandoned"):
                adapter.write(sink, plan, even, slot=0)
            assert close_unwritten({"kafka": sink}, plan, Mock()) == ClosingOutcome(("kafka",), {})
            assert standing(sink) == before
            forget_kept()
            adapter.write(sink, plan, even, slot=0)
        assert len(adapter.delivered()) == len(set(adapter.delivered())) == 12

    def test_what_an_amendment_has_closed_is_not_opened_again(self, adapter: KafkaAdapter) -> None:
        """A holder that lost its lease while it closed the plan would else undo the amendment."""
        sink = adapter.make_sink(slots=2)
        plan = adapter.plan(sink, 1, 0)
        adapter.write(sink, plan, inserts([1], 1500), slot=1)
        forget_kept()
        assert sink.abandon(plan) == {0: "abandoned", 1: "written"}
        closed = sink.markers()
        assert close_unwritten({"kafka": sink}, plan, Mock()).held == ("kafka",)
        assert sink.markers() == closed
        open_again({"kafka": sink}, plan, Mock())
        assert sink.markers() == closed

    @pytest.mark.parametrize("cut", [0, 1, 2], ids=["before any", "after one slot", "whole"])
    def test_a_flow_that_is_changed_back_goes_on_with_the_plan_that_its_change_had_closed(
        self, adapter: KafkaAdapter, monkeypatch: pytest.MonkeyPatch, cut: int
    ) -> None:
        """The closing is killed after some slots, or as a whole before the plan that follows is written."""
        sink = adapter.make_sink(slots=2)
        for batch, first in ((1, 0), (2, 10)):  # without markers before, and with some
            plan = adapter.plan(sink, batch, batch - 1)
            changes = inserts(range(first, first + 6), batch * 1000 + 500)
            forget_kept()
            before = stands(sink)
            close_some(monkeypatch, sink, plan, cut)
            assert [m.closed for m in sink.marks(2, settled=False) if m is not None].count(True) == cut
            # Who has lost the flow meanwhile moves nothing.
            closed = sink.markers()
            stale = Mock(confirm=Mock(side_effect=StaleEpochError("claimed since")))
            if cut:
                with pytest.raises(StaleEpochError):
                    open_again({"kafka": sink}, plan, stale)
            with pytest.raises(StaleEpochError):
                close_unwritten({"kafka": sink}, plan, stale)
            assert sink.markers() == closed
            taken = next_plan(changed_flow(sink, plan, plan.spec_hash), Mock(), checkpoint_before(plan))
            assert taken is not None
            assert (taken.plan, stands(sink)) == (plan, before)
            forget_kept()
            for slot in (0, 1):
                adapter.write(sink, plan, [c for c in changes if c.id % 2 == slot], slot=slot)
        assert len(adapter.delivered()) == len(set(adapter.delivered())) == 12

    def test_a_plan_written_before_is_not_abandoned(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        plan = adapter.plan(sink, 1, 0)
        adapter.write(sink, plan, inserts([1], 1500))
        assert sink.abandon(plan) == {0: "written"}

    def test_refresh_keeps_the_marker_as_it_is(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        assert sink.prepare(source_plan(500, 1000), []).prev == (0,)
        assert sink.refresh() == 0
        adapter.write(sink, adapter.plan(sink, 1, 0), inserts([1], 1500))
        before = sink.markers()
        assert sink.refresh(3600) == 1
        assert sink.markers() == before
        assert adapter.make_sink().refresh(3600) == 0  # of the next window, within the hour
        assert sink.markers() == before
        assert sink.refresh() == 1
        adapter.write(sink, adapter.plan(sink, 2, 1), inserts([2], 2500))
