"""What every checkpoint store must do with gaps that a snapshot mends; part of the store's contract."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from databus.core.errors import CheckpointConflictError, StaleEpochError
from databus.core.positions.gaps import OPEN, SKIPPED
from databus.core.state.amendments import Amendment
from databus.core.state.checkpoint_store import Lease
from databus.core.state.snapshot import PlannedChunks, Snapshot, TableProgress
from tests.contract.amendments import commit, everything, gap, move, replace_lease, rewind, skip
from tests.contract.snapshots import FIRST, bring, chunk_further, outcome_of, plan_with

FLOW = "orders"
NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
TABLES = (TableProgress("shop.orders", estimate=100), TableProgress("shop.items"))


def repair(number: int = 1, mends: tuple[int, ...] = ()) -> Snapshot:
    return Snapshot(number, "repair", NOON, TABLES, mends=mends)


def mended_skip(start: int, end: int, number: int = 1, **fields: Any) -> Amendment:
    return skip(start, end, repair=repair(number), **fields)


def decisions(store: Any) -> list[str]:
    return [found.decision for found in store.gaps(FLOW)]


def to_the_last(store: Any, lease: Lease) -> PlannedChunks:
    """Bring all chunks but the last one, and return that one."""
    while (chunks := chunk_further(store.snapshot(FLOW))).snapshot.unfinished:
        bring(store, lease)
    return chunks


def all_of_it(store: Any) -> Any:
    return (*everything(store), store.snapshot(FLOW))


class MendingContract:
    """Inherited by `CheckpointStoreContract`, which brings `store`, `lease` and `open_store`."""

    # --- passing over a gap ---

    def test_a_gap_is_passed_and_its_snapshot_begins_in_one_step(self, lease: Any, store: Any, open_store: Any) -> None:
        move(store, lease, 10)
        noted = store.note_gap(FLOW, lease, gap(10, 30, OPEN))
        after = store.amend(FLOW, lease, mended_skip(10, 30))
        assert after.offset.sequence == 30
        assert open_store().snapshot(FLOW) == repair(mends=(noted.number,))
        assert decisions(open_store()) == ["being mended by snapshot 1"]
        assert store.gaps(FLOW)[0].passed
        stands = all_of_it(store)
        assert store.amend(FLOW, lease, mended_skip(10, 30)) == after
        assert all_of_it(store) == stands
        assert store.history(FLOW, 1)[0].action == "skip"

    def test_a_refused_skip_begins_no_snapshot(self, lease: Any, store: Any, open_store: Any) -> None:
        move(store, lease, 10)
        before = all_of_it(store)
        for wrong in (
            mended_skip(10, 30, 2),
            skip(10, 30, repair=replace(repair(), tables=FIRST.tables)),
            skip(10, 30, repair=replace(repair(), finished_at=NOON)),
            mended_skip(10, 5),
        ):
            with pytest.raises(CheckpointConflictError):
                store.amend(FLOW, lease, wrong)
            assert all_of_it(store) == before
        lease.release()
        open_store().claim(FLOW, "run-2", wait_s=0)
        with pytest.raises(StaleEpochError):
            store.amend(FLOW, lease, mended_skip(10, 30))
        assert all_of_it(store)[3:] == before[3:]

    def test_a_plan_in_flight_goes_with_the_step(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        plan = plan_with(store, chunk_further(FIRST))
        store.write_plan(lease, plan)
        store.amend(FLOW, lease, mended_skip(0, 30, 2, closed=plan, slots={"kafka": (1, 1)}))
        assert (store.pending_plan(FLOW), store.snapshot(FLOW)) == (None, repair(2, (1,)))
        with pytest.raises(CheckpointConflictError):
            commit(store, lease, plan)
        assert store.snapshot(FLOW) == repair(2, (1,))

    def test_an_unfinished_snapshot_ends_with_it_and_what_that_one_mends_goes_over(
        self, lease: Any, store: Any
    ) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        bring(store, lease)
        store.amend(FLOW, lease, mended_skip(10, 30, 2))
        assert store.snapshot(FLOW) == repair(2, (1,))
        bring(store, lease)
        store.pause_snapshot(FLOW, "ada", "a sale")
        lease = replace_lease(store, lease)
        store.amend(FLOW, lease, mended_skip(40, 60, 3))
        assert store.snapshot(FLOW) == repair(3, (1, 2))
        assert decisions(store) == ["being mended by snapshot 3"] * 2
        lease = replace_lease(store, lease)
        store.amend(FLOW, lease, skip(60, 70))
        assert decisions(store) == [*["being mended by snapshot 3"] * 2, SKIPPED]
        last = to_the_last(store, lease)
        plan = plan_with(store, last)
        store.write_plan(lease, plan)
        commit(store, lease, plan)
        assert decisions(store) == [*["mended by snapshot 3"] * 2, SKIPPED]

    # --- the end of the snapshot ---

    def test_the_commit_of_the_last_chunk_mends_it_and_again_changes_nothing(self, lease: Any, store: Any) -> None:
        move(store, lease, 10)
        store.amend(FLOW, lease, mended_skip(10, 30))
        passed = store.gaps(FLOW)[0]
        plan = plan_with(store, to_the_last(store, lease))
        store.write_plan(lease, plan)
        assert decisions(store) == ["being mended by snapshot 1"]
        commit(store, lease, plan)
        assert store.gaps(FLOW) == (replace(passed, decision="mended by snapshot 1"),)
        assert store.gaps(FLOW)[0].passed
        stands = all_of_it(store)
        commit(store, lease, plan)
        assert all_of_it(store) == stands
        store.begin_snapshot(FLOW, lease, Snapshot(2, "request", NOON, TABLES), "ada", "once more")
        store.cancel_snapshot(FLOW, "ada", "not needed")
        assert decisions(store) == ["mended by snapshot 1"]

    def test_a_refused_commit_mends_nothing(self, lease: Any, store: Any, open_store: Any) -> None:
        move(store, lease, 10)
        store.amend(FLOW, lease, mended_skip(10, 30))
        plan = plan_with(store, to_the_last(store, lease))
        store.write_plan(lease, plan)
        lease.release()
        successor = open_store().claim(FLOW, "run-2", wait_s=0)
        with pytest.raises(StaleEpochError):
            commit(store, lease, plan)
        assert decisions(store) == ["being mended by snapshot 1"]
        commit(store, successor, plan)
        assert decisions(store) == ["mended by snapshot 1"]

    def test_a_table_that_is_gone_is_named(self, lease: Any, store: Any) -> None:
        move(store, lease, 10)
        store.amend(FLOW, lease, mended_skip(10, 30))
        last = to_the_last(store, lease)
        tables = (replace(last.snapshot.tables[0], state="gone"), *last.snapshot.tables[1:])
        plan = plan_with(store, replace(last, snapshot=replace(last.snapshot, tables=tables)))
        store.write_plan(lease, plan)
        commit(store, lease, plan)
        assert decisions(store) == ["mended by snapshot 1, but for shop.orders (gone)"]

    def test_a_cancelled_one_leaves_it_skipped_whatever_is_in_flight(
        self, lease: Any, store: Any, open_store: Any
    ) -> None:
        move(store, lease, 10)
        store.amend(FLOW, lease, mended_skip(10, 30))
        plan = plan_with(store, to_the_last(store, lease))
        store.write_plan(lease, plan)
        open_store().cancel_snapshot(FLOW, "ada", "too much load")
        assert decisions(store) == [SKIPPED]
        commit(store, lease, plan)
        assert decisions(store) == [SKIPPED]
        assert store.snapshot(FLOW).cancelled

    def test_chunks_moved_while_the_store_was_away_mend_it(self, lease: Any, store: Any) -> None:
        move(store, lease, 10)
        store.amend(FLOW, lease, mended_skip(10, 30))
        outcome = outcome_of(plan_with(store, to_the_last(store, lease)), lease.epoch)
        store.reconcile(lease, FLOW, [outcome], None)
        assert (store.snapshot(FLOW).unfinished, decisions(store)) == (False, ["mended by snapshot 1"])

    def test_a_sink_that_is_behind_mends_nothing_by_its_own_commit(self, lease: Any, store: Any) -> None:
        move(store, lease, 10)
        store.amend(FLOW, lease, mended_skip(10, 30))
        plan = plan_with(store, to_the_last(store, lease))
        store.write_plan(lease, plan)
        store.detach(FLOW, lease, "kafka", "it was away")
        commit(store.of_sink("kafka"), lease, plan)
        assert decisions(store) == ["being mended by snapshot 1"]
        commit(store, lease, plan)
        assert decisions(store) == ["mended by snapshot 1"]

    # --- a gap that was passed before ---

    def test_a_snapshot_that_is_begun_later_mends_gaps_that_were_passed(self, lease: Any, store: Any) -> None:
        move(store, lease, 10)
        store.amend(FLOW, lease, skip(10, 30))
        wanted = repair(mends=(1,))
        assert store.begin_snapshot(FLOW, None, wanted, "ada", "after all") == wanted
        assert decisions(store) == ["being mended by snapshot 1"]
        stands = all_of_it(store)
        assert store.begin_snapshot(FLOW, None, wanted, "ada", "after all") == wanted
        assert all_of_it(store) == stands
        plan = plan_with(store, to_the_last(store, lease))
        store.write_plan(lease, plan)
        commit(store, lease, plan)
        assert decisions(store) == ["mended by snapshot 1"]

    def test_a_gap_ahead_or_unknown_is_not_mended(self, lease: Any, store: Any) -> None:
        move(store, lease, 10)
        store.amend(FLOW, lease, skip(10, 30))
        lease = replace_lease(store, lease)
        store.amend(FLOW, lease, rewind(0))
        store.note_gap(FLOW, lease, gap(0, 5, OPEN))
        before = all_of_it(store)
        for number, why in ((1, "stands before it"), (2, "stands before it"), (3, "has no gap 3")):
            with pytest.raises(CheckpointConflictError, match=why):
                store.begin_snapshot(FLOW, None, repair(mends=(number,)), "ada", "after all")
        assert all_of_it(store) == before
