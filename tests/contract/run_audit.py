"""What the audit of a run compares, on every checkpoint store: all its batches, also those ZooKeeper has let go of."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Flow, Mock, Noop
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import ReconciliationError
from databus.core.positions.gaps import OPEN, SKIPPED, Gap
from databus.core.positions.offsets import OffsetRange
from databus.core.settings import Settings
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.checkpoint_store import CheckpointStore, Lease
from databus.core.state.plan import Plan, SinkPlan
from databus.core.times import SystemClock
from databus.ops.runs.audit import audit_run
from databus.ops.runs.history import AuditedRun, HistoryComparison, compare
from databus.ops.runs.view import run_view
from databus.records import tables as t
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from databus.runtime.context import Services
from databus.runtime.ledger_paging import PAGE_EVERY, page_out
from tests.contract.ledger_pages import COUNTS, NOON, place, receipts

NAME = "orders_to_kafka"
FLOW = Flow(name=NAME, source=Mock(tables=("shop.orders",), rows=1), sinks=(Noop(name="kafka"), Noop(name="search")))
BEFORE, AFTER = 20, 30
"""Batches of the run before the one that is audited, and of its successor, which commits already."""

FIRST = BEFORE + 1


def at(batch: int) -> Any:
    return NOON + timedelta(seconds=10 * batch)


class Windows:
    """Runs of a flow one after the other, each with its lease, as their windows leave history and reports behind."""

    def __init__(self, store: CheckpointStore, recorder: SqlRecorder) -> None:
        self.store, self.recorder = store, recorder
        self._batch = 0
        self._lease: Lease | None = None

    def run(self, run_id: str, batches: int) -> Lease:
        if self._lease is not None:
            self._lease.release()
        self._lease = lease = self.store.claim(NAME, run_id, wait_s=0)
        if not self._batch:
            self.store.start(NAME, lease, place(0), run_id)
        for moved in range(1, batches + 1):
            self._batch += 1
            plan = plan_of(self._batch, "kafka")
            self.store.write_plan(lease, plan)
            commit(self.store, lease, plan, run_id)
            if moved % PAGE_EVERY == 0 or moved == batches:
                assert page_out(self.store, self.recorder, NAME) == self._batch + 1  # writes the missing reports, too
        return lease


def plan_of(batch: int, *sinks: str, prev: int | None = None) -> Plan:
    pinned = {sink: SinkPlan(1, (batch - 1 if prev is None else prev,)) for sink in sinks}
    return Plan("test", NAME, batch, OffsetRange(place(batch - 1), place(batch)), pinned, "spec", NOON)


def commit(store: Any, lease: Lease, plan: Plan, run_id: str) -> None:
    slots = {**(store.load(NAME).slots), **dict.fromkeys(plan.sinks, (plan.batch,))}
    done = Checkpoint(
        plan.range.end, plan.batch, Epoch(lease.epoch), run_id, plan.hash, COUNTS, NOON, at(plan.batch), slots, 100
    )
    store.commit(lease, plan, done, receipts(plan.batch), COUNTS)


class RunAuditContract:
    """Tests inherited by the tests of each store, which give `store`, open and with little history kept."""

    KEPT = 50
    BATCHES = 1_100
    """Of the run that is audited: they are read in three pieces."""

    @pytest.fixture
    def services(self, store: Any, tmp_path: Path) -> Any:
        settings = Settings("test", str(tmp_path), f"sqlite:///{tmp_path / 'records.db'}")
        with SqlRecorder.open(settings.records_url) as recorder:
            yield Services(settings, EnvironmentConnections({}), store, None, recorder, SystemClock())

    @pytest.fixture
    def windows(self, services: Any) -> Windows:
        windows = Windows(services.store, services.recorder)
        for run_id, batches in (("before", BEFORE), ("run", self.BATCHES), ("after", AFTER)):
            windows.run(run_id, batches)
        return windows

    def compared(self, services: Any, run_id: str = "run", first: int = FIRST) -> HistoryComparison:
        records = services.recorder.store
        run = AuditedRun(run_id, at(first) - timedelta(seconds=3), Reports(records).batches(NAME, run_id))
        return compare(FLOW, services, records, run)

    def test_every_batch_of_a_long_run_is_compared_and_the_oldest_may_not_differ(
        self, services: Any, windows: Windows
    ) -> None:
        assert len(windows.store.history(NAME, 10_000)) < 2 * self.KEPT + PAGE_EVERY
        sound = audit_run(FLOW, services, "run", at(FIRST))
        assert (sound.problems, sound.compared.batches) == ((), self.BATCHES)
        assert self.BATCHES + AFTER < sound.compared.entries <= self.BATCHES + AFTER + 10
        assert any(f"{self.BATCHES} of {self.BATCHES} batches compared" in line for line in sound.lines())

        with services.recorder.store.transaction() as connection:
            oldest = t.batches.select().where(t.batches.c.batch == FIRST)
            mine = t.table_counts.c.batch == connection.execute(oldest).one().id
            connection.execute(t.table_counts.update().where(mine).values(read=9, dispatched=7))
        harmed = audit_run(FLOW, services, "run", at(FIRST))
        (problem,) = harmed.problems
        assert f"batch {FIRST}, shop.orders" in problem
        with pytest.raises(ReconciliationError, match=f"batch {FIRST}"):
            harmed.require_passed()

    def test_the_oldest_batch_may_not_lack_its_report_nor_its_entry(self, services: Any, windows: Windows) -> None:
        with services.recorder.store.transaction() as connection:
            connection.execute(t.batches.delete().where(t.batches.c.batch == FIRST))
        assert self.compared(services).problems == (f"batch {FIRST} is committed and has no report",)
        assert self.compared(services, "before", 1).problems == ()

        with services.recorder.store.transaction() as connection:
            connection.execute(t.ledger.delete().where(t.ledger.c.batch == FIRST + 1))
        found = self.compared(services)
        assert f"batch {FIRST + 1} has a report and is not in the history" in found.problems
        assert found.batches == self.BATCHES - 2

    def test_what_a_run_moves_again_after_a_rewind_is_compared_as_well(self, services: Any) -> None:
        windows = Windows(services.store, services.recorder)
        windows.run("again", 3)
        with services.recorder.store.transaction() as connection:
            connection.execute(t.batches.update().where(t.batches.c.batch < 3).values(mode="replay"))
        found = self.compared(services, "again", 1)
        assert (found.problems, found.batches) == ((), 3)

    def test_a_run_that_was_killed_over_a_gap_is_not_told_as_well(self, services: Any) -> None:
        """No entry tells what a batch passed over; the gap is named before it is passed, and the audit looks there."""
        windows = Windows(services.store, services.recorder)
        lease = windows.run("killed", 3)
        gone = Gap(0, place(1), place(2), "purged", SKIPPED, "killed", "on_gap=earliest: t[0]", NOON)
        services.store.note_gap(NAME, lease, gone)
        services.store.note_gap(NAME, lease, replace(gone, start=place(2), end=place(3), decision=OPEN))
        services.store.note_gap(NAME, lease, replace(gone, cause="skip", why="by a person, and set back since"))
        assert all(report.refilled for report in Reports(services.recorder.store).batches(NAME, "killed"))
        for _ in range(2):
            found = audit_run(FLOW, services, "killed", at(1))
            assert (found.summary.state, found.to_json()["gaps_passed"]) == ("lost", ["on_gap=earliest: t[0]"])
            assert "a gap was passed over: on_gap=earliest: t[0]: NOT WELL" in found.lines()
            viewed = run_view(NAME, "killed", services.settings)
            assert viewed is not None
            assert (viewed["state"], viewed["gaps_passed"]) == ("lost", ["on_gap=earliest: t[0]"])
        windows.run("next", 1)
        assert audit_run(FLOW, services, "next", at(4)).summary.state == "quarantined"

    def test_a_run_that_moved_nothing_reads_no_more_than_it_lasted(self, services: Any, windows: Windows) -> None:
        found = self.compared(services, "idle", BEFORE + self.BATCHES + AFTER - 5)
        assert (found.problems, found.batches) == ((), 0)
        assert found.entries <= 20

    def test_a_run_of_which_every_report_is_lost_is_found_by_its_time(self, services: Any, windows: Windows) -> None:
        last = BEFORE + self.BATCHES
        with services.recorder.store.transaction() as connection:
            connection.execute(t.batches.delete().where(t.batches.c.batch.between(FIRST, last)))
        found = self.compared(services)
        assert found.problems[0] == f"batch {last} is committed and has no report"
        assert found.problems[-1] == f"and {self.BATCHES - 20} more"

    def test_what_a_sink_moved_alone_counts_and_what_both_sides_moved_counts_once(self, services: Any) -> None:
        windows = Windows(services.store, services.recorder)
        lease, store = windows.run("first", 3), services.store
        shared = plan_of(4, "kafka", "search", prev=3)
        store.write_plan(lease, shared)
        store.detach(NAME, lease, "search", "away")
        own = store.of_sink("search")
        commit(store, lease, shared, "first")
        page_out(store, services.recorder, NAME)
        lease.release()
        lease = store.claim(NAME, "second", wait_s=0)
        commit(own, lease, shared, "second")
        alone = replace(plan_of(5, "search", prev=4), batch=9)
        own.write_plan(lease, alone)
        commit(own, lease, alone, "second")

        assert self.compared(services, "first", 1).problems == ()
        assert self.compared(services, "second", 1).problems == ("batch 9 is committed and has no report",)
