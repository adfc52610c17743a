"""What ledger pages do on every database; run by the tests of SQLite and of PostgreSQL, which give the URL."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from databus.core.batches.counts import TableCounts
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.state.plan import Plan, SinkPlan
from databus.records import tables as t
from databus.records.ledger.pages import LedgerPages
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from databus.runtime.ledger_paging import page_out
from databus.testing.memory_store import MemoryCheckpoints
from tests.contract.record_samples import report

FLOW = "orders_to_kafka"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def place(batch: int) -> BinlogOffset:
    return BinlogOffset("bin.000001", 100 + batch * 100)


def receipts(batch: int) -> list[dict]:
    return [
        {
            "sink": "kafka", "slot": 0, "batch": batch, "written": 8, "rows": {"shop.orders": 8}, "rejected": 0,
            "outputs": {"cdc.orders[0]": {"records": 8, "first_offset": batch * 10}}, "duplicate": False,
        }
    ]  # fmt: skip


COUNTS = {"shop.orders": TableCounts(10, 1, 1, 8)}


class Flow:
    """A flow's history in a checkpoint store, moved by hand."""

    def __init__(self, history: int = 1000, run: str = "run-1") -> None:
        self.store = MemoryCheckpoints(history=history)
        self.run = run
        self.counts = COUNTS
        self.lease = self.store.claim(FLOW, run, wait_s=0)
        self.store.start(FLOW, self.lease, place(0), run)

    def move(self, *batches: int) -> None:
        for batch in batches:
            covered = OffsetRange(place(batch - 1), place(batch))
            plan = Plan("test", FLOW, batch, covered, {"kafka": SinkPlan()}, "spec", NOON)
            self.store.write_plan(self.lease, plan)
            checkpoint = Checkpoint(
                place(batch), batch, Epoch(1), self.run, plan.hash, self.counts, NOON, NOON + timedelta(minutes=batch),
                {"kafka": (batch,)}, 100,
            )  # fmt: skip
            self.store.commit(self.lease, plan, checkpoint, receipts(batch), self.counts)

    @property
    def entries(self) -> Sequence[HistoryEntry]:
        return self.store.history(FLOW, 10_000)[::-1]


