"""Rows that repairs read: all of each table, also where the flow's options leave some out of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from databus.checkpoints.rules.mending import begun_repair
from databus.core.errors import CheckpointConflictError
from databus.core.positions.gaps import SKIPPED, Gap
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.ops import snapshots
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.repair import repair_of
from databus.ops.validation import repair as validation_repair
from databus.ops.validation.repair import Repair
from databus.sources.mysql.snapshot_options import SnapshotOptions
from tests.unit.runtime.test_chunks_of_given_up_plans import SnapshotOfMock

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
TABLES = ("shop.orders", "shop.items")
OPTIONS = SnapshotOptions(where={"shop.orders": "id > 1000"})
GAP = Gap(1, SequenceOffset(10), SequenceOffset(30), "purged", SKIPPED, "ada", "gone", NOON)


class Conditioned(SnapshotOfMock):
    """A source whose options leave rows out of a snapshot."""

    def __init__(self) -> None:
        pass

    def snapshot_tables(self, conditions: Mapping[str, str] | None = None) -> Any:
        where = OPTIONS.conditions(conditions or {})
        return [TableProgress(name, where=where.get(name, "")) for name in TABLES]

    def snapshot_findings(self) -> Any:
        return []

    def close(self) -> None:
        pass


class Store:
    """A store of one flow whose snapshots end as soon as they have begun."""

    def __init__(self, *, cancelled: bool = False) -> None:
        self.begun: list[Snapshot] = []
        self.cancelled = cancelled

    def snapshot(self, _flow: str) -> Snapshot | None:
        if not self.begun:
            return None
        last = self.begun[-1]
        return Snapshot(last.number, last.cause, NOON, last.tables, finished_at=NOON, cancelled=self.cancelled)

    def begin_snapshot(self, _flow: str, _lease: Any, snapshot: Snapshot, *_: str) -> Snapshot:
        self.begun.append(snapshot)
        return snapshot

    def load(self, _flow: str) -> Any:
        return SimpleNamespace(offset=SequenceOffset(40))

    def gaps(self, _flow: str) -> list[Gap]:
        return [GAP]


def services(store: Store) -> Any:
    clock = SimpleNamespace(now=lambda: NOON)
    return SimpleNamespace(store=store, clock=clock, settings=None, server_ids=None, connections=None)


def flow() -> Any:
    return SimpleNamespace(name="f", source=SimpleNamespace(kind="conditioned", open=lambda *_: Conditioned()))


def test_a_repair_of_a_gap_reads_rows_that_the_options_leave_out() -> None:
    made = repair_of(flow(), services(Store()), Conditioned())
    assert [table.where for table in made.tables] == ["", ""]
    assert begun_repair("f", None, made, 1).mends == (1,)


def test_a_snapshot_that_mends_a_gap_reads_rows_that_the_options_leave_out() -> None:
    made = snapshots.proposed(flow(), services(Store()), mends=(1,))
    assert (made.mends, [table.where for table in made.tables]) == ((1,), ["", ""])
    on_demand = snapshots.proposed(flow(), services(Store()))
    assert [table.where for table in on_demand.tables] == ["id > 1000", ""]


def wanted(*pieces: Mapping[str, str]) -> Repair:
    return Repair("f", pieces, 2, ("shop.orders",))


def test_a_table_that_a_repair_reads_whole_is_read_whole() -> None:
    store = Store()
    pieces = wanted({"shop.orders": ""}, {"shop.items": "`id` IN (7)"})
    validation_repair.repair(flow(), services(store), pieces, Attribution("ada", "missing"), 1.0)
    told = [[(table.table, table.where) for table in snapshot.tables] for snapshot in store.begun]
    assert told == [[("shop.orders", "")], [("shop.items", "`id` IN (7)")]]


def test_a_repair_ends_where_a_person_cancels_one_of_its_snapshots() -> None:
    store = Store(cancelled=True)
    pieces = wanted({"shop.items": "`id` IN (7)"}, {"shop.items": "`id` IN (8)"})
    with pytest.raises(CheckpointConflictError, match="snapshot 1, 1 of 2 of the repair, was cancelled"):
        validation_repair.repair(flow(), services(store), pieces, Attribution("ada", "missing"), 1.0)
    assert len(store.begun) == 1
