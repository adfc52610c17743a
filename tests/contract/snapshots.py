"""What every checkpoint store must do with snapshots; part of the store's contract."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from databus.core.errors import CheckpointConflictError, SnapshotUnfinishedError, StaleEpochError
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan
from databus.core.state.plan_outcome import PlanOutcome
from databus.core.state.snapshot import ChunkFile, PlannedChunks, Snapshot, TableProgress
from tests.contract.amendments import commit, move, planned, replace_lease, rewind, skip

FLOW = "orders"
NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)

FIRST = Snapshot(
    1, "initial", NOON, (TableProgress("shop.orders", estimate=100), TableProgress("shop.items", where="id > 7"))
)


def again(number: int) -> Snapshot:
    return replace(FIRST, number=number, cause="request")


def chunk_further(snapshot: Snapshot, rows: int = 10) -> PlannedChunks:
    """Return the next chunk of the snapshot's current table; the last one of each table is its third."""
    table = snapshot.current
    assert table is not None
    chunks = table.chunks + 1
    file = ChunkFile(f"chunk-{snapshot.number}-{table.table}-{chunks}", "0" * 64, table.table, rows, 1)
    done = replace(
        table, state="done" if chunks == 3 else "reading", after=(f"{chunks}00",), chunks=chunks,
        rows=table.rows + rows, superseded=table.superseded + 1,
    )  # fmt: skip
    after = replace(snapshot, tables=tuple(done if t.table == table.table else t for t in snapshot.tables))
    return PlannedChunks(after if after.current else replace(after, finished_at=NOON), (file,))


def plan_with(store: Any, chunks: PlannedChunks | None, end: int | None = None, at: Any = None) -> Plan:
    """Plan the batch from where the flow stands, or `at` a checkpoint, with chunks."""
    at = at or store.load(FLOW)
    start = at.offset.sequence
    return replace(planned(store, at.batch + 1, start, end or start + 10), chunks=chunks)


def bring(store: Any, lease: Lease, rows: int = 10) -> Snapshot:
    """Run a batch with the next chunk; return the snapshot as its plan foresaw it."""
    chunks = chunk_further(store.snapshot(FLOW), rows)
    plan = plan_with(store, chunks)
    store.write_plan(lease, plan)
    commit(store, lease, plan)
    return chunks.snapshot


def outcome_of(plan: Plan, epoch: int) -> PlanOutcome:
    slots = dict.fromkeys(plan.sinks, (plan.batch, plan.batch))
    after = Checkpoint(plan.range.end, plan.batch, Epoch(epoch), "run", plan.hash, {}, NOON, NOON, slots)
    return PlanOutcome(plan, after, (), {})


def everything(store: Any) -> Any:
    return (
        store.load(FLOW), store.pending_plan(FLOW), tuple(store.history(FLOW, 100)), store.snapshot(FLOW),
    )  # fmt: skip