class LedgerPagesContract:
    """Tests inherited by the tests of each database."""

    @pytest.fixture
    def recorder(self, url):
        with SqlRecorder.open(url) as recorder:
            yield recorder

    def test_pages_hold_the_history_as_it_is(self, recorder):
        flow, pages = Flow(), LedgerPages(recorder.store)
        assert pages.paged(FLOW) == 0
        flow.move(1, 2, 3)
        assert recorder.page(FLOW, flow.entries) == 4
        assert recorder.page(FLOW, flow.entries) == 4
        assert [page.entry for page in pages.pages(FLOW)] == list(flow.entries)
        assert (pages.paged(FLOW), pages.paged("other")) == (4, 0)

    def test_paging_out_goes_on_where_it_stopped_and_lets_history_go(self, recorder):
        flow = Flow(history=2)
        flow.move(1, 2, 3)
        before = list(flow.entries)
        assert [e.number for e in before] == [1, 2, 3, 4]
        assert page_out(flow.store, recorder, FLOW) == 4
        assert [e.number for e in flow.entries] == [3, 4]
        flow.move(4)
        assert page_out(flow.store, recorder, FLOW) == 5
        pages = [page.entry for page in LedgerPages(recorder.store).pages(FLOW)]
        assert pages == [*before, flow.entries[-1]]

    def test_reports_that_a_kill_left_missing_are_filled_in(self, recorder):
        flow = Flow(run="killed")
        flow.move(1, 2)
        page_out(flow.store, recorder, FLOW)
        first, second = Reports(recorder.store).batches(FLOW, "killed")
        assert (first.batch, first.refilled, first.tables, first.bytes) == (1, True, COUNTS, 100)
        assert (second.start, second.end, second.watermark) == (place(1), place(2), NOON)
        assert second.committed_at == NOON + timedelta(minutes=2)
        assert [{**r, "batch": 2} for r in second.receipts] == receipts(2)
        assert second.plan_hash == flow.store.load(FLOW).plan_hash

    def test_rows_of_a_snapshot_stand_in_pages_and_in_reports_filled_in(self, recorder):
        flow = Flow(run="killed")
        flow.counts = {"shop.orders": TableCounts(14, 1, 1, 8, 4, 9)}
        flow.move(1)
        page_out(flow.store, recorder, FLOW)
        assert LedgerPages(recorder.store).pages(FLOW)[-1].entry == flow.entries[-1]
        (filled,) = Reports(recorder.store).batches(FLOW, "killed")
        assert (filled.refilled, filled.tables) == (True, flow.counts)

    def test_reports_that_are_there_are_left_alone(self, recorder):
        sent = report(1)
        recorder.record(sent)
        committed = HistoryEntry(
            2, "commit", sent.run_id, "", sent.plan.range.start, sent.plan.range.end, 1, sent.epoch, sent.tables,
            tuple(r.to_json() for r in sent.receipts), NOON, sent.plan.hash,
        )  # fmt: skip
        recorder.page(FLOW, [committed])
        (kept,) = Reports(recorder.store).batches(FLOW, sent.run_id)
        assert (kept.refilled, kept.durations_ms, kept.checks) == (False, sent.durations_ms, sent.checks)

    def test_many_that_are_filled_in_together_have_each_its_own_run_counts_and_receipts(self, recorder):
        flow = Flow()
        flow.move(*range(1, 602))
        entries = [
            replace(e, who=f"run-{e.batch % 3}", counts={"shop.orders": TableCounts(e.batch + 2, 1, 1, e.batch)})
            for e in flow.entries
        ]
        recorder.page(FLOW, entries)
        for run in range(3):
            found = Reports(recorder.store).batches(FLOW, f"run-{run}")
            assert [report.batch for report in found] == list(range(run or 3, 602, 3))
            for filled in found:
                assert filled.refilled
                assert filled.tables["shop.orders"].dispatched == filled.batch
                assert filled.receipts[0]["outputs"]["cdc.orders[0]"]["first_offset"] == filled.batch * 10

    def test_a_report_that_comes_late_replaces_the_one_filled_in(self, recorder):
        sent = report(1)
        committed = HistoryEntry(
            2, "commit", sent.run_id, "", sent.plan.range.start, sent.plan.range.end, 1, sent.epoch, sent.tables,
            tuple(r.to_json() for r in sent.receipts), NOON, sent.plan.hash,
        )  # fmt: skip
        recorder.page(FLOW, [committed])
        recorder.record(sent)
        recorder.record(sent)
        (kept,) = Reports(recorder.store).batches(FLOW, sent.run_id)
        assert (kept.refilled, kept.durations_ms, kept.checks) == (False, sent.durations_ms, sent.checks)
        assert (kept.tables, len(kept.receipts), kept.run_url) == (sent.tables, 1, sent.run_url)

    def test_an_entry_that_differs_from_its_page_keeps_the_page_and_stops_trimming(self, recorder):
        flow = Flow()
        flow.move(1, 2)
        recorder.page(FLOW, flow.entries)
        pages = LedgerPages(recorder.store).pages(FLOW)
        flow.move(3)
        changed = [replace(e, who="mallory") if e.number == 2 else e for e in flow.entries]
        assert recorder.page(FLOW, changed) == 1
        assert recorder.page(FLOW, changed[1:]) == 0
        assert LedgerPages(recorder.store).pages(FLOW) == pages
        assert recorder.page(FLOW, flow.entries) == 4

    def test_a_flow_made_anew_begins_a_generation(self, recorder):
        old = Flow(run="old")
        old.move(*range(1, 6))
        page_out(old.store, recorder, FLOW)
        for batches in ((1, 2), tuple(range(1, 9))):
            new = Flow(run=f"new-{len(batches)}")
            new.move(*batches)
            assert page_out(new.store, recorder, FLOW) == len(batches) + 1
            pages = LedgerPages(recorder.store).pages(FLOW)
            assert [page.entry for page in pages] == list(new.entries)
        assert {page.generation for page in pages} == {3}

    def test_history_that_was_trimmed_beyond_the_pages_leaves_a_hole(self, recorder):
        flow = Flow()
        flow.move(*range(1, 8))
        recorder.page(FLOW, flow.entries[:3])
        assert recorder.page(FLOW, flow.entries[5:]) == 8
        assert [page.number for page in LedgerPages(recorder.store).pages(FLOW)] == [1, 2, 3, 6, 7, 8]

    def test_writers_at_once_write_each_page_once(self, recorder):
        flow = Flow()
        flow.move(*range(1, 30))
        entries, results = flow.entries, []

        def write() -> None:
            results.append(recorder.page(FLOW, entries))

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [30] * 4
        assert [page.number for page in LedgerPages(recorder.store).pages(FLOW)] == list(range(1, 31))
        assert len(Reports(recorder.store).batches(FLOW, "run-1")) == 29

    def test_a_page_that_cannot_be_read_is_told(self, recorder):
        flow = Flow()
        flow.move(1)
        recorder.page(FLOW, flow.entries)
        with recorder.store.transaction() as connection:
            connection.execute(t.ledger.update().where(t.ledger.c.number == 2).values(entry={"v": 9}))
        page = LedgerPages(recorder.store).pages(FLOW)[1]
        assert page.entry is None
        assert "format version 9" in page.problem
        with recorder.store.transaction() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(t.ledger)).scalar_one() == 2
