"""The order of a batch's last steps, and that nothing is committed which does not add up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from databus import Flow, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.errors import ReconciliationError
from databus.core.settings import Settings
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.times import SystemClock
from databus.runtime.batch import run_batch
from databus.runtime.context import FlowSession, RunIdentity, Services, open_session
from databus.sinks.noop import Noop
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.runtime.test_direct import InProcess


@dataclass(frozen=True)
class Writer:
    """Refuses the first row, and confirms all others but `silent`."""

    silent: int = 0

    def write(self, rows: Any, slot: int) -> WriteReceipt:
        found = [row for batch in rows for row in batch.to_pylist()]
        first = found[0]
        refused = RejectedRow(first["event_id"], "shop.orders", None, "refused", "noop", "1:1", "{}")
        counted = len(found) - 1 - self.silent
        return WriteReceipt("noop", slot, 1, counted, {"shop.orders": counted}, (refused,))


class Encoder:
    """Takes every row as it is."""

    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:
        return rows


class Sink:
    """A sink of one slot."""

    def __init__(self, writer: Writer):
        self._writer = writer

    def accepts(self) -> frozenset[str]:
        return frozenset("cud")

    def prepare(self, plan: SourcePlan, outputs: Any) -> SinkPlan:
        return SinkPlan(1, (0,))

    def encoder(self, plan: Plan) -> Encoder:
        return Encoder()

    def writer(self, plan: Plan) -> Writer:
        return self._writer

    def close(self) -> None:
        pass


class Told:
    """A recorder and a store that tell in which order they were called."""

    def __init__(self, wrapped: Any, calls: list[str]):
        self._wrapped, self._calls = wrapped, calls

    def __getattr__(self, name: str) -> Any:
        if name in ("commit", "write_plan", "quarantine", "record"):
            self._calls.append(name)
        return getattr(self._wrapped, name)


class Records:
    """A recorder."""

    def quarantine(self, *_: Any, **__: Any) -> None:
        pass

    record = quarantine


@pytest.fixture
def calls() -> list[str]:
    return []


def session(monkeypatch: pytest.MonkeyPatch, writer: Writer, calls: list[str]) -> FlowSession:
    flow = Flow(name="order", source=Mock(rows=60, rows_per_transaction=1), sinks=(Noop(),))
    monkeypatch.setattr(Noop, "open", lambda self, connections, context: Sink(writer))
    store: Any = Told(MemoryCheckpoints(), calls)
    recorder: Any = Told(Records(), calls)
    services = Services(Settings("t", "", ""), EnvironmentConnections({}), store, None, recorder, SystemClock())
    return open_session(flow, replace(services), InProcess(), RunIdentity("run", "", __version__))


def test_rows_held_back_are_stored_before_the_commit_that_counts_them(
    monkeypatch: pytest.MonkeyPatch, calls: list[str]
) -> None:
    with session(monkeypatch, Writer(), calls) as opened:
        lease = opened.store.claim("order", "run", 0)
        checkpoint = opened.store.start("order", lease, opened.source.start_offset(), "run")
        report = run_batch(opened, lease, checkpoint)
    assert report is not None
    assert calls == ["write_plan", "quarantine", "commit", "record"]
    assert [(c.read, c.quarantined, c.dispatched) for c in report.tables.values()] == [(60, 1, 59)]


def test_a_row_that_no_receipt_accounts_for_stops_the_batch(monkeypatch: pytest.MonkeyPatch, calls: list[str]) -> None:
    with session(monkeypatch, Writer(silent=1), calls) as opened:
        lease = opened.store.claim("order", "run", 0)
        checkpoint = opened.store.start("order", lease, opened.source.start_offset(), "run")
        with pytest.raises(ReconciliationError, match="accounts for 59"):
            run_batch(opened, lease, checkpoint)
        assert opened.store.load("order") == checkpoint
    assert calls == ["write_plan"]
