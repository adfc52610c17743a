"""What every checkpoint store must do; run by each store's own tests, which open it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from databus.core.batches.counts import TableCounts
from databus.core.errors import (
    CheckpointConflictError,
    CheckpointTooLargeError,
    ConfigError,
    LeaseBusyError,
    StaleEpochError,
)
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.checkpoint_store import CheckpointStore, Lease
from databus.core.state.plan import Plan, SinkPlan
from tests.contract.amendments import AmendmentContract
from tests.contract.capture_scopes import CaptureScopeContract
from tests.contract.snapshots import SnapshotContract

FLOW = "orders"
NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
DEADLINE_S = 20.0

OpenStore = Callable[[], Any]
"""Opens one more client of the same store; closed by the fixture."""


def plan_of(batch: int, start: int, end: int, flow: str = FLOW, spec_hash: str = "spec") -> Plan:
    covered = OffsetRange(SequenceOffset(start), SequenceOffset(end))
    sinks = {"kafka": SinkPlan(slots=2, prev=(batch - 1, batch - 1))}
    return Plan("default", flow, batch, covered, sinks, spec_hash, NOON)


def outcome(plan: Plan, epoch: int) -> Checkpoint:
    return Checkpoint(
        offset=plan.range.end,
        batch=plan.batch,
        epoch=Epoch(epoch),
        run_id=f"run-{plan.batch}",
        plan_hash=plan.hash,
        counts=COUNTS,
        watermark=NOON,
        updated_at=NOON,
        slots={"kafka": (plan.batch, plan.batch)},
    )


COUNTS = {"shop.orders": TableCounts(read=10, filtered=2, quarantined=1, dispatched=7)}
RECEIPTS = [{"sink": "kafka", "slot": 0, "batch": 1, "written": 7}]


def commit(store: CheckpointStore, lease: Lease, plan: Plan) -> None:
    store.commit(lease, plan, outcome(plan, lease.epoch), RECEIPTS, COUNTS)


def moved(store: CheckpointStore, lease: Lease, batch: int) -> None:
    """Plan and commit the batch from offset `batch` - 1 to `batch`."""
    plan = plan_of(batch, batch - 1, batch)
    store.write_plan(lease, plan)
    commit(store, lease, plan)


@dataclass
class Stored:
    """All that a refused write must leave as it was."""

    checkpoint: Checkpoint | None
    plan: Plan | None
    history: tuple[Any, ...]

    @classmethod
    def of(cls, store: CheckpointStore, flow: str = FLOW) -> Stored:
        return cls(store.load(flow), store.pending_plan(flow), tuple(store.history(flow, 100)))


class CheckpointStoreContract(AmendmentContract, SnapshotContract, CaptureScopeContract):
    """Tests inherited by the tests of each store."""

    HISTORY = 5
    """Entries that the stores under test keep."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        raise NotImplementedError

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Any:
        return open_store()

    @pytest.fixture
    def lease(self, store: Any) -> Any:
        lease = store.claim(FLOW, "run-1", wait_s=0)
        store.start(FLOW, lease, SequenceOffset(0), "run-1")
        return lease

    # --- claim ---

    def test_a_flow_that_never_ran_has_nothing(self, store: Any) -> None:
        assert store.load(FLOW) is None
        assert store.pending_plan(FLOW) is None
        assert store.history(FLOW, 10) == ()
        assert store.gaps(FLOW) == ()
        assert store.list_flows() == ()

    def test_each_claim_raises_the_epoch(self, store: Any, open_store: OpenStore) -> None:
        first = store.claim(FLOW, "run-1", wait_s=0)
        assert (first.epoch, first.held()) == (1, True)
        first.release()
        second = open_store().claim(FLOW, "run-2", wait_s=0)
        assert (second.epoch, second.held()) == (2, True)
        assert not first.held()

    def test_flows_do_not_share_leases_and_are_listed(self, store: Any) -> None:
        assert store.claim("orders", "run-1", wait_s=0).epoch == 1
        assert store.claim("payments", "run-1", wait_s=0).epoch == 1
        assert store.list_flows() == ("orders", "payments")

    def test_a_second_claim_is_refused_and_names_the_holder(self, store: Any, open_store: OpenStore) -> None:
        lease = store.claim(FLOW, "scheduled__2024-01-31", wait_s=0)
        with pytest.raises(LeaseBusyError, match="scheduled__2024-01-31") as caught:
            open_store().claim(FLOW, "manual__1", wait_s=0.05)
        assert caught.value.code == "checkpoint_busy"
        assert caught.value.retryable
        assert lease.held()
        assert not lease.successor_waiting()

    def test_the_same_client_cannot_claim_twice(self, store: Any) -> None:
        lease = store.claim(FLOW, "run-1", wait_s=0)
        with pytest.raises(LeaseBusyError):
            store.claim(FLOW, "run-1", wait_s=0)
        assert lease.held()

    def test_a_waiting_successor_is_seen_and_takes_over(self, lease: Any, open_store: OpenStore) -> None:
        successor = open_store()
        taken: list[Lease] = []
        thread = threading.Thread(target=lambda: taken.append(successor.claim(FLOW, "run-2", wait_s=DEADLINE_S)))
        assert not lease.successor_waiting()
        thread.start()
        wait_until(lease.successor_waiting)
        assert lease.held()
        lease.release()
        thread.join(DEADLINE_S)
        assert [t.epoch for t in taken] == [lease.epoch + 1]
        assert taken[0].held()
        assert not taken[0].successor_waiting()

    def test_of_many_waiters_each_gets_its_own_epoch(self, store: Any, open_store: OpenStore) -> None:
        epochs: list[int] = []
        active = threading.Semaphore(1)
        overlaps: list[int] = []

        def run(client: Any, number: int) -> None:
            lease = client.claim(FLOW, f"run-{number}", wait_s=DEADLINE_S)
            if not active.acquire(blocking=False):
                overlaps.append(lease.epoch)
            epochs.append(lease.epoch)
            active.release()
            lease.release()

        clients = [store, open_store(), open_store()]
        threads = [threading.Thread(target=run, args=(clients[i % 3], i)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert sorted(epochs) == [1, 2, 3, 4, 5, 6]
        assert overlaps == []

    def test_release_twice_and_after_a_takeover_harms_nobody(self, lease: Any, open_store: OpenStore) -> None:
        lease.release()
        lease.release()
        other = open_store().claim(FLOW, "run-2", wait_s=0)
        lease.release()
        assert other.held()
        with pytest.raises(LeaseBusyError):
            open_store().claim(FLOW, "run-3", wait_s=0)

    def test_the_end_of_a_client_frees_its_lease(self, lease: Any, store: Any, open_store: OpenStore) -> None:
        store.close()
        assert open_store().claim(FLOW, "run-2", wait_s=DEADLINE_S).epoch == lease.epoch + 1
        assert not lease.held()

    @pytest.mark.parametrize("name", ["", "..", "a/b", "/orders", "Orders", "a b", "orders\n"])
    def test_a_name_that_is_no_flow_is_refused(self, store: Any, name: str) -> None:
        with pytest.raises(ConfigError):
            store.load(name)
        with pytest.raises(ConfigError):
            store.claim(name, "run", wait_s=0)

    # --- start ---

    def test_start_writes_batch_0_and_its_history(self, store: Any) -> None:
        lease = store.claim(FLOW, "run-1", wait_s=0)
        started = store.start(FLOW, lease, SequenceOffset(7), "run-1")
        assert (started.batch, started.offset, started.epoch, started.run_id) == (0, SequenceOffset(7), 1, "run-1")
        assert started.updated_at.tzinfo is not None
        assert store.load(FLOW) == started
        (entry,) = store.history(FLOW, 10)
        assert (entry.number, entry.action, entry.who, entry.previous, entry.offset) == (
            1,
            "start",
            "run-1",
            None,
            SequenceOffset(7),
        )

    def test_start_again_is_the_same_start_or_refused(self, lease: Any, store: Any) -> None:
        before = Stored.of(store)
        assert store.start(FLOW, lease, SequenceOffset(0), "run-1") == before.checkpoint
        with pytest.raises(CheckpointConflictError):
            store.start(FLOW, lease, SequenceOffset(5), "run-1")
        assert Stored.of(store) == before

    # --- plan ---

    def test_a_plan_is_found_by_the_next_holder_as_it_is(self, lease: Any, store: Any, open_store: OpenStore) -> None:
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        lease.release()
        other = open_store()
        successor = other.claim(FLOW, "run-2", wait_s=0)
        found = other.pending_plan(FLOW)
        assert found == plan
        assert found.hash == plan.hash
        commit(other, successor, found)
        assert other.load(FLOW) == outcome(plan, successor.epoch)
        assert other.pending_plan(FLOW) is None

    def test_the_same_plan_again_changes_nothing(self, lease: Any, store: Any) -> None:
        store.write_plan(lease, plan_of(1, 0, 10))
        before = Stored.of(store)
        store.write_plan(lease, plan_of(1, 0, 10))
        assert Stored.of(store) == before

    def test_a_plan_in_flight_gives_way_to_a_higher_batch_only(self, lease: Any, store: Any) -> None:
        store.write_plan(lease, plan_of(2, 0, 10))
        before = Stored.of(store)
        for batch in (1, 2):
            with pytest.raises(CheckpointConflictError, match="in flight"):
                store.write_plan(lease, plan_of(batch, 0, 10, spec_hash="changed"))
            assert Stored.of(store) == before
        anew = plan_of(3, 0, 10, spec_hash="changed")
        store.write_plan(lease, anew)
        assert store.pending_plan(FLOW) == anew
        with pytest.raises(CheckpointConflictError):
            commit(store, lease, plan_of(2, 0, 10))
        commit(store, lease, anew)
        assert store.load(FLOW).batch == 3

    @pytest.mark.parametrize(
        ("plan", "problem"),
        [
            (plan_of(2, 11, 20), "planned from 11"),
            (plan_of(2, 9, 20), "planned from 9"),
            (plan_of(1, 10, 20), "batch 1 is committed"),
        ],
        ids=["gap", "overlap", "used batch"],
    )
    def test_a_plan_must_continue_the_checkpoint(self, lease: Any, store: Any, plan: Plan, problem: str) -> None:
        first = plan_of(1, 0, 10)
        store.write_plan(lease, first)
        commit(store, lease, first)
        before = Stored.of(store)
        with pytest.raises(CheckpointConflictError, match=problem):
            store.write_plan(lease, plan)
        assert Stored.of(store) == before

    def test_a_plan_needs_a_checkpoint(self, store: Any) -> None:
        lease = store.claim(FLOW, "run-1", wait_s=0)
        with pytest.raises(CheckpointConflictError, match="no checkpoint"):
            store.write_plan(lease, plan_of(1, 0, 10))
        assert store.pending_plan(FLOW) is None

    # --- commit ---

    def test_a_commit_moves_everything_at_once(self, lease: Any, store: Any, open_store: OpenStore) -> None:
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        commit(store, lease, plan)
        other = open_store()
        assert other.load(FLOW) == outcome(plan, lease.epoch)
        assert other.pending_plan(FLOW) is None
        newest, first = other.history(FLOW, 10)
        assert (newest.number, newest.action, newest.batch, newest.epoch) == (2, "commit", 1, lease.epoch)
        assert (newest.previous, newest.offset) == (SequenceOffset(0), SequenceOffset(10))
        assert (newest.counts, list(newest.receipts), newest.at) == (COUNTS, RECEIPTS, NOON)
        assert first.action == "start"

    def test_committing_again_changes_nothing(self, lease: Any, store: Any) -> None:
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        commit(store, lease, plan)
        before = Stored.of(store)
        commit(store, lease, plan)
        assert Stored.of(store) == before

    def test_only_the_plan_in_flight_can_be_committed(self, lease: Any, store: Any) -> None:
        before = Stored.of(store)
        with pytest.raises(CheckpointConflictError, match="no plan"):
            commit(store, lease, plan_of(1, 0, 10))
        assert Stored.of(store) == before
        store.write_plan(lease, plan_of(1, 0, 10))
        before = Stored.of(store)
        with pytest.raises(CheckpointConflictError, match="in flight"):
            commit(store, lease, plan_of(1, 0, 11))
        assert Stored.of(store) == before

    @pytest.mark.parametrize(
        "wrong",
        [{"batch": 2}, {"plan_hash": "0" * 16}, {"epoch": Epoch(9)}, {"offset": SequenceOffset(9)}],
        ids=["batch", "plan_hash", "epoch", "offset"],
    )
    def test_a_checkpoint_must_follow_from_its_plan(self, lease: Any, store: Any, wrong: dict[str, Any]) -> None:
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        before = Stored.of(store)
        with pytest.raises(CheckpointConflictError, match=next(iter(wrong))):
            store.commit(lease, plan, replace(outcome(plan, lease.epoch), **wrong), RECEIPTS, COUNTS)
        assert Stored.of(store) == before

    def test_what_is_too_large_is_refused_whole(self, lease: Any, store: Any) -> None:
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        before = Stored.of(store)
        with pytest.raises(CheckpointTooLargeError) as caught:
            store.commit(lease, plan, outcome(plan, lease.epoch), [{"sink": "x" * 262_144}], COUNTS)
        assert caught.value.hint
        assert Stored.of(store) == before
        commit(store, lease, plan)
        large = replace(plan_of(2, 10, 20), spec_hash="y" * 262_144)
        before = Stored.of(store)
        with pytest.raises(CheckpointTooLargeError):
            store.write_plan(lease, large)
        assert Stored.of(store) == before

    def test_history_keeps_what_has_no_page(self, lease: Any, store: Any, open_store: OpenStore) -> None:
        for batch in range(1, 10):
            moved(store, lease, batch)
        assert [e.number for e in store.history(FLOW, 100)] == list(range(10, 0, -1))
        store.recorded(FLOW, 3)
        assert [e.number for e in store.history(FLOW, 100)] == list(range(10, 3, -1))
        for batch in (10, 11):
            moved(store, lease, batch)
        assert [e.number for e in store.history(FLOW, 100)] == list(range(12, 3, -1))
        lease.release()
        other = open_store()
        successor = other.claim(FLOW, "run-2", wait_s=0)
        moved(other, successor, 12)
        assert [e.number for e in other.history(FLOW, 100)] == list(range(13, 3, -1))
        other.recorded(FLOW, 13)
        assert [e.number for e in other.history(FLOW, 100)] == list(range(13, 8, -1))

    def test_history_keeps_the_newest(self, lease: Any, store: Any) -> None:
        for batch in range(1, 10):
            store.recorded(FLOW, batch)
            moved(store, lease, batch)
        entries = store.history(FLOW, 100)
        assert [e.number for e in entries] == [10, 9, 8, 7, 6]
        assert [e.batch for e in entries] == [9, 8, 7, 6, 5]
        assert [e.number for e in store.history(FLOW, 2)] == [10, 9]
        assert store.history(FLOW, 0) == ()

    # --- a holder that was overtaken ---

    def test_a_zombie_cannot_start(self, store: Any, open_store: OpenStore) -> None:
        zombie = store.claim(FLOW, "run-1", wait_s=0)
        zombie.release()
        open_store().claim(FLOW, "run-2", wait_s=0)
        with pytest.raises(StaleEpochError):
            store.start(FLOW, zombie, SequenceOffset(0), "run-1")
        assert store.load(FLOW) is None

    def test_a_zombie_cannot_plan(self, lease: Any, store: Any, open_store: OpenStore) -> None:
        lease.release()
        open_store().claim(FLOW, "run-2", wait_s=0)
        before = Stored.of(store)
        with pytest.raises(StaleEpochError):
            store.write_plan(lease, plan_of(1, 0, 10))
        assert Stored.of(store) == before

    def test_a_zombie_cannot_commit(self, lease: Any, store: Any, open_store: OpenStore) -> None:
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        lease.release()
        other = open_store()
        successor = other.claim(FLOW, "run-2", wait_s=0)
        before = Stored.of(store)
        with pytest.raises(StaleEpochError) as caught:
            commit(store, lease, plan)
        assert (caught.value.code, caught.value.retryable) == ("checkpoint_stale_epoch", True)
        assert Stored.of(store) == before
        commit(other, successor, plan)
        after = Stored.of(store)
        with pytest.raises(StaleEpochError):
            commit(store, lease, plan)
        assert Stored.of(store) == after


def wait_until(condition: Callable[[], Any], deadline_s: float = DEADLINE_S) -> None:
    """Poll until the condition holds; fail when it does not in time."""
    pause = threading.Event()
    for _ in range(int(deadline_s / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    pytest.fail(f"not within {deadline_s} s: {condition}")
