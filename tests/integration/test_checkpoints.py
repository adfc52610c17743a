"""The checkpoint store on a real ZooKeeper: the contract, and what only a server can do to it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError
from pydantic import SecretStr

from databus.checkpoints.session import start_client
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.connections import Connection
from databus.core.errors import (
    CheckpointConflictError,
    CheckpointError,
    CheckpointFormatError,
    CheckpointUnavailableError,
    LeaseBusyError,
    StaleEpochError,
)
from databus.core.findings import Level
from databus.core.gaps import Gap
from databus.core.offsets import SequenceOffset
from databus.core.protocols import Lease
from databus.sandbox import Sandbox
from databus.testing.zookeeper_proxy import Fault, ZooKeeperProxy
from tests.contract.checkpoint_store import (
    COUNTS,
    DEADLINE_S,
    FLOW,
    NOON,
    CheckpointStoreContract,
    OpenStore,
    Stored,
    commit,
    outcome,
    plan_of,
    wait_until,
)
from tests.contract.split_store import SplitStoreContract

pytestmark = pytest.mark.integration

HISTORY = CheckpointStoreContract.HISTORY


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A ZooKeeper of this module's own: it is killed and restarted."""
    sandbox = Sandbox(tmp_path_factory.mktemp("zookeeper"), ports_from=29_300)
    sandbox.up(["zookeeper"])
    yield sandbox
    sandbox.destroy()


@pytest.fixture
def address(sandbox: Sandbox) -> tuple[str, int]:
    host, _, port = sandbox.address("zookeeper").rpartition(":")
    return host, int(port)


class Connect:
    """Opens stores below a root of one test's own."""

    def __init__(self, address: tuple[str, int], stack: ExitStack):
        self.root = f"/test-{uuid.uuid4().hex[:8]}"
        self._address = address
        self._stack = stack

    def __call__(
        self, port: int | None = None, login: str = "", password: str = "", **extra: Any
    ) -> ZooKeeperCheckpoints:
        connection = Connection(
            conn_id="zookeeper_test",
            conn_type="zookeeper",
            host=self._address[0],
            port=port or self._address[1],
            login=login,
            password=SecretStr(password),
            extra={"root": self.root, "history": HISTORY, **extra},
        )
        store = ZooKeeperCheckpoints(connection)
        self._stack.callback(store.close)
        return store


@pytest.fixture
def connect(address: tuple[str, int]) -> Iterator[Connect]:
    with ExitStack() as stack:
        yield Connect(address, stack)


@pytest.fixture
def raw(address: tuple[str, int]) -> Iterator[Any]:
    """A client without manners, for looking at nodes and breaking them."""
    client = start_client(Connection(conn_id="raw", conn_type="zookeeper", host=address[0], port=address[1]))
    yield client
    client.stop()
    client.close()


@pytest.fixture
def proxy(address: tuple[str, int]) -> Iterator[ZooKeeperProxy]:
    with ZooKeeperProxy(*address) as proxy:
        yield proxy


def walk(client: Any, path: str) -> Iterator[tuple[str, bytes]]:
    yield path, client.get(path)[0]
    for name in client.get_children(path):
        yield from walk(client, f"{path}/{name}")


def started(store: ZooKeeperCheckpoints) -> Lease:
    lease = store.claim(FLOW, "run-1", wait_s=0)
    store.start(FLOW, lease, SequenceOffset(0), "run-1")
    return lease


