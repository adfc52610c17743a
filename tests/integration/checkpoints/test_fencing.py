"""A write that is on its way while another run claims the flow is refused by ZooKeeper."""

from __future__ import annotations

from typing import Any

import pytest

from databus.core.errors import (
    StaleEpochError,
)
from databus.core.positions.offsets import SequenceOffset
from databus.testing.zookeeper_proxy import Fault, ZooKeeperProxy
from tests.contract.checkpoint_store import (
    DEADLINE_S,
    FLOW,
    Stored,
    commit,
    plan_of,
)
from tests.integration.checkpoints.stores import Connect, in_thread, started

pytestmark = pytest.mark.integration


class TestFencing:
    """A holder is overtaken after it looked at the epoch, before its write arrives: only the multi itself can tell."""

    @pytest.mark.parametrize("write", ["plan", "commit"])
    def test_a_write_on_its_way_while_another_claims(
        self, connect: Connect, proxy: ZooKeeperProxy, raw: Any, write: str
    ) -> None:
        store = connect(port=proxy.port, session_timeout_s=30)
        lease = started(store)
        plan = plan_of(1, 0, 10)
        if write == "commit":
            store.write_plan(lease, plan)
        proxy.fail_next(Fault.HOLD, f"/flows/{FLOW}/plan")
        thread, results = in_thread(
            lambda: commit(store, lease, plan) if write == "commit" else store.write_plan(lease, plan)
        )
        assert proxy.held.wait(DEADLINE_S)
        raw.delete(f"{connect.root}/flows/{FLOW}/lease")  # as the end of the holder's session does
        other = connect()
        other.claim(FLOW, "run-2", wait_s=0)
        before = Stored.of(other)
        proxy.let_go()
        thread.join(DEADLINE_S)
        assert isinstance(results[0], StaleEpochError)
        assert Stored.of(other) == before

    def test_a_start_on_its_way_while_another_claims(self, connect: Connect, proxy: ZooKeeperProxy, raw: Any) -> None:
        store = connect(port=proxy.port, session_timeout_s=30)
        lease = store.claim(FLOW, "run-1", wait_s=0)
        proxy.fail_next(Fault.HOLD, f"/flows/{FLOW}/checkpoint")
        thread, results = in_thread(lambda: store.start(FLOW, lease, SequenceOffset(0), "run-1"))
        assert proxy.held.wait(DEADLINE_S)
        raw.delete(f"{connect.root}/flows/{FLOW}/lease")
        other = connect()
        other.claim(FLOW, "run-2", wait_s=0)
        proxy.let_go()
        thread.join(DEADLINE_S)
        assert isinstance(results[0], StaleEpochError)
        assert other.load(FLOW) is None

    def test_a_release_on_its_way_does_not_take_the_successors_lease(
        self, connect: Connect, proxy: ZooKeeperProxy, raw: Any
    ) -> None:
        store = connect(port=proxy.port, session_timeout_s=30)
        lease = started(store)
        proxy.fail_next(Fault.HOLD, f"/flows/{FLOW}/lease")
        thread, _ = in_thread(lease.release)
        assert proxy.held.wait(DEADLINE_S)
        raw.delete(f"{connect.root}/flows/{FLOW}/lease")
        other = connect()
        other.claim(FLOW, "run-2", wait_s=0)
        proxy.let_go()
        thread.join(DEADLINE_S)
        holder = other.holder(FLOW)
        assert holder is not None
        assert holder.who == "run-2"
