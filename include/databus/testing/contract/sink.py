"""Sink contract: the promises of every sink, as tests that run on the real server of each.

A test module subclasses `SinkContract` and gives it an adapter; encoded rows are handed to the slot writers as Arrow
batches, without Spark.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from databus.core.batches.receipts import WriteReceipt
from databus.core.errors.sink import MarkerDivergedError, SinkConflictError, SinkFencedError, SinkUnavailableError
from databus.core.findings import Level
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.protocols.sink import Sink
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.tables.schemas import ColumnSchema, TableSchema

ORDERS = TableSchema(
    0, "shop", "orders", (ColumnSchema("id", "bigint", "bigint", False), ColumnSchema("v", "int", "int")), ("id",)
)


@dataclass(frozen=True)
class ContractChange:
    """One row change of shop.orders(id, v); `position` is the end of its transaction."""

    op: str
    id: int
    v: int
    position: int
    ordinal: int = 0

    @property
    def event_id(self) -> str:
        """Event id of the change."""
        return f"srv:mysql-bin.000001:{self.position}:{self.ordinal}:0"


def source_plan(start: int, end: int) -> SourcePlan:
    """Return a range of the log that touches shop.orders."""
    return SourcePlan(offsets(start, end), (ORDERS,), rows=0, bytes=0)


def offsets(start: int, end: int) -> OffsetRange:
    """Return a range of the log by file positions."""
    file = "mysql-bin.000001"
    return OffsetRange(BinlogOffset(file, start, server="srv"), BinlogOffset(file, end, server="srv"))


class SinkAdapter(ABC):
    """Driver of one kind of sink for the contract, on outputs of its own."""

    name: ClassVar[str]
    """Sink name in the plans."""
    marked: ClassVar[bool]
    """Whether slots carry markers: a retry is a duplicate, an older plan refused. Else a retry rewrites the same."""
    repeats: ClassVar[bool] = False
    """Whether a retry is seen by readers, under the same event ids: at least once. `read_back` then passes over event
    ids that it has read, and `delivered` shows them again."""
    flow = "contract"

    @abstractmethod
    def make_sink(self) -> Sink:
        """Open a sink on the running server."""

    @abstractmethod
    def make_unreachable_sink(self) -> Sink:
        """Open a sink on an address where nothing listens."""

    @abstractmethod
    def encode(self, changes: Sequence[ContractChange], plan: Plan) -> list[pa.RecordBatch]:
        """Return the changes in the columns that this sink's `encode` makes, in log order, at least two batches."""

    @abstractmethod
    def read_back(self) -> Mapping[int, int]:
        """Return id → v as a reader of the sink sees it now; deleted rows are absent."""

    def delivered(self) -> list[str] | None:
        """Return the event ids a reader sees, in order, with repeats; None where only the last state can be read."""
        return None

    def plan(self, sink: Sink, batch: int, prev: int, end: int | None = None, clock: int = 0) -> Plan:
        """Prepare the sink and build the plan of a batch; plans with another `clock` have another hash."""
        end = 1000 * (batch + 1) if end is None else end
        pinned = sink.prepare(source_plan(end - 500, end), [(ORDERS, ORDERS.full_name)])
        pinned = SinkPlan(pinned.slots, (prev,) * pinned.slots, pinned.partitions)
        return Plan(
            "contract",
            self.flow,
            batch,
            offsets(end - 500, end),
            {self.name: pinned},
            "spec",
            datetime(2026, 1, 1, 0, 0, clock, tzinfo=UTC),
        )

    def write(self, sink: Sink, plan: Plan, changes: Sequence[ContractChange], slot: int = 0) -> WriteReceipt:
        """Write as a Spark task does: with a writer that was pickled."""
        writer = pickle.loads(pickle.dumps(sink.writer(plan)))
        receipt: WriteReceipt = writer.write(iter(self.encode(changes, plan)), slot)
        return receipt


def inserts(ids: Sequence[int], position: int, v: int = 0) -> list[ContractChange]:
    """Return inserts of one transaction."""
    return [ContractChange("c", i, v, position, n) for n, i in enumerate(ids)]


def assert_delivered(adapter: SinkAdapter, delivered: list[str] | None, again: list[str] | None) -> None:
    """Compare what readers see with what they saw before a retry of some rows."""
    wanted = delivered
    if adapter.repeats:
        assert delivered is not None, "an adapter whose retries repeat rows shows what was delivered"
        wanted = [*delivered, *(again or ())]
    assert adapter.delivered() == wanted


