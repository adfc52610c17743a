"""Simple sinks: one that keeps a marker keeps the contract exactly once; one that does not says so by name."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import databus
from databus import SimpleSink
from databus.core.batches.receipts import WriteReceipt
from databus.core.connections import Connection
from databus.core.errors import (
    ConfigError,
    MarkerDivergedError,
    SinkFencedError,
)
from databus.core.state.evidence import CommittedState, EvidentSink
from databus.core.state.sink_markers import MarkedSink
from databus.rows import version_numbers
from databus.runtime.zookeeper_loss.policy import marked_sinks, register_of
from databus.sinks.simple_rows import SimpleRows
from databus.sinks.simple_sink import SimpleMarker
from databus.testing.contract import SimpleSinkAdapter, SinkContract, opened
from databus.testing.contract.sink import inserts
from tests.contract.simple_sinks import LinesSink, SqliteSink


class LinesAdapter(SimpleSinkAdapter):
    name: ClassVar[str] = "lines"
    repeats: ClassVar[bool] = True

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def make_sink(self) -> Any:
        return super().make_sink()

    def spec(self, *, reachable: bool) -> LinesSink:
        return LinesSink(path=str(self.folder / "rows" if reachable else self.folder / "none" / "rows"))

    def lines(self) -> list[dict[str, Any]]:
        return self.spec(reachable=True).lines()

    def delivered(self) -> list[str]:
        return [line["event_id"] for line in self.lines()]

    def read_back(self) -> Mapping[int, int]:
        state: dict[int, int] = {}
        for line in {line["event_id"]: line for line in self.lines()}.values():
            state.pop(line["key"]["id"], None)
            if line["after"]:
                state[line["key"]["id"]] = line["after"]["v"]
        return state


class SqliteAdapter(LinesAdapter):
    name: ClassVar[str] = "sqlite"
    marked: ClassVar[bool] = True
    repeats: ClassVar[bool] = False

    def spec(self, *, reachable: bool) -> SqliteSink:
        return SqliteSink(path=str(self.folder / "rows.db" if reachable else self.folder / "none" / "rows.db"))


class TestAtLeastOnceContract(SinkContract):
    @pytest.fixture
    def adapter(self, tmp_path: Path) -> LinesAdapter:
        return LinesAdapter(tmp_path)


class TestExactlyOnceContract(SinkContract):
    @pytest.fixture
    def adapter(self, tmp_path: Path) -> SqliteAdapter:
        return SqliteAdapter(tmp_path)


@pytest.fixture
def marked(tmp_path: Path) -> SqliteAdapter:
    return SqliteAdapter(tmp_path)


def test_profile_says_what_the_class_can_do(tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    assert (LinesSink(path=path).profile, SqliteSink(path=path).profile) == ("at_least_once", "exactly_once")
    assert LinesSink(path=path).to_json()["profile"] == "at_least_once"
    with pytest.raises(ConfigError, match="keeps no markers: a batch that is tried again is written again"):
        LinesSink(path=path, profile="exactly_once")
    assert SqliteSink(path=path, profile="at_least_once").profile == "at_least_once"
    assert SqliteSink(**{k: v for k, v in SqliteSink(path=path).to_json().items() if k != "kind"}).profile == (
        "exactly_once"
    )


def test_a_marked_sink_that_is_to_write_at_least_once_writes_again(marked: SqliteAdapter) -> None:
    spec = marked.spec(reachable=True).model_copy(update={"profile": "at_least_once"})
    sink: Any = opened(spec, marked.flow)
    plan = marked.plan(sink, 1, 0)
    assert not sink.marked
    assert sink.fence(plan) is None
    assert sink.abandon(plan) == {}
    assert not marked_sinks({"sqlite": sink})


def test_write_is_all_that_is_abstract() -> None:
    assert SimpleSink.__abstractmethods__ == {"write"}
    assert databus.SimpleSink is SimpleSink


def test_evidence_and_preflight_name_the_guarantee(tmp_path: Path) -> None:
    adapter = LinesAdapter(tmp_path)
    lines = adapter.make_sink()
    assert isinstance(adapter.make_sink(), EvidentSink)
    told = lines.evidence(claim(0)).looked_at[0]
    assert "a batch that is tried again is written again, under the same event ids" in told
    assert LinesAdapter(tmp_path).make_sink().preflight()[0].message in told
    assert "exactly once" in SqliteAdapter(tmp_path).make_sink().preflight()[0].message


def claim(committed: int, plan: Any = None, hashes: Mapping[int, str] | None = None) -> CommittedState:
    checkpoint: Any = SimpleNamespace(slots={"sqlite": (committed,)})
    return CommittedState("flow", checkpoint, plan, hashes or {}, ())


def test_evidence_compares_the_marker(marked: SqliteAdapter) -> None:
    sink = marked.make_sink()
    assert not sink.evidence(claim(0)).problems
    assert sink.evidence(claim(1)).problems
    plan = marked.plan(sink, 1, 0)
    marked.write(sink, plan, inserts([1], 1500))
    assert not sink.evidence(claim(1, hashes={1: plan.hash})).problems
    assert sink.evidence(claim(1, hashes={1: "another"})).problems
    assert sink.evidence(claim(0)).problems
    assert not sink.evidence(claim(0, plan)).problems


def test_marks_tell_where_rows_end(marked: SqliteAdapter) -> None:
    sink = marked.make_sink()
    assert isinstance(sink, MarkedSink)
    assert list(sink.marks(2)) == [None, None]
    plan = marked.plan(sink, 1, 0)
    marked.write(sink, plan, inserts([1], 1500))
    (mark,) = sink.marks(1)
    assert (mark.batch, mark.plan_hash, mark.end, mark.closed) == (1, plan.hash, plan.range.end, False)


def test_an_abandoned_plan_is_fenced(marked: SqliteAdapter) -> None:
    sink = marked.make_sink()
    marked.write(sink, marked.plan(sink, 1, 0), inserts([1], 1500))
    plan = marked.plan(sink, 2, 1)
    zombie = pickle.loads(pickle.dumps(sink.writer(plan)))
    fence = sink.fence(plan)
    assert list(fence.held()) == []
    assert fence.abandon() == {0: "abandoned"} == fence.abandon() == sink.abandon(plan)
    assert sink.marks(1)[0].closed
    with pytest.raises(MarkerDivergedError):
        zombie.write(iter(marked.encode(inserts([2], 2500), plan)), 0)
    assert not sink.wrote_any_of(plan)
    fence.put_back()
    fence.put_back()
    receipt = marked.write(sink, plan, inserts([2], 2500))
    assert (receipt.duplicate, receipt.written) == (False, 1)
    assert sink.wrote_any_of(plan)
    assert sink.abandon(plan) == {0: "written"}
    with pytest.raises(SinkFencedError):
        fence.abandon()
    assert list(marked.read_back()) == [1, 2]
    with pytest.raises(MarkerDivergedError):
        sink.fence(marked.plan(sink, 9, 8)).abandon()


def test_the_batch_behind_an_abandoned_one_follows_it(marked: SqliteAdapter) -> None:
    sink = marked.make_sink()
    plan = marked.plan(sink, 1, 0)
    assert sink.abandon(plan) == {0: "abandoned"}
    marked.write(sink, marked.plan(sink, 2, 1), inserts([5], 1500))
    assert list(marked.read_back()) == [5]


def test_a_writer_that_looked_before_another_wrote_is_stopped_by_the_sink(marked: SqliteAdapter) -> None:
    sink = marked.make_sink()
    plan = marked.plan(sink, 1, 0)
    slow = SimpleRows(marked.encode(inserts([1], 1500), plan), f"contract/{marked.flow}/sqlite", 1, "m", None)
    marked.write(sink, plan, inserts([1], 1500))
    with pytest.raises(SinkFencedError):
        marked.spec(reachable=True).write(slow)
    assert marked.delivered() == [f"srv:mysql-bin.000001:1500:{0}:0"]


def test_a_marker_that_was_lost_is_written_again(marked: SqliteAdapter) -> None:
    sink = marked.make_sink()
    plan = marked.plan(sink, 5, 4)
    with pytest.raises(MarkerDivergedError):
        marked.write(sink, plan, inserts([1], 1500))
    sink.fence(plan).remember()
    assert marked.write(sink, plan, inserts([1], 1500)).written == 1


def test_rows_have_versions(tmp_path: Path) -> None:
    """A newer batch has greater ones."""
    adapter, found = LinesAdapter(tmp_path), list[Any]()

    class Versions(LinesSink):
        def write(self, rows: SimpleRows) -> WriteReceipt:
            assert rows.end is not None
            for batch in rows.batches():
                found.extend(version_numbers(batch, rows.end).to_pylist())
            return rows.receipt()

    sink: Any = opened(Versions(path=str(tmp_path / "rows")), adapter.flow)
    for number in (1, 2):
        plan = adapter.plan(sink, number, number - 1)
        sink.writer(plan).write(adapter.encode(inserts([1, 2], 1000 * number + 500), plan), 0)
    assert found == sorted(found)
    assert len(set(found)) == 2


def test_a_marker_of_somebody_else_is_named() -> None:
    with pytest.raises(MarkerDivergedError):
        SimpleMarker.parse("not ours")


def test_it_is_no_register_of_claims(marked: SqliteAdapter) -> None:
    sink = marked.make_sink()
    assert set(marked_sinks({"sqlite": sink})) == {"sqlite"}
    with pytest.raises(ConfigError, match="register"):
        register_of("flow", {"sqlite": sink})


def test_rows_as_objects(marked: SqliteAdapter) -> None:
    sink = marked.make_sink()
    plan = marked.plan(sink, 1, 0)
    rows = list(SimpleRows(marked.encode(inserts([7], 1500, v=3), plan), "i/f/s", 1))
    assert (rows[0].table, rows[0].key, rows[0].before, rows[0].after) == (
        "shop.orders",
        {"id": 7},
        None,
        {"id": 7, "v": 3},
    )
    assert rows[0].committed_at.tzinfo is not None
    assert rows[0].to_json().startswith('{"event_id":"srv:mysql-bin.000001:1500:0:0","op":"c","table":"shop.orders"')


def test_a_connection_is_not_printed(tmp_path: Path) -> None:
    adapter = LinesAdapter(tmp_path)
    adapter.connections = [Connection(conn_id="c", conn_type="http", password="hush")]
    adapter.spec = lambda *, reachable: LinesSink(path=str(tmp_path / "rows"), conn_id="c")  # type: ignore[method-assign]
    sink = adapter.make_sink()
    writer = pickle.loads(pickle.dumps(sink.writer(adapter.plan(sink, 1, 0))))
    assert writer.sink.connection.password.get_secret_value() == "hush"
    assert "hush" not in repr(writer)
    with pytest.raises(ConfigError, match="no connection"):
        _ = LinesSink(path="x").connection


def test_rows_that_a_sink_leaves_are_not_receipted(tmp_path: Path) -> None:
    """The path compares receipts with what it gave: a sink that stops early fails its batch."""
    adapter = LinesAdapter(tmp_path)
    sink = adapter.make_sink()
    rows = SimpleRows(adapter.encode(inserts([1, 2, 3, 4], 1500), adapter.plan(sink, 1, 0)), "i/f/lines", 1)
    next(iter(rows))
    assert (rows.receipt().rows, rows.receipt().written) == ({"shop.orders": 2}, 2)
    assert (rows.receipt(9).sink, rows.receipt(9).written) == ("lines", 9)
