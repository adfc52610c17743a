"""The first snapshot of a flow: begun by its first run or the one behind it, and never for one that began before."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from databus.core.errors import CheckpointUnavailableError
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.ops.health.distance import distance
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.runtime.marked_sinks import BROKERS, ROWS, Installation, brokers
from tests.unit.runtime.test_chunks_of_given_up_plans import CHUNK, FILE, Snapped, SnapshotOfMock, of_chunk

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

    def open(self, *_: Any) -> Any:
        return TablesOfMock(self)

    def begins_with_snapshot(self) -> bool:
        return True


class Streaming(Beginning):
    """A mock source whose flows deliver changes alone."""

    kind = "streaming"

    def begins_with_snapshot(self) -> bool:
        return False


class RowsAlone(Beginning):
    """A mock source whose flows deliver the rows that its table holds, and no changes."""

    kind = "rows_alone"

    def reads_changes(self) -> bool:
        return False


class NewFlow(Installation):
    """A flow that has not begun, whose source stands idle behind all its rows."""

    def __init__(self, source: type[Beginning] = Beginning, start: str = "latest", sinks: str = "a") -> None:
        super().__init__(*sinks)
        self.written(source, start)

    def written(self, source: type[Beginning], start: str = "latest") -> None:
        """Change what the flow's definition says of the rows that are there."""
        made = source(rows=ROWS, rows_per_transaction=2, start=start)
        self.flow = self.flow.model_copy(update={"source": made})

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


def test_a_run_that_loses_zookeeper_before_it_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it would move without would be the flow's first batch, and the rows be taken for read."""
    flow = NewFlow(start="earliest")
    TablesOfMock.away = True
    with pytest.raises(CheckpointUnavailableError):
        flow.run(max_seconds=20.0)
    TablesOfMock.away = False
    with monkeypatch.context() as lost:
        lost.setattr("databus.runtime.window.is_detached", lambda _session: True)
        with pytest.raises(CheckpointUnavailableError, match="cannot begin with the rows"):
            flow.run(max_seconds=20.0)
    assert BROKERS["a"].held == []
    flow.run(max_seconds=20.0)
    begun = flow.begun()
    assert begun is not None
    assert (begun.cause, of_chunk("a")) == ("initial", CHUNK)


def test_a_flow_that_began_without_it_gets_none_by_another_definition() -> None:
    """As an upgrade makes one of every flow without `start`, also of those that have moved nothing yet."""
    flow = NewFlow(Streaming)
    flow.run(max_seconds=20.0)
    flow.written(Beginning)
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


def test_only_ends_behind_the_rows_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    flow = NewFlow(RowsAlone, "earliest")
    caplog.set_level("INFO")
    flow.run(max_seconds=20.0)
    begun, standing = flow.begun(), flow.store.load("shop")
    assert begun is not None
    assert begun.finished_at is not None
    assert (of_chunk("a"), len(BROKERS["a"].held)) == (CHUNK, CHUNK)
    assert 'flow shop: snapshot 1 is finished; snapshot="only" reads no changes' in caplog.text
    began = time.monotonic()
    assert flow.run(until_caught_up=False, max_seconds=60.0).batches == 0  # a window that waits for changes ends too
    assert time.monotonic() - began < 30
    assert flow.store.load("shop") == standing


def test_only_moves_nothing_more_while_a_sink_is_behind() -> None:
    flow = NewFlow(RowsAlone, "earliest", "ab")
    BROKERS["b"].fails_after = 1
    assert list(flow.run(max_seconds=20.0).behind) == ["b"]
    assert (len(BROKERS["a"].held), of_chunk("a"), of_chunk("b")) == (CHUNK, CHUNK, 0)
    standing = flow.store.load("shop")
    BROKERS["b"] = replace(BROKERS["b"], down=False, fails_after=None)
    assert flow.run(max_seconds=20.0).behind == {}
    assert (len(BROKERS["a"].held), len(BROKERS["b"].held)) == (CHUNK, CHUNK)
    joined = flow.store.load("shop")
    assert standing is not None
    assert joined is not None
    assert joined.offset == standing.offset


def test_only_moves_nothing_while_its_snapshot_is_paused_or_gone(caplog: pytest.LogCaptureFixture) -> None:
    flow = NewFlow(RowsAlone, "earliest")
    caplog.set_level("INFO")
    flow.run(max_batches=0)
    flow.store.pause_snapshot("shop", "ann", "why")
    assert flow.run(max_seconds=20.0).batches == 0
    assert "snapshot 1 is paused; " in caplog.text
    flow.store.cancel_snapshot("shop", "ann", "why")
    assert flow.run(max_seconds=20.0).batches == 0
    assert "snapshot 1 was cancelled; " in caplog.text


def test_only_reads_changes_while_its_rows_wait_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a flow does that is far behind, when one begins another snapshot."""
    flow, waits = NewFlow(RowsAlone, "earliest"), [True, True]
    real = TablesOfMock.plan_chunks

    def far_behind(source: Any, *given: Any) -> Any:
        return None if waits and waits.pop() else real(source, *given)

    monkeypatch.setattr(TablesOfMock, "plan_chunks", far_behind)
    flow.run(max_seconds=20.0)
    assert of_chunk("a") == CHUNK
    assert len(BROKERS["a"].held) == CHUNK + 2 * 20  # two batches of the log


def test_a_flow_that_is_done_with_its_rows_is_not_behind_and_needs_no_log() -> None:
    flow, asked = NewFlow(RowsAlone, "earliest"), list[str]()
    flow.run(max_batches=0)
    at = flow.store.load("shop")
    assert at is not None
    source = flow.flow.source.open()
    assert distance(flow.flow, flow.store, source, at.offset)[0].bytes
    flow.store.pause_snapshot("shop", "ann", "why")
    assert distance(flow.flow, flow.store, source, at.offset)[0].bytes
    flow.store.resume_snapshot("shop", "ann", "why")
    flow.run(max_seconds=20.0)
    source.headroom = lambda *_: asked.append("headroom")
    lag, headroom = distance(flow.flow, flow.store, source, at.offset)
    assert (lag.bytes, lag.seconds, headroom, asked) == (0, 0.0, None, [])
    flow.written(Beginning)
    assert distance(flow.flow, flow.store, source, at.offset)[0].bytes