def in_thread(act: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run something beside the test; what it returns or raises ends up in the list."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(act())
        except Exception as error:  # noqa: BLE001 - handed to the test
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


class TestContract(SplitStoreContract, CheckpointStoreContract):
    @pytest.fixture
    def open_store(self, connect: Connect) -> OpenStore:
        return connect


class TestLayout:
    def test_nodes_are_those_of_the_design(self, connect: Connect, raw: Any) -> None:
        store = connect()
        lease = started(store)
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        server_id = store.server_ids().lease("db:3306")
        flow = f"{connect.root}/flows/{FLOW}"

        def at(path: str) -> tuple[dict[str, Any], int]:
            data, stat = raw.get(path)
            return json.loads(data), stat.ephemeralOwner

        epoch, owner = at(f"{flow}/epoch")
        assert (epoch, owner) == ({"v": 1, "epoch": 1}, 0)
        held, owner = at(f"{flow}/lease")
        assert (held["v"], held["who"], held["epoch"]) == (1, "run-1", 1)
        assert owner != 0
        assert at(f"{flow}/plan") == (plan.to_json(), 0)
        assert at(f"{flow}/checkpoint")[0]["v"] == 1
        assert raw.get_children(f"{flow}/history") == ["0000000001"]
        leased, owner = at(f"{connect.root}/servers/db:3306/ids/{server_id}")
        assert (leased["v"], owner != 0) == (1, True)
        commit(store, lease, plan)
        assert raw.exists(f"{flow}/plan") is None
        assert sorted(raw.get_children(f"{flow}/history")) == ["0000000001", "0000000002"]

    def test_history_survives_a_missing_entry_and_another_length(self, connect: Connect, raw: Any) -> None:
        store = connect()
        lease = started(store)

        def move(store: ZooKeeperCheckpoints, lease: Lease, batches: range) -> None:
            for batch in batches:
                plan = plan_of(batch, batch - 1, batch)
                store.write_plan(lease, plan)
                commit(store, lease, plan)
                store.recorded(FLOW, batch + 1)

        move(store, lease, range(1, 6))
        # The entry that the next commit would trim is gone already.
        raw.delete(f"{connect.root}/flows/{FLOW}/history/0000000002")
        move(store, lease, range(6, 7))
        assert [e.number for e in store.history(FLOW, 10)] == [7, 6, 5, 4, 3]
        lease.release()
        shorter = connect(history=2)
        lease = shorter.claim(FLOW, "run-2", wait_s=0)
        move(shorter, lease, range(7, 8))
        assert [e.number for e in store.history(FLOW, 10)] == [8, 7]
        lease.release()
        longer = connect(history=4)
        lease = longer.claim(FLOW, "run-3", wait_s=0)
        move(longer, lease, range(8, 12))
        assert [e.number for e in store.history(FLOW, 10)] == [12, 11, 10, 9]

    @pytest.mark.parametrize(
        ("stored", "problem"),
        [
            (b"\xff not json", "not JSON"),
            (b"[1]", "object"),
            (b'{"v": 2}', "format version 2"),
            (b'{"v": 1, "offset": {"kind": "sequence", "sequence": 1}}', "lacks or garbles"),
        ],
    )
    def test_foreign_content_is_named_not_guessed(
        self, connect: Connect, raw: Any, stored: bytes, problem: str
    ) -> None:
        store = connect()
        lease = started(store)
        raw.set(f"{connect.root}/flows/{FLOW}/checkpoint", stored)
        with pytest.raises(CheckpointFormatError, match=problem) as caught:
            store.load(FLOW)
        assert caught.value.code == "checkpoint_format"
        with pytest.raises(CheckpointFormatError):
            store.write_plan(lease, plan_of(1, 0, 10))
        assert raw.get(f"{connect.root}/flows/{FLOW}/checkpoint")[0] == stored

    def test_gaps_are_read_in_their_order(self, connect: Connect, raw: Any) -> None:
        store = connect()
        started(store)
        gaps = [Gap(n, SequenceOffset(n), SequenceOffset(n + 5), "purged", "skipped", "ada", "", NOON) for n in (2, 10)]
        for gap in reversed(gaps):
            path = f"{connect.root}/flows/{FLOW}/gaps/{gap.number:010d}"
            raw.create(path, json.dumps(gap.to_json()).encode(), makepath=True)
        assert list(store.gaps(FLOW)) == gaps
        raw.set(f"{connect.root}/flows/{FLOW}/gaps/0000000010", b"{}")
        with pytest.raises(CheckpointFormatError, match=f"gaps of flow {FLOW}"):
            store.gaps(FLOW)

    def test_a_node_changed_by_another_program_stops_the_commit(self, connect: Connect, raw: Any) -> None:
        store = connect()
        lease = started(store)
        plan = plan_of(1, 0, 10)
        store.write_plan(lease, plan)
        raw.create(f"{connect.root}/flows/{FLOW}/history/0000000002", b"{}")
        with pytest.raises(CheckpointConflictError, match="0000000002"):
            commit(store, lease, plan)
        assert store.load(FLOW).batch == 0
        assert store.pending_plan(FLOW) == plan


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


class TestAccess:
    def test_nobody_listens(self, connect: Connect) -> None:
        store = connect(port=1, connect_timeout_s=0.5)
        with pytest.raises(CheckpointUnavailableError, match=r"127\.0\.0\.1:1: Connection refused") as caught:
            store.load(FLOW)
        assert (caught.value.code, caught.value.retryable) == ("checkpoint_unavailable", True)
        assert "127.0.0.1:1" in caught.value.hint
        (finding,) = store.preflight()
        assert (finding.level, finding.code) == (Level.ERROR, "checkpoint_unavailable")

    def test_open_fails_at_once(self, address: tuple[str, int]) -> None:
        extra = {"connect_timeout_s": 0.5}
        nobody = Connection(conn_id="z", conn_type="zookeeper", host=address[0], port=1, extra=extra)
        with pytest.raises(CheckpointUnavailableError):
            ZooKeeperCheckpoints.open(nobody)

    def test_one_dead_host_of_two_does_not_matter(self, connect: Connect, address: tuple[str, int]) -> None:
        store = connect(hosts=f"127.0.0.1:1,{address[0]}:{address[1]}")
        assert store.claim(FLOW, "run-1", wait_s=0).epoch == 1

    def test_what_a_login_makes_is_its_own(self, connect: Connect, raw: Any, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="databus.checkpoints.kazoo"):
            owner = connect(login="databus", password="s3cret-word")
            lease = started(owner)
            owner.write_plan(lease, plan_of(1, 0, 10))
            commit(owner, lease, plan_of(1, 0, 10))
        assert "Sending request" in caplog.text
        assert "s3cret-word" not in caplog.text
        for intruder in (connect(), connect(login="databus", password="guess")):
            for act in (
                lambda s: s.load(FLOW),
                lambda s: s.claim(FLOW, "run-2", wait_s=0),
                lambda s: s.write_plan(lease, plan_of(2, 10, 20)),
                lambda s: s.server_ids().lease("db:3306"),
            ):
                with pytest.raises(CheckpointError) as caught:
                    act(intruder)
                assert caught.value.code == "checkpoint_access_denied"
                assert not caught.value.retryable
                assert "s3cret" not in str(caught.value)
                assert caught.value.hint
            assert intruder.preflight()[0].code == "checkpoint_access_denied"
        with pytest.raises(NoAuthError):
            raw.get_children(connect.root)
        raw.add_auth("digest", "databus:s3cret-word")
        nodes = list(walk(raw, connect.root))
        assert len(nodes) > 8
        assert all(b"s3cret" not in data for _, data in nodes)
        assert connect(login="databus", password="s3cret-word").load(FLOW).batch == 1


class TestServerIds:
    def test_twenty_at_once_get_twenty_ids(self, connect: Connect) -> None:
        stores = [connect(first_server_id=7000, last_server_id=7019) for _ in range(5)]
        running = [in_thread(lambda s=stores[i % 5]: s.server_ids().lease("db:3306")) for i in range(20)]
        for thread, _ in running:
            thread.join(DEADLINE_S)
        ids = [results[0] for _, results in running]
        assert sorted(ids) == list(range(7000, 7020))
        with pytest.raises(LeaseBusyError, match="db:3306"):
            stores[0].server_ids().lease("db:3306")
        assert stores[0].server_ids().lease("other:3306") in ids

    def test_released_or_ended_ids_are_free_again(self, connect: Connect) -> None:
        only = {"first_server_id": 7000, "last_server_id": 7000}
        first, second = connect(**only), connect(**only)
        assert first.server_ids().lease("db:3306") == 7000
        second.server_ids().release("db:3306", 7000)  # not its own: stays
        with pytest.raises(LeaseBusyError):
            second.server_ids().lease("db:3306")
        first.server_ids().release("db:3306", 7000)
        first.server_ids().release("db:3306", 7000)
        assert second.server_ids().lease("db:3306") == 7000
        second.close()
        assert first.server_ids().lease("db:3306") == 7000

    def test_default_range(self, connect: Connect) -> None:
        assert 5_400_000 <= connect().server_ids().lease("db:3306") <= 5_499_999


def test_counts_and_receipts_come_back_from_history(connect: Connect) -> None:
    store = connect()
    lease = started(store)
    plan = plan_of(1, 0, 10)
    store.write_plan(lease, plan)
    receipts = [{"sink": "kafka", "slot": n, "outputs": {"cdc.orders[0]": {"first": 1, "last": 7}}} for n in range(2)]
    store.commit(lease, plan, outcome(plan, lease.epoch), receipts, COUNTS)
    newest = store.history(FLOW, 1)[0]
    assert (list(newest.receipts), newest.counts) == (receipts, COUNTS)
