"""Sinks that follow columns are told of those that move, whichever databus planned the range."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databus import Flow
from databus.core.positions.offsets import OffsetRange
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import MovedColumns
from databus.runtime import plan
from databus.runtime.batch import run_batch
from databus.sinks.memory import Memory, clear
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import Mock
from tests.unit.runtime.hiding_flow import Kept, opened


class Moving(MockSource):
    """A source whose ranges have a statement that moves columns."""

    def _describe(self, planned: OffsetRange) -> SourcePlan:
        moved = MovedColumns("shop.orders", (("id", "old"),))
        return replace(super()._describe(planned), columns_moved=(moved,))


def test_a_plan_in_flight_that_an_older_databus_wrote_is_told_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    clear("follows")
    flow = Flow(name="hides", source=Mock(rows=4), sinks=(Memory(store="follows"),))
    told: list[str] = []
    with opened(flow, Kept()) as session:
        session.source = Moving(Mock(rows=4))
        lease = session.store.claim("hides", "run", 0)
        standing = session.store.start("hides", lease, session.source.start_offset(), "run")
        (sink,) = session.sinks.values()
        with monkeypatch.context() as older:
            older.setattr(plan, "follow_columns", lambda *_: None)
            planned = plan.next_plan(session, lease, standing)
        sink.follow_columns = lambda _, tables: told.extend(route for _, route in tables)  # type: ignore[attr-defined]
        run_batch(session, lease, standing)
    assert planned is not None
    assert told == ["shop.orders"]