class SnapshotContract:
    """Inherited by `CheckpointStoreContract`, which brings `store`, `lease` and `open_store`."""

    # --- begin ---

    def test_a_snapshot_is_begun_once_by_a_run_and_says_who_and_why(
        self, lease: Any, store: Any, open_store: Any
    ) -> None:
        assert store.snapshot(FLOW) is None
        before = store.load(FLOW)
        assert store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run") == FIRST
        assert open_store().snapshot(FLOW) == FIRST
        assert store.load(FLOW) == before
        entry = store.history(FLOW, 1)[0]
        assert (entry.action, entry.who, entry.why) == ("snapshot", "run-1", "first run")
        assert (entry.previous, entry.offset) == (before.offset, before.offset)
        stands = everything(store)
        assert store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run") == FIRST
        assert everything(store) == stands
        further = bring(store, lease)
        assert store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run") == further

    def test_a_person_begins_one_while_a_run_holds_the_lease(self, lease: Any, store: Any, open_store: Any) -> None:
        move(store, lease, 10)
        open_store().begin_snapshot(FLOW, None, FIRST, "ada", "a new index")
        assert store.snapshot(FLOW) == FIRST
        assert move(store, lease, 20).batch == 2
        assert [(e.action, e.who) for e in store.history(FLOW, 2)] == [("commit", "run"), ("snapshot", "ada")]

    def test_another_one_is_refused_until_the_first_has_ended(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        before = everything(store)
        same_number = replace(FIRST, tables=FIRST.tables[:1])
        for other in (again(2), again(1), same_number):
            with pytest.raises(SnapshotUnfinishedError, match=r"snapshot 1 .*unfinished") as caught:
                store.begin_snapshot(FLOW, None, other, "ada", "because")
            assert caught.value.code == "checkpoint_snapshot_unfinished"
        assert everything(store) == before
        for _ in range(6):
            bring(store, lease)
        assert store.snapshot(FLOW).finished_at == NOON
        ended = everything(store)
        with pytest.raises(CheckpointConflictError, match="never used twice"):
            store.begin_snapshot(FLOW, None, again(1), "ada", "because")
        with pytest.raises(CheckpointConflictError, match="no table to read"):
            store.begin_snapshot(FLOW, None, replace(again(2), tables=()), "ada", "because")
        with pytest.raises(CheckpointConflictError, match="at its beginning"):
            store.begin_snapshot(FLOW, None, replace(again(2), finished_at=NOON), "ada", "because")
        assert everything(store) == ended
        assert store.begin_snapshot(FLOW, None, again(2), "ada", "because") == again(2)

    def test_a_stale_holder_begins_none(self, lease: Any, store: Any, open_store: Any) -> None:
        lease.release()
        open_store().claim(FLOW, "run-2", wait_s=0)
        with pytest.raises(StaleEpochError):
            store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        assert store.snapshot(FLOW) is None

    def test_a_flow_that_never_ran_has_no_snapshot_to_begin_or_change(self, store: Any) -> None:
        lease = store.claim(FLOW, "ada", wait_s=0)
        assert store.snapshot(FLOW) is None
        for write in (
            lambda: store.begin_snapshot(FLOW, lease, FIRST, "ada", "because"),
            lambda: store.pause_snapshot(FLOW, "ada", "because"),
            lambda: store.cancel_snapshot(FLOW, "ada", "because"),
        ):
            with pytest.raises(CheckpointConflictError, match="no checkpoint"):
                write()

    # --- chunks ---

    def test_a_commit_moves_it_with_the_checkpoint_and_again_changes_nothing(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        chunks = chunk_further(FIRST)
        plan = plan_with(store, chunks)
        store.write_plan(lease, plan)
        assert store.pending_plan(FLOW) == plan
        assert store.pending_plan(FLOW).hash == plan.hash
        assert store.snapshot(FLOW) == FIRST
        commit(store, lease, plan)
        assert (store.load(FLOW).batch, store.snapshot(FLOW)) == (1, chunks.snapshot)
        assert (store.snapshot(FLOW).tables[0].rows, store.snapshot(FLOW).tables[0].after) == (10, ("100",))
        stands = everything(store)
        commit(store, lease, plan)
        assert everything(store) == stands
        move(store, lease, 20)
        assert store.snapshot(FLOW) == chunks.snapshot

    def test_a_refused_commit_moves_it_not(self, lease: Any, store: Any, open_store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        plan = plan_with(store, chunk_further(FIRST))
        store.write_plan(lease, plan)
        lease.release()
        successor = open_store().claim(FLOW, "run-2", wait_s=0)
        before = everything(store)
        with pytest.raises(StaleEpochError):
            commit(store, lease, plan)
        assert everything(store) == before
        commit(store, successor, plan)
        assert store.snapshot(FLOW).tables[0].chunks == 1

    def test_chunks_to_the_end_finish_it(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        for _ in range(5):
            assert bring(store, lease).unfinished
        last = bring(store, lease)
        assert store.snapshot(FLOW) == last
        assert (last.unfinished, last.current, last.cancelled) == (False, None, False)
        for change in (store.pause_snapshot, store.resume_snapshot, store.cancel_snapshot):
            with pytest.raises(CheckpointConflictError, match="snapshot 1 has ended"):
                change(FLOW, "ada", "because")

    # --- pause, resume, cancel ---

    def test_a_person_holds_it_and_lets_it_go_on(self, lease: Any, store: Any, open_store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        other = open_store()
        held = replace(FIRST, paused=True)
        assert other.pause_snapshot(FLOW, "ada", "a sale") == held
        assert store.snapshot(FLOW) == held
        stands = everything(store)
        assert other.pause_snapshot(FLOW, "bob", "me too") == held
        assert everything(store) == stands
        on = store.resume_snapshot(FLOW, "bob", "it is over")
        assert (on, on.resumed_at is not None) == (replace(FIRST, resumed_at=on.resumed_at), True)
        stands = everything(store)
        assert store.resume_snapshot(FLOW, "bob", "it is over") == on
        assert everything(store) == stands
        said = [(e.action, e.who, e.why) for e in store.history(FLOW, 2)]
        assert said == [("snapshot-resume", "bob", "it is over"), ("snapshot-pause", "ada", "a sale")]
        assert store.paused(FLOW) is None

    def test_a_commit_over_a_pause_keeps_it_paused(self, lease: Any, store: Any, open_store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        chunks = chunk_further(FIRST)
        plan = plan_with(store, chunks)
        store.write_plan(lease, plan)
        open_store().pause_snapshot(FLOW, "ada", "a sale")
        commit(store, lease, plan)
        assert store.snapshot(FLOW) == replace(chunks.snapshot, paused=True)
        # Resumed while the next plan is in flight, which was made of a held one.
        held = chunk_further(store.snapshot(FLOW))
        assert held.snapshot.paused
        plan = plan_with(store, held)
        store.write_plan(lease, plan)
        on = open_store().resume_snapshot(FLOW, "ada", "it is over")
        commit(store, lease, plan)
        assert (on.resumed_rows, on.paused) == (11, False)
        after = replace(held.snapshot, paused=False, resumed_at=on.resumed_at, resumed_rows=11)
        assert store.snapshot(FLOW) == after

    def test_the_last_chunk_over_a_pause_finishes_it(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        for _ in range(5):
            bring(store, lease)
        chunks = chunk_further(store.snapshot(FLOW))
        plan = plan_with(store, chunks)
        store.write_plan(lease, plan)
        store.pause_snapshot(FLOW, "ada", "a sale")
        commit(store, lease, plan)
        assert store.snapshot(FLOW) == chunks.snapshot
        assert not store.snapshot(FLOW).paused

    @pytest.mark.parametrize("before", [3, 5])
    def test_a_commit_over_a_cancellation_keeps_it_and_counts_the_chunk(
        self, lease: Any, store: Any, open_store: Any, before: int
    ) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        for _ in range(before):
            bring(store, lease)
        chunks = chunk_further(store.snapshot(FLOW))
        plan = plan_with(store, chunks)
        store.write_plan(lease, plan)
        ended = open_store().cancel_snapshot(FLOW, "ada", "the wrong table")
        assert (ended.cancelled, ended.unfinished) == (True, False)
        assert (store.snapshot(FLOW), store.history(FLOW, 1)[0].action) == (ended, "snapshot-cancel")
        stands = everything(store)
        assert open_store().cancel_snapshot(FLOW, "bob", "me too") == ended
        assert everything(store) == stands
        commit(store, lease, plan)
        assert store.snapshot(FLOW) == replace(chunks.snapshot, cancelled=True, finished_at=ended.finished_at)
        assert store.begin_snapshot(FLOW, lease, again(2), "run-1", "the right one") == again(2)

    def test_a_commit_leaves_a_snapshot_that_began_since(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        plan = plan_with(store, chunk_further(FIRST))
        store.write_plan(lease, plan)
        store.cancel_snapshot(FLOW, "ada", "the wrong table")
        store.begin_snapshot(FLOW, None, again(2), "ada", "the right one")
        commit(store, lease, plan)
        assert (store.load(FLOW).batch, store.snapshot(FLOW)) == (1, again(2))

    def test_pauses_of_it_race_with_commits_and_no_chunk_is_lost(self, lease: Any, store: Any, open_store: Any) -> None:
        many = replace(FIRST, tables=tuple(TableProgress(f"shop.t{n}") for n in range(4)))
        store.begin_snapshot(FLOW, lease, many, "run-1", "first run")
        other, trouble = open_store(), []

        def toggle() -> None:
            try:
                for number in range(5):
                    other.pause_snapshot(FLOW, "ada", str(number))
                    other.resume_snapshot(FLOW, "ada", str(number))
                other.pause_snapshot(FLOW, "ada", "at last")
            except Exception as error:  # noqa: BLE001 - handed to the test
                trouble.append(error)

        thread = threading.Thread(target=toggle)
        thread.start()
        for _ in range(11):
            bring(store, lease)
        thread.join(60)
        assert not thread.is_alive()
        assert not trouble, trouble
        stands = store.snapshot(FLOW)
        assert (sum(table.chunks for table in stands.tables), stands.paused) == (11, True)
        assert store.history(FLOW, 1)[0].number == 1 + 1 + 11 + 11

    # --- sinks that are behind ---

    def test_the_plan_of_a_sink_that_is_behind_moves_it_not(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        chunks = chunk_further(FIRST)
        plan = plan_with(store, chunks)
        store.write_plan(lease, plan)
        store.detach(FLOW, lease, "kafka", "it was away")
        own = store.of_sink("kafka")
        assert own.pending_plan(FLOW) == plan
        commit(own, lease, plan)
        assert (own.load(FLOW).batch, store.load(FLOW).batch) == (1, 0)
        assert store.snapshot(FLOW) == own.snapshot(FLOW) == FIRST
        commit(store, lease, plan)
        assert store.snapshot(FLOW) == chunks.snapshot

    def test_no_chunks_are_planned_while_a_sink_is_behind(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        store.detach(FLOW, lease, "kafka", "it was away")
        before = everything(store)
        with pytest.raises(CheckpointConflictError, match=r"would miss them: kafka"):
            store.write_plan(lease, plan_with(store, chunk_further(FIRST)))
        assert everything(store) == before
        store.join(FLOW, lease, "kafka", "run-1")
        bring(store, lease)
        assert store.snapshot(FLOW).tables[0].chunks == 1

    # --- reconciliation ---

    def test_chunks_moved_while_the_store_was_away_are_added_over_a_pause(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        store.pause_snapshot(FLOW, "ada", "a sale")
        outcomes, snapshot, at = [], FIRST, store.load(FLOW)
        for number in range(4):
            chunks = chunk_further(snapshot) if number != 2 else None
            plan = plan_with(store, chunks, at=at)
            outcomes.append(outcome_of(plan, lease.epoch))
            at, snapshot = outcomes[-1].checkpoint, chunks.snapshot if chunks else snapshot
        pending = plan_with(store, chunk_further(snapshot), at=at)
        assert store.reconcile(lease, FLOW, outcomes, pending) == at
        assert (store.pending_plan(FLOW), store.snapshot(FLOW)) == (pending, replace(snapshot, paused=True))
        assert store.snapshot(FLOW).tables[0].chunks == 3
        stands = everything(store)
        assert store.reconcile(lease, FLOW, outcomes, pending) == at
        assert everything(store) == stands

    def test_batches_without_chunks_are_added_and_leave_it(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        plan = plan_with(store, None)
        store.reconcile(lease, FLOW, [outcome_of(plan, lease.epoch)], None)
        assert (store.load(FLOW).batch, store.snapshot(FLOW)) == (1, FIRST)

    # --- amendments ---

    def test_moves_of_the_checkpoint_leave_its_cursor_and_drop_a_chunk_in_flight(self, lease: Any, store: Any) -> None:
        """Its chunks hold what views at or behind the place showed: the log replayed from there ends at the same."""
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        stands = bring(store, lease)
        plan = plan_with(store, chunk_further(stands))
        store.write_plan(lease, plan)
        store.amend(FLOW, lease, rewind(0, closed=plan, slots={"kafka": (2, 2)}))
        assert (store.load(FLOW).batch, store.pending_plan(FLOW), store.snapshot(FLOW)) == (2, None, stands)
        lease = replace_lease(store, lease)
        store.amend(FLOW, lease, skip(0, 50))
        assert store.snapshot(FLOW) == stands
        lease = replace_lease(store, lease)
        adopted = replace(store.load(FLOW), batch=7, epoch=Epoch(lease.epoch), plan_hash="x", run_id="run-3")
        store.adopt(lease, FLOW, adopted, "the sinks are ahead")
        assert store.snapshot(FLOW) == stands
        assert bring(store, lease).tables[0].chunks == 2
