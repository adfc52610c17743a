"""Leases end with the session of their holder, and outlive its short cuts."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from databus.core.errors import (
    LeaseBusyError,
    StaleEpochError,
)
from databus.sandbox import Sandbox
from databus.testing.zookeeper_proxy import ZooKeeperProxy
from tests.contract.checkpoint_store import (
    DEADLINE_S,
    FLOW,
    Stored,
    commit,
    outcome,
    plan_of,
    wait_until,
)
from tests.integration.checkpoints.stores import Connect, in_thread, started

pytestmark = pytest.mark.integration


@pytest.fixture
def gone() -> Iterator[str]:
    """An address that answers no connection, as that of a machine without power."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        host, port = full.getsockname()
        with socket.create_connection((host, port)):  # Linux answers none beyond the backlog
            yield f"{host}:{port}"


class TestSessions:
    def test_a_lost_session_is_not_held_and_cannot_write(self, connect: Connect, proxy: ZooKeeperProxy) -> None:
        store = connect(port=proxy.port, session_timeout_s=1.5)
        lease = started(store)
        assert lease.held()
        proxy.go_down()
        other = connect()
        successor = other.claim(FLOW, "run-2", wait_s=DEADLINE_S)
        wait_until(lambda: not lease.held())
        proxy.come_back()
        before = Stored.of(other)
        with pytest.raises(StaleEpochError):
            store.write_plan(lease, plan_of(1, 0, 10))
        assert not lease.held()
        lease.release()
        assert successor.held()
        assert Stored.of(other) == before

    def test_a_short_cut_keeps_the_lease(self, connect: Connect, proxy: ZooKeeperProxy) -> None:
        store = connect(port=proxy.port, session_timeout_s=20)
        lease = started(store)
        proxy.go_down()
        assert lease.held()
        proxy.come_back()
        store.write_plan(lease, plan_of(1, 0, 10))
        assert lease.held()

    def test_a_reconnect_that_is_never_answered_is_tried_again_in_time(
        self, connect: Connect, proxy: ZooKeeperProxy
    ) -> None:
        """A lone server that is asked between binding its port and loading its data neither answers nor hangs up."""
        store = connect(port=proxy.port, session_timeout_s=15)  # each silence costs a third of it
        lease = started(store)
        proxy.leave_unanswered(2)
        proxy.cut()
        store.write_plan(lease, plan_of(1, 0, 10))
        assert not proxy.armed
        assert lease.held()
        assert store.pending_plan(FLOW) == plan_of(1, 0, 10)

    def test_a_machine_that_is_gone_leaves_time_for_those_that_are_there(
        self, connect: Connect, proxy: ZooKeeperProxy, gone: str
    ) -> None:
        hosts = f"{gone},127.0.0.1:{proxy.port},localhost:{proxy.port}"
        store = connect(hosts=hosts, session_timeout_s=9, connect_timeout_s=30)
        lease = started(store)
        for batch in range(1, 5):  # the order of the hosts is drawn anew each time
            proxy.cut()
            plan = plan_of(batch, batch * 10 - 10, batch * 10)
            store.write_plan(lease, plan)
            commit(store, lease, plan)
            assert lease.held()

    def test_a_killed_process_is_waited_for(self, connect: Connect, address: tuple[str, int]) -> None:
        code = (
            "import sys\n"
            "from databus.checkpoints.zookeeper import ZooKeeperCheckpoints\n"
            "from databus.core.connections import Connection\n"
            "extra = {'root': sys.argv[3], 'session_timeout_s': 2}\n"
            "host, port = sys.argv[1], int(sys.argv[2])\n"
            "connection = Connection(conn_id='z', conn_type='zookeeper', host=host, port=port, extra=extra)\n"
            "lease = ZooKeeperCheckpoints(connection).claim('orders', 'victim', 0)\n"
            "sys.stdout.write('held\\n'); sys.stdout.flush(); sys.stdin.read()\n"
        )
        argv = [sys.executable, "-c", code, address[0], str(address[1]), connect.root]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victim:
            assert victim.stdout is not None
            assert victim.stdout.readline() == "held\n"
            store = connect()
            victim.kill()
            victim.wait()
            # Its process is dead, its session is not: the lease still stands.
            with pytest.raises(LeaseBusyError, match=f"victim.*process {victim.pid}"):
                store.claim(FLOW, "run-2", wait_s=0)
            assert store.claim(FLOW, "run-2", wait_s=DEADLINE_S).epoch == 2

    def test_a_waiter_that_gives_up_leaves_the_queue(self, connect: Connect) -> None:
        lease = connect().claim(FLOW, "run-1", wait_s=0)
        other = connect()
        thread, results = in_thread(lambda: other.claim(FLOW, "run-2", wait_s=1.0))
        wait_until(lease.successor_waiting)
        thread.join(DEADLINE_S)
        assert isinstance(results[0], LeaseBusyError)
        assert not lease.successor_waiting()

    def test_a_waiter_whose_session_ended_waits_on(self, connect: Connect, proxy: ZooKeeperProxy) -> None:
        lease = connect().claim(FLOW, "run-1", wait_s=0)
        waiter = connect(port=proxy.port, session_timeout_s=1.5)
        thread, results = in_thread(lambda: waiter.claim(FLOW, "run-2", wait_s=DEADLINE_S))
        wait_until(lease.successor_waiting)
        proxy.go_down()
        wait_until(lambda: not lease.successor_waiting())
        proxy.come_back()
        wait_until(lease.successor_waiting)
        lease.release()
        thread.join(DEADLINE_S)
        assert results[0].epoch == 2

    @pytest.mark.parametrize("how", ["restart", "kill"])
    def test_a_server_restart_loses_nothing(self, connect: Connect, sandbox: Sandbox, how: str) -> None:
        store = connect(session_timeout_s=30, operation_timeout_s=30)
        lease = started(store)
        first = plan_of(1, 0, 10)
        store.write_plan(lease, first)
        commit(store, lease, first)
        second = plan_of(2, 10, 20)
        store.write_plan(lease, second)
        if how == "kill":
            sandbox.kill("zookeeper")
        thread, results = in_thread(lambda: commit(store, lease, second)) if how == "kill" else (None, [None])
        sandbox.restart("zookeeper")
        if thread is not None:
            thread.join(DEADLINE_S)
        else:
            commit(store, lease, second)
        assert results == [None]
        assert store.load(FLOW) == outcome(second, lease.epoch)
        assert [e.batch for e in store.history(FLOW, 10)] == [2, 1, 0]
        assert lease.held()
        with pytest.raises(LeaseBusyError):
            connect().claim(FLOW, "run-2", wait_s=0)
