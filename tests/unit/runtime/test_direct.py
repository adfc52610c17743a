"""The direct lane without Spark: its tasks run in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from databus import AcceptedValues, DropColumns, Filter, Flow, InRange, NotNull, Route, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.receipts import WriteReceipt
from databus.core.errors import DecodeError, ReconciliationError, SinkUnavailableError, TransformError
from databus.core.flow_specs import FlowContext
from databus.core.settings import Settings
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.times import SystemClock
from databus.runtime.context import RunIdentity, Services, open_session
from databus.runtime.direct import lane as direct
from databus.runtime.direct.lane import image_columns, is_direct, may_be_direct
from databus.runtime.direct.task import in_order
from databus.runtime.plan import PlannedBatch, next_plan
from databus.sinks.kafka import Kafka
from databus.sinks.noop import Noop
from databus.sources.mock.source import MockSplit
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints


class InProcess:
    """What the lane asks of a Spark session: a task per number, here one after the other."""

    def range(self, start: int, stop: int, step: int, _partitions: int) -> InProcess:
        self.numbers = [pa.RecordBatch.from_pydict({"id": [n]}) for n in range(start, stop, step)]
        return self

    def mapInArrow(self, run: Any, _schema: str) -> InProcess:  # noqa: N802 - Spark's name
        self.rows = [row for number in self.numbers for batch in run([number]) for row in batch.to_pylist()]
        return self

    def collect(self) -> list[dict[str, Any]]:
        return self.rows


@dataclass(frozen=True)
class Halves:
    """An encoder that gives each of two slots every other row."""

    lose: int = 0

    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:
        mine = np.asarray(rows["place"]) % 2 == slot
        mine[: self.lose] = False
        return rows.filter(pa.array(mine))


@dataclass(frozen=True)
class Counting:
    """A writer that counts."""

    fails: bool = False

    def write(self, rows: Any, slot: int) -> WriteReceipt:
        found: dict[str, int] = {}
        for batch in rows:
            if self.fails:
                raise SinkUnavailableError("gone", hint="wait")
            for name in batch["table"].to_pylist():
                found[f"shop.{name}"] = found.get(f"shop.{name}", 0) + 1
        return WriteReceipt("noop", slot, 1, sum(found.values()), found)


class HalvedSink:
    """A sink of two slots."""

    def __init__(self, encoder: Any, writer: Any):
        self._encoder, self._writer = encoder, writer

    def accepts(self) -> frozenset[str]:
        return frozenset("cud")

    def prepare(self, plan: SourcePlan, outputs: Any) -> SinkPlan:
        return SinkPlan(2, (0, 0))

    def encoder(self, plan: Plan) -> Any:
        return self._encoder

    def writer(self, plan: Plan) -> Any:
        return self._writer

    def close(self) -> None:
        pass


def dispatched(monkeypatch: pytest.MonkeyPatch, encoder: Any, writer: Any, **changes: Any) -> Any:
    """Plan a batch of 60 rows and dispatch it to a sink of two slots."""
    flow = Flow(name="halves", source=Mock(rows=60, rows_per_transaction=1), sinks=(Noop(),), **changes)
    monkeypatch.setattr(Noop, "open", lambda self, connections, context: HalvedSink(encoder, writer))
    checkpoints = MemoryCheckpoints()
    services = Services(Settings("t", "", ""), EnvironmentConnections({}), checkpoints, None, None, SystemClock())  # type: ignore[arg-type]
    with open_session(flow, services, InProcess(), RunIdentity("run", "", __version__)) as session:
        lease = checkpoints.claim(flow.name, "run", 0)
        checkpoint = checkpoints.start(flow.name, lease, session.source.start_offset(), "run")
        batch = next_plan(session, lease, checkpoint)
        assert isinstance(batch, PlannedBatch)
        return direct.dispatch_direct(session, batch)[0]["noop"]


def test_each_slot_reads_all_and_writes_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    done = dispatched(monkeypatch, Halves(), Counting())

    assert [(r.slot, r.written) for r in done.receipts] == [(0, 30), (1, 30)]
    assert (done.given, done.observed["changes"], done.observed["0_dispatched"]) == ({"shop.orders": 60}, 60, 60)


def test_shares_that_are_not_the_whole_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReconciliationError, match="rows of 60"):
        dispatched(monkeypatch, Halves(lose=1), Counting())


def test_slots_that_read_different_rows_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    read, calls = MockSplit.read_text, iter((1,))

    def uneven(self: MockSplit, columns: Any, marks: Any) -> Iterator[pa.RecordBatch]:
        less = next(calls, 0)
        return (rows.slice(less) for rows in read(self, columns, marks))

    monkeypatch.setattr(MockSplit, "read_text", uneven)
    with pytest.raises(ReconciliationError, match="did not read the same rows"):
        dispatched(monkeypatch, Halves(), Counting())


def test_what_the_writer_raises_comes_back_with_its_class_and_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SinkUnavailableError, match="gone") as caught:
        dispatched(monkeypatch, Halves(), Counting(fails=True))
    assert caught.value.hint == "wait"


def test_what_reading_raises_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: MockSplit, columns: Any, marks: Any) -> Iterator[pa.RecordBatch]:
        raise DecodeError("log.000001:4: damaged")
        yield

    monkeypatch.setattr(MockSplit, "read_text", broken)
    with pytest.raises(DecodeError, match=r"log\.000001:4"):
        dispatched(monkeypatch, Halves(), Counting())


def rows(*places: tuple[str, int, int, int]) -> pa.RecordBatch:
    file, position, ordinal, part = zip(*places, strict=True)
    return pa.RecordBatch.from_pydict({"log": file, "place": position, "ordinal": ordinal, "part": part})


def test_order_is_checked_inside_and_between_batches() -> None:
    good = [
        rows(("log.9", 8, 0, 0), ("log.9", 8, 1, 0), ("log.9", 8, 1, 1), ("log.9", 9, 0, 0)),
        rows(("log.9", 9, 1, 0)),
        rows(("log.10", 4, 0, 0)),
    ]
    assert list(in_order(good)) == good
    for bad in (
        [rows(("log.9", 8, 1, 0), ("log.9", 8, 0, 0))],
        [rows(("log.9", 8, 1, 0), ("log.9", 8, 1, 0))],
        [rows(("log.9", 8, 0, 0)), rows(("log.9", 7, 0, 0))],
        [rows(("log.10", 8, 0, 0)), rows(("log.9", 9, 0, 0))],
    ):
        with pytest.raises(DecodeError, match="out of order"):
            list(in_order(bad))


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (True, {}),
        (True, {"transforms": (DropColumns("a"), Route({"*": "x"}))}),
        (True, {"transforms": (DropColumns("a"), Filter("a > 1"))}),
        (True, {"checks": (NotNull("a"),)}),
        (False, {"lane": "spark"}),
    ],
)
def test_the_lane_follows_from_the_definition(expected: bool, changes: dict[str, Any]) -> None:
    flow = Flow(name="one", source=Mock(rows=1), sinks=(Kafka(conn_id="k"),))

    assert may_be_direct(flow.model_copy(update=changes)) is expected


def planned(flow: Flow) -> SourcePlan:
    source = flow.source.open(EnvironmentConnections({}), FlowContext(flow.name, Settings("t", "", "")))
    found = source.plan(source.start_offset(), flow.batching)
    assert found is not None
    return found


def test_only_tables_that_a_transform_changes_name_their_columns() -> None:
    drop = DropColumns("amount", tables=("shop.b",))
    source = Mock(tables=("shop.a", "shop.b"), columns={"amount": "int", "v": "int"}, rows=10)
    flow = Flow(name="one", source=source, transforms=(drop,), sinks=(Noop(),))

    assert image_columns(flow, planned(flow)) == {1: (("id", "id"), ("v", "v"))}


def test_a_column_that_no_table_has_is_refused_as_in_the_other_lane() -> None:
    drop = DropColumns("nonsense", tables=("shop.orders",))
    flow = Flow(name="one", source=Mock(rows=10), transforms=(drop,), sinks=(Noop(),))

    with pytest.raises(TransformError, match="has no column 'nonsense'"):
        image_columns(flow, planned(flow))


@pytest.mark.parametrize(
    ("expected", "checks"),
    [
        (True, (NotNull("status"), InRange("amount", minimum="0.5"))),
        (True, (NotNull("nowhere"),)),
        (False, (NotNull("status", severity="fail"),)),
        (False, (InRange("amount", minimum="half"),)),
        (False, (AcceptedValues("at", ("1.5",)),)),
    ],
)
def test_checks_that_decoded_columns_can_answer_stay_in_the_lane(expected: bool, checks: tuple[Any, ...]) -> None:
    columns = {"status": "varchar", "amount": "decimal(12,2)", "at": "datetime(0)"}
    flow = Flow(name="one", source=Mock(rows=1, columns=columns), checks=checks, sinks=(Kafka(conn_id="k"),))

    assert is_direct(flow, planned(flow)) is expected
