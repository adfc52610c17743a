"""What every checkpoint store must do with tables that are added to a flow; part of the store's contract."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from databus.core.errors import CheckpointConflictError, StaleEpochError
from databus.core.state.snapshot import CaptureScope, Snapshot, TableProgress
from tests.contract.amendments import commit
from tests.contract.snapshots import FIRST, FLOW, NOON, bring, chunk_further, everything, plan_with

SHOP = CaptureScope(("shop.*",), ("shop.tmp_*",))
MORE = CaptureScope(("shop.*", "store.*"))
ADDED = Snapshot(1, "added", NOON, (TableProgress("store.boxes", estimate=7),))


def follow(store: Any, lease: Any, scope: CaptureScope, added: Snapshot | None = None) -> Snapshot | None:
    found: Snapshot | None = store.follow_scope(FLOW, lease, scope, added, "run-1", "added to the flow")
    return found


class CaptureScopeContract:
    """Inherited by `CheckpointStoreContract`, which brings `store`, `lease` and `open_store`."""

    def test_a_scope_alone_is_written_without_a_word_in_the_history(
        self, lease: Any, store: Any, open_store: Any
    ) -> None:
        assert store.capture_scope(FLOW) is None
        before = everything(store)
        assert follow(store, lease, SHOP) is None
        assert open_store().capture_scope(FLOW) == SHOP
        assert follow(store, lease, MORE) is None
        assert (store.capture_scope(FLOW), everything(store)) == (MORE, before)
        bring_after_all = store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        assert follow(store, lease, SHOP) == bring_after_all
        bring(store, lease)

    def test_added_tables_begin_a_snapshot_of_their_own_once(self, lease: Any, store: Any) -> None:
        follow(store, lease, SHOP)
        assert follow(store, lease, MORE, ADDED) == ADDED
        assert (store.capture_scope(FLOW), store.snapshot(FLOW)) == (MORE, ADDED)
        entry = store.history(FLOW, 1)[0]
        assert (entry.action, entry.who, entry.why) == ("snapshot", "run-1", "added to the flow")
        stands = everything(store)
        assert follow(store, lease, MORE, ADDED) == ADDED  # as after an answer that was lost
        assert everything(store) == stands
        bring(store, lease)
        store.cancel_snapshot(FLOW, "ada", "the wrong table")
        after = follow(store, lease, SHOP, ADDED)
        assert after == store.snapshot(FLOW) == replace(ADDED, number=2)

    def test_added_tables_come_at_the_end_of_an_unfinished_snapshot(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        store.pause_snapshot(FLOW, "ada", "a sale")
        whole = replace(FIRST, tables=(*FIRST.tables, *ADDED.tables), paused=True)
        assert follow(store, lease, MORE, ADDED) == whole
        assert (store.snapshot(FLOW), store.history(FLOW, 1)[0].action) == (whole, "snapshot-added")

    def test_a_commit_whose_plan_was_made_before_keeps_what_was_added(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        for _ in range(5):
            bring(store, lease)
        last = chunk_further(store.snapshot(FLOW))
        assert last.snapshot.finished_at == NOON
        plan = plan_with(store, last)
        store.write_plan(lease, plan)
        follow(store, lease, MORE, ADDED)
        commit(store, lease, plan)
        stands = store.snapshot(FLOW)
        assert stands == replace(last.snapshot, tables=(*last.snapshot.tables, *ADDED.tables), finished_at=None)
        for _ in range(3):
            last = chunk_further(store.snapshot(FLOW))
            plan = plan_with(store, last)
            store.write_plan(lease, plan)
            commit(store, lease, plan)
        assert (store.snapshot(FLOW), store.snapshot(FLOW).finished_at) == (last.snapshot, NOON)

    def test_a_table_that_was_left_out_meanwhile_is_read_from_its_beginning(self, lease: Any, store: Any) -> None:
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        bring(store, lease)
        again = Snapshot(1, "added", NOON, (TableProgress("shop.orders", estimate=9),))
        found = follow(store, lease, MORE, again)
        assert found is not None
        assert [table.table for table in found.tables] == ["shop.items", "shop.orders"]
        assert (found.tables[1].state, found.tables[1].after, found.tables[1].chunks) == ("waiting", (), 1)

    def test_a_stale_holder_changes_nothing(self, lease: Any, store: Any, open_store: Any) -> None:
        follow(store, lease, SHOP)
        lease.release()
        open_store().claim(FLOW, "run-2", wait_s=0)
        before = everything(store)
        for added in (None, ADDED):
            with pytest.raises(StaleEpochError):
                follow(store, lease, MORE, added)
        assert (store.capture_scope(FLOW), everything(store)) == (SHOP, before)

    def test_a_flow_that_never_ran_has_no_tables_to_read(self, store: Any) -> None:
        lease = store.claim(FLOW, "ada", wait_s=0)
        with pytest.raises(CheckpointConflictError, match="no checkpoint"):
            follow(store, lease, MORE, ADDED)
        assert store.capture_scope(FLOW) is None
