"""A flow's place as sensors judge it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from databus import Flow, Kafka, MysqlBinlog
from databus.core.positions.offsets import BinlogOffset
from databus.core.settings import Settings
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.ops.health.head import FlowPosition, HeadLook
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints


@pytest.mark.parametrize(
    ("committed", "lag_bytes", "has_changes"),
    [("", None, True), ("a:4", 0, False), ("a:4", 1, True), ("a:4", None, True)],
)
def test_there_are_changes_unless_the_source_says_there_are_none(
    committed: str, lag_bytes: int | None, has_changes: bool
) -> None:
    assert FlowPosition("orders", committed, "a:9", lag_bytes, 0.0).has_changes is has_changes


@pytest.mark.parametrize(
    ("place", "bounds", "within"),
    [
        (FlowPosition("orders", "a:4", "a:9", 5, 1.0), (1.0, None), True),
        (FlowPosition("orders", "a:4", "a:9", 5, 1.1), (1.0, None), False),
        (FlowPosition("orders", "a:4", "a:9", 5, 1.0), (2.0, 4), False),
        (FlowPosition("orders", "a:4", "a:9", None, 1.0), (None, 4), False),
        (FlowPosition("orders", "", "a:9", None, None), (None, None), False),
    ],
)
def test_lag_is_within_bounds_only_when_it_is_known(
    place: FlowPosition, bounds: tuple[float | None, int | None], within: bool
) -> None:
    assert place.within(*bounds) is within


@pytest.mark.parametrize(
    ("committed", "changed", "has_changes"), [("a:4", False, False), ("a:4", True, True), ("", False, True)]
)
def test_of_a_shared_log_only_own_changes_count(committed: str, changed: bool, has_changes: bool) -> None:
    assert FlowPosition("orders", committed, "a:9", 5, 0.0, changed=changed).has_changes is has_changes


class QuietLog(MockSource):
    """A log that many flows read, and in which nothing was changed."""

    def changed_since(self, _after: Any) -> bool:
        return False

    def rest(self) -> None:
        pass


def test_a_snapshot_that_is_under_way_wakes_its_flow_though_nothing_is_logged() -> None:
    flow = Flow(name="shop", source=MysqlBinlog(conn_id="m", tables=("a.*",)), sinks=(Kafka(conn_id="k", topic="t"),))
    store = MemoryCheckpoints()
    lease = store.claim("shop", "run", 0)
    start = BinlogOffset("bin.000001", 4)
    store.start("shop", lease, start, "run")
    look = HeadLook(flow, cast("Any", None), Settings("t", "", ""))

    class Looked:
        def __init__(self) -> None:
            self.flow, self.store = flow, SimpleNamespace(snapshot=store.snapshot, holder=lambda _: None)

        def position(self) -> Any:
            return None, start

        def source(self) -> Any:
            return QuietLog(Mock(rows=1))

        def rest(self) -> None:
            pass

        close = rest

    look._look = cast("Any", Looked())
    assert not look.change().has_changes
    begun = Snapshot(1, "request", datetime.now(UTC), (TableProgress("a.t"),))
    store.begin_snapshot("shop", None, begun, "ann", "why")
    at_first = look.change()
    assert (at_first.has_changes, at_first.changed) == (True, False)
    further = replace(at_first, snapshot="snapshot-1-1")
    assert at_first.stands != further.stands  # waking it again does not back off
    store.pause_snapshot("shop", "ann", "why")
    assert not look.change().has_changes
    store.resume_snapshot("shop", "ann", "why")
    assert look.change().has_changes
    store.cancel_snapshot("shop", "ann", "why")
    assert not look.change().has_changes
