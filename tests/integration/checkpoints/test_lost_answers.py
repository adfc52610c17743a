"""A connection that is cut before or after a write arrives: applied once, and the caller learns which."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from databus.core.errors import (
    CheckpointUnavailableError,
    StaleEpochError,
)
from databus.core.positions.offsets import SequenceOffset
from databus.testing.zookeeper_proxy import Fault, ZooKeeperProxy
from tests.contract.capture_scopes import ADDED, MORE, SHOP
from tests.contract.checkpoint_store import (
    DEADLINE_S,
    FLOW,
    Stored,
    commit,
    outcome,
    plan_of,
    wait_until,
)
from tests.contract.snapshots import FIRST, chunk_further, plan_with
from tests.integration.checkpoints.stores import Connect, in_thread, started

pytestmark = pytest.mark.integration

FAULTS = pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])


class TestLostAnswers:
    """The connection is cut before a write reaches the server, or after the server applied it but before the answer."""

    @FAULTS
    def test_commit(
        self, connect: Connect, proxy: ZooKeeperProxy, fault: Fault, caplog: pytest.LogCaptureFixture
    ) -> None:
        store = connect(port=proxy.port)
        lease = started(store)
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        proxy.fail_next(fault, f"/flows/{FLOW}/checkpoint")
        with caplog.at_level(logging.WARNING):
            commit(store, lease, plan)
        assert proxy.armed == 0
        assert "ConnectionLoss" in caplog.text
        assert store.load(FLOW) == outcome(plan, lease.epoch)
        assert store.pending_plan(FLOW) is None
        assert [(e.number, e.batch) for e in store.history(FLOW, 10)] == [(2, 1), (1, 0)]
        assert lease.held()

    def test_an_applied_commit_is_not_sent_again(self, connect: Connect, proxy: ZooKeeperProxy, raw: Any) -> None:
        store = connect(port=proxy.port)
        lease = started(store)
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        proxy.fail_next(Fault.AFTER, f"/flows/{FLOW}/checkpoint")
        # A second commit request would meet this fault; it must still be armed at the end.
        proxy.fail_next(Fault.BEFORE, f"/flows/{FLOW}/checkpoint")
        commit(store, lease, plan)
        assert proxy.armed == 1
        assert raw.get(f"{connect.root}/flows/{FLOW}/checkpoint")[1].version == 1

    @FAULTS
    def test_commit_of_a_chunk(self, connect: Connect, proxy: ZooKeeperProxy, fault: Fault, raw: Any) -> None:
        store = connect(port=proxy.port)
        lease = started(store)
        proxy.fail_next(fault, f"/flows/{FLOW}/snapshot")
        assert store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run") == FIRST
        chunks = chunk_further(FIRST)
        plan = plan_with(store, chunks)
        store.write_plan(lease, plan)
        proxy.fail_next(fault, f"/flows/{FLOW}/snapshot")
        commit(store, lease, plan)
        assert proxy.armed == 0
        assert (store.load(FLOW), store.snapshot(FLOW)) == (outcome(plan, lease.epoch), chunks.snapshot)
        assert [(e.number, e.action) for e in store.history(FLOW, 10)] == [(3, "commit"), (2, "snapshot"), (1, "start")]
        assert raw.get(f"{connect.root}/flows/{FLOW}/snapshot")[1].version == 1
        proxy.fail_next(fault, f"/flows/{FLOW}/snapshot")
        assert store.pause_snapshot(FLOW, "ada", "a sale") == store.snapshot(FLOW)
        assert (proxy.armed, store.history(FLOW, 1)[0].number) == (0, 4)

    @FAULTS
    def test_tables_added(self, connect: Connect, proxy: ZooKeeperProxy, fault: Fault, raw: Any) -> None:
        store = connect(port=proxy.port)
        lease = started(store)
        for scope, added in ((SHOP, None), (MORE, ADDED)):
            proxy.fail_next(fault, f"/flows/{FLOW}/capture_scope")
            assert store.follow_scope(FLOW, lease, scope, added, "run-1", "added to the flow") == added
            assert (proxy.armed, store.capture_scope(FLOW), store.snapshot(FLOW)) == (0, scope, added)
        assert [(e.number, e.action) for e in store.history(FLOW, 10)] == [(2, "snapshot"), (1, "start")]
        assert raw.get(f"{connect.root}/flows/{FLOW}/capture_scope")[1].version == 1

    def test_a_commit_without_chunks_asks_nothing_of_the_snapshot(
        self, connect: Connect, proxy: ZooKeeperProxy
    ) -> None:
        store = connect(port=proxy.port)
        lease = started(store)
        store.begin_snapshot(FLOW, lease, FIRST, "run-1", "first run")
        proxy.fail_next(Fault.BEFORE, f"/flows/{FLOW}/snapshot")
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        commit(store, lease, plan)
        assert (proxy.armed, store.load(FLOW).batch) == (1, 1)

    @FAULTS
    def test_plan(self, connect: Connect, proxy: ZooKeeperProxy, fault: Fault, raw: Any) -> None:
        store = connect(port=proxy.port)
        lease = started(store)
        proxy.fail_next(fault, f"/flows/{FLOW}/plan")
        store.write_plan(lease, plan_of(1, 0, 10))
        assert proxy.armed == 0
        assert store.pending_plan(FLOW) == plan_of(1, 0, 10)
        assert raw.get(f"{connect.root}/flows/{FLOW}/plan")[1].version == 0

    @FAULTS
    def test_start(self, connect: Connect, proxy: ZooKeeperProxy, fault: Fault) -> None:
        store = connect(port=proxy.port)
        lease = store.claim(FLOW, "run-1", wait_s=0)
        proxy.fail_next(fault, f"/flows/{FLOW}/checkpoint")
        checkpoint = store.start(FLOW, lease, SequenceOffset(3), "run-1")
        assert proxy.armed == 0
        assert (checkpoint.batch, checkpoint.offset) == (0, SequenceOffset(3))
        assert store.load(FLOW) == checkpoint
        assert [e.number for e in store.history(FLOW, 10)] == [1]

    @FAULTS
    def test_claim_raises_the_epoch_once(self, connect: Connect, proxy: ZooKeeperProxy, fault: Fault) -> None:
        store = connect(port=proxy.port)
        store.claim(FLOW, "run-0", wait_s=0).release()
        proxy.fail_next(fault, f"/flows/{FLOW}/lease")
        lease = store.claim(FLOW, "run-1", wait_s=0)
        assert proxy.armed == 0
        assert (lease.epoch, store.epoch(FLOW), lease.held()) == (2, 2, True)
        store.start(FLOW, lease, SequenceOffset(0), "run-1")

    @FAULTS
    def test_first_claim_of_a_flow(self, connect: Connect, proxy: ZooKeeperProxy, fault: Fault) -> None:
        store = connect(port=proxy.port)
        proxy.fail_next(fault, f"/flows/{FLOW}/epoch")
        lease = store.claim(FLOW, "run-1", wait_s=0)
        assert (proxy.armed, lease.epoch) == (0, 1)

    @FAULTS
    def test_release(self, connect: Connect, proxy: ZooKeeperProxy, fault: Fault) -> None:
        store = connect(port=proxy.port)
        lease = started(store)
        proxy.fail_next(fault, f"/flows/{FLOW}/lease")
        lease.release()
        assert proxy.armed == 0
        assert connect().claim(FLOW, "run-2", wait_s=0).epoch == 2

    @FAULTS
    def test_server_id(self, connect: Connect, proxy: ZooKeeperProxy, fault: Fault, raw: Any) -> None:
        store = connect(port=proxy.port)
        proxy.fail_next(fault, "/servers/db:3306/ids/")
        server_id = store.server_ids().lease("db:3306")
        assert proxy.armed == 0
        assert raw.get_children(f"{connect.root}/servers/db:3306/ids") == [str(server_id)]

    def test_commit_cut_off_for_long_says_so_and_may_be_repeated(self, connect: Connect, proxy: ZooKeeperProxy) -> None:
        store = connect(port=proxy.port, operation_timeout_s=1.5, session_timeout_s=30)
        lease = started(store)
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        proxy.fail_next(Fault.AFTER, f"/flows/{FLOW}/checkpoint", stay_down=True)
        with pytest.raises(CheckpointUnavailableError) as caught:
            commit(store, lease, plan)
        assert caught.value.retryable
        proxy.come_back()
        assert store.load(FLOW) == outcome(plan, lease.epoch)
        commit(store, lease, plan)
        assert [e.number for e in store.history(FLOW, 10)] == [2, 1]

    @FAULTS
    def test_a_successor_took_over_while_the_answer_was_lost(
        self, connect: Connect, proxy: ZooKeeperProxy, fault: Fault
    ) -> None:
        """The holder's session ends while it is cut off; it learns the truth, and never writes over the successor."""
        store = connect(port=proxy.port, session_timeout_s=1.5)
        lease = started(store)
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        proxy.fail_next(fault, f"/flows/{FLOW}/checkpoint", stay_down=True)
        thread, results = in_thread(lambda: commit(store, lease, plan))
        wait_until(lambda: proxy.armed == 0)
        other = connect()
        successor = other.claim(FLOW, "run-2", wait_s=DEADLINE_S)
        pending = other.pending_plan(FLOW)
        if fault is Fault.BEFORE:
            assert pending == plan
            commit(other, successor, plan)
        else:
            assert pending is None
        after = Stored.of(other)
        proxy.come_back()
        thread.join(DEADLINE_S)
        if fault is Fault.BEFORE:
            assert isinstance(results[0], StaleEpochError)
        else:
            assert results == [None]  # it was applied, under our own epoch
        assert Stored.of(other) == after
        assert not lease.held()
        assert successor.held()
        with pytest.raises(StaleEpochError):
            store.write_plan(lease, plan_of(2, 10, 20))

    def test_a_session_that_ended_may_still_finish_its_batch_when_nobody_claimed(
        self, connect: Connect, proxy: ZooKeeperProxy, raw: Any
    ) -> None:
        store = connect(port=proxy.port, session_timeout_s=1.5)
        lease = started(store)
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        proxy.fail_next(Fault.BEFORE, f"/flows/{FLOW}/checkpoint", stay_down=True)
        thread, results = in_thread(lambda: commit(store, lease, plan))
        wait_until(lambda: raw.exists(f"{connect.root}/flows/{FLOW}/lease") is None)
        proxy.come_back()
        thread.join(DEADLINE_S)
        assert results == [None]
        assert store.load(FLOW) == outcome(plan, lease.epoch)
        assert not lease.held()
