"""The first snapshot of a flow: begun by its first run or the one behind it, and never for one that began before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from databus.core.errors import CheckpointUnavailableError
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.runtime.test_chunks_of_given_up_plans import FILE, Snapped, SnapshotOfMock, of_chunk
from tests.unit.runtime.test_sinks_behind import ROWS, Installation, brokers

__all__ = ["brokers"]


class TablesOfMock(SnapshotOfMock):
    """A mock source whose server can be away when its tables are asked for."""

    tables: tuple[TableProgress, ...] = (TableProgress(FILE.table),)
    away = False

    def snapshot_tables(self, _conditions: Any = None) -> Sequence[TableProgress]:
        if type(self).away:
            raise CheckpointUnavailableError("killed between the checkpoint and its snapshot")
        return self.tables


class Beginning(Snapped):
    """A mock source whose new flows begin with the rows that its table holds."""

    kind = "beginning"
    initial: bool = True

    def open(self, *_: Any) -> Any:
        return TablesOfMock(self)

    def begins_with_snapshot(self) -> bool:
        return self.initial


class NewFlow(Installation):
    """A flow that has not begun, whose source stands idle behind all its rows."""

    def __init__(self, *, initial: bool = True) -> None:
        super().__init__("a")
        self.written(initial)

    def written(self, initial: bool) -> None:
        """Change what the flow's definition says of the rows that are there."""
        source = Beginning(rows=ROWS, rows_per_transaction=2, start="latest", initial=initial)
        self.flow = self.flow.model_copy(update={"source": source})

    def begun(self) -> Snapshot | None:
        return self.store.snapshot("shop")


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TablesOfMock, "away", False)


def test_the_first_run_begins_it_and_no_later_one_another() -> None:
    flow = NewFlow()
    flow.run(max_seconds=20.0)
    first = flow.begun()
    assert first is not None
    assert (first.number, first.cause, first.unfinished) == (1, "initial", False)
    delivered = of_chunk("a")
    assert delivered
    flow.run(max_seconds=20.0)
    assert (flow.begun(), of_chunk("a")) == (first, delivered)


def test_a_run_that_is_killed_before_it_leaves_it_to_the_next_one() -> None:
    flow = NewFlow()
    TablesOfMock.away = True
    with pytest.raises(CheckpointUnavailableError):
        flow.run(max_seconds=20.0)
    assert flow.store.load("shop") is not None
    assert flow.begun() is None
    TablesOfMock.away = False
    flow.run(max_seconds=20.0)
    begun = flow.begun()
    assert begun is not None
    assert begun.cause == "initial"


def test_a_flow_that_began_without_it_gets_none_by_another_definition() -> None:
    """As an upgrade makes one of every flow without `start`, also of those that have moved nothing yet."""
    flow = NewFlow(initial=False)
    flow.run(max_seconds=20.0)
    flow.written(initial=True)
    flow.run(max_seconds=20.0)
    assert flow.begun() is None
    assert of_chunk("a") == 0


def test_a_checkpoint_of_an_older_databus_gets_none() -> None:
    flow = NewFlow()
    store = MemoryCheckpoints(flow.server)
    lease = store.claim("shop", "older", 0)
    store.start("shop", lease, SequenceOffset(ROWS // 2), "older")
    lease.release()
    store.close()
    flow.run(max_seconds=20.0)
    assert flow.begun() is None
    assert of_chunk("a") == 0
