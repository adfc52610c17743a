"""Holder of a flow that goes on without ZooKeeper: its store behind a line that can be cut, its register and slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from databus.checkpoints.spool import PlanSpool
from databus.core.errors import (
    CheckpointUnavailableError,
    SinkUnavailableError,
    StaleEpochError,
)
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.checkpoint_store import (
    CheckpointStore,
)
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.sink_markers import Announcement, SlotMark
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.runtime.drain import Drain
from databus.runtime.zookeeper_loss.detached_store import DetachableStore, Terms
from databus.runtime.zookeeper_loss.retrying_store import Retry
from databus.testing.memory_store import MemoryCheckpoints, MemoryServer

FLOW = "shop"
NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
SNAPSHOT = Snapshot(1, "initial", NOON, (TableProgress("shop.orders"),))


def chunk(before: Snapshot) -> Snapshot:
    table = before.tables[0]
    return replace(before, tables=(replace(table, state="reading", chunks=table.chunks + 1),))


class Line:
    """The way to a store: while it is cut, each call fails before it is applied."""

    def __init__(self, store: Any, line: Line | None = None):
        self._store, self._line = store, line or self
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        found, line = getattr(self._store, name), self._line

        def call(*args: Any) -> Any:
            if line.cut:
                raise CheckpointUnavailableError("no answer")
            return found(*args)

        return call

    def of_sink(self, sink: str) -> Line:
        return Line(self._store.of_sink(sink), self._line)

    def connected(self) -> bool:
        return not self._line.cut


class Register:
    """A register in this process, compared and set as Kafka's."""

    def __init__(self) -> None:
        self.said: Announcement | None = None

    def take(self, epoch: Epoch, *, force: bool = False) -> Announcement | None:
        before = self.said
        if before is not None and before.epoch > epoch and not force:
            raise StaleEpochError(f"epoch {before.epoch} is there")
        self.said = Announcement(epoch, before.batch if before else 0, before.plan_hash if before else "")
        return before

    def announce(self, said: Announcement) -> None:
        if self.said is not None and self.said.epoch != said.epoch:
            raise StaleEpochError(f"epoch {self.said.epoch} is there")
        self.said = said

    def close(self) -> None:
        pass


class Slots:
    """A sink of two slots that shows its markers."""

    marked = True

    def __init__(self, *marks: tuple[int, str]):
        self.held = list(marks)
        self.away = False

    def marks(self, slots: int, *, settled: bool = True) -> Sequence[SlotMark | None]:
        if self.away:
            raise SinkUnavailableError("nobody answers")
        return [SlotMark(*mark) for mark in self.held][:slots] + [None] * (slots - len(self.held))

    def register(self) -> Register:
        return Register()


def plan_of(batch: int, *sinks: str, prev: int | None = None, spec: str = "spec") -> Plan:
    covered = OffsetRange(SequenceOffset(batch - 1), SequenceOffset(batch))
    before = batch - 1 if prev is None else prev
    return Plan(
        "test", FLOW, batch, covered, {name: SinkPlan(1, (before,)) for name in sinks or ("a", "b")}, spec, NOON
    )


def done(plan: Plan, epoch: Epoch) -> Checkpoint:
    slots = dict.fromkeys(plan.sinks, (plan.batch,))
    return Checkpoint(plan.range.end, plan.batch, epoch, "run", plan.hash, {}, NOON, NOON, slots)


def move(store: CheckpointStore, lease: Any, plan: Plan) -> Plan:
    store.write_plan(lease, plan)
    store.commit(lease, plan, done(plan, lease.epoch), [], {})
    return plan


class Holder:
    """A holder that goes on, after batch 1; `line.cut` cuts it off."""

    def __init__(self, folder: Path):
        self.server, self.register = MemoryServer(), Register()
        self.real = MemoryCheckpoints(self.server)
        self.line: Any = Line(self.real)
        self.spool = PlanSpool(str(folder), "test", FLOW)
        retry = Retry(0.0, Drain())
        self.store = DetachableStore(FLOW, self.line, retry, Terms(60, 100), self.spool, self.register)
        self.lease = self.store.claim(FLOW, "run", 0)
        self.register.take(self.lease.epoch)
        self.store.start(FLOW, self.lease, SequenceOffset(0), "run")
        assert self.store.pending_plan(FLOW) is None
        assert self.store.sinks_behind(FLOW) == ()
        move(self.store, self.lease, plan_of(1))