class SinkContract:
    """Suite of sinks; a subclass provides the fixture `adapter`."""

    @pytest.fixture
    def sink(self, adapter: SinkAdapter) -> Any:
        """Open a sink for one test."""
        sink = adapter.make_sink()
        yield sink
        sink.close()

    def test_every_row_arrives_and_is_receipted(self, adapter: SinkAdapter, sink: Sink) -> None:
        """Rows of a batch are readable, and its receipt counts them."""
        receipt = adapter.write(sink, adapter.plan(sink, 1, 0), inserts(range(100), 1500, v=7))
        assert adapter.read_back() == dict.fromkeys(range(100), 7)
        assert receipt.rows == {"shop.orders": 100}
        assert (receipt.batch, receipt.slot, receipt.sink) == (1, 0, adapter.name)
        assert receipt.written == 100
        assert not receipt.duplicate
        assert receipt.rejected == ()

    def test_updates_and_deletes_leave_the_last_state(self, adapter: SinkAdapter, sink: Sink) -> None:
        """Updates and deletes are applied in the order of the log."""
        adapter.write(sink, adapter.plan(sink, 1, 0), inserts(range(10), 1500))
        changes = [
            ContractChange("u", 1, 5, 2100),
            ContractChange("u", 1, 6, 2200),
            ContractChange("d", 2, 0, 2300),
            ContractChange("u", 3, 8, 2400),
        ]
        receipt = adapter.write(sink, adapter.plan(sink, 2, 1), changes)
        state = adapter.read_back()
        assert 2 not in state
        assert (state[1], state[3], state[4]) == (6, 8, 0)
        assert receipt.rows == {"shop.orders": 4}

    def test_a_retry_of_the_same_plan_changes_nothing(self, adapter: SinkAdapter, sink: Sink) -> None:
        """Retry of a batch: readers see the same state."""
        plan, changes = adapter.plan(sink, 1, 0), inserts(range(50), 1500, v=3)
        first = adapter.write(sink, plan, changes)
        delivered = adapter.delivered()
        again = adapter.write(sink, plan, changes)
        assert adapter.read_back() == dict.fromkeys(range(50), 3)
        assert_delivered(adapter, delivered, delivered)
        assert again.rows == first.rows
        if adapter.marked:
            assert again.duplicate
            assert (again.written, again.outputs) == (first.written, first.outputs)

    def test_a_retry_from_another_sink_object_changes_nothing(self, adapter: SinkAdapter, sink: Sink) -> None:
        """Retry of a batch by another process."""
        plan, changes = adapter.plan(sink, 1, 0), inserts(range(50), 1500)
        adapter.write(sink, plan, changes)
        delivered = adapter.delivered()
        other = adapter.make_sink()
        try:
            adapter.write(other, plan, changes)
        finally:
            other.close()
        assert_delivered(adapter, delivered, delivered)
        assert adapter.read_back() == dict.fromkeys(range(50), 0)

    def test_an_older_batch_cannot_overwrite_a_newer_one(self, adapter: SinkAdapter, sink: Sink) -> None:
        """Late writer of an older batch: the newer state stays."""
        old = adapter.plan(sink, 1, 0)
        adapter.write(sink, old, inserts([1, 2], 1500, v=1))
        older = adapter.delivered()
        adapter.write(
            sink, adapter.plan(sink, 2, 1), [ContractChange("u", 1, 2, 2500), ContractChange("d", 2, 0, 2600)]
        )
        delivered = adapter.delivered()
        try:
            adapter.write(sink, old, inserts([1, 2], 1500, v=1))
        except (MarkerDivergedError, SinkFencedError):
            assert adapter.marked
        except SinkConflictError:  # by the versions of what is there
            assert not adapter.marked
        else:
            assert not adapter.marked
        assert adapter.read_back() == {1: 2}
        assert_delivered(adapter, delivered, older)

    def test_an_empty_slot_is_receipted_too(self, adapter: SinkAdapter, sink: Sink) -> None:
        """Batch without rows: a receipt, and the next batch follows."""
        receipt = adapter.write(sink, adapter.plan(sink, 1, 0), [])
        assert (receipt.written, receipt.rows, receipt.batch) == (0, {}, 1)
        adapter.write(sink, adapter.plan(sink, 2, 1), inserts([4], 2500))
        assert adapter.read_back() == {4: 0}

    def test_prepare_is_idempotent(self, adapter: SinkAdapter, sink: Sink) -> None:
        """Plans of the same range pin the same."""
        first = sink.prepare(source_plan(500, 1000), [(ORDERS, ORDERS.full_name)])
        assert sink.prepare(source_plan(500, 1000), [(ORDERS, ORDERS.full_name)]) == first

    def test_preflight_finds_no_error_on_a_good_server(self, adapter: SinkAdapter, sink: Sink) -> None:
        """Preflight has a finding, and no error."""
        findings = sink.preflight()
        assert findings
        assert [f for f in findings if f.level is Level.ERROR] == []

    def test_an_unreachable_server_is_named(self, adapter: SinkAdapter) -> None:
        """Unreachable server: a retryable error by name, with a hint."""
        sink = adapter.make_unreachable_sink()
        try:
            with pytest.raises(SinkUnavailableError) as caught:
                sink.prepare(source_plan(500, 1000), [(ORDERS, ORDERS.full_name)])
            assert caught.value.hint
            assert caught.value.retryable
            findings = [f for f in sink.preflight() if f.level is Level.ERROR]
            assert [f.code for f in findings] == ["sink_unavailable"]
            assert findings[0].hint
        finally:
            sink.close()
