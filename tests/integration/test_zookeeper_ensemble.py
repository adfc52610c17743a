"""The checkpoint store on an ensemble of three: members and the leader die, pause and come back under a holder."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.connections import Connection
from databus.core.errors import CheckpointUnavailableError, LeaseBusyError, StaleEpochError
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.checkpoint_store import Lease
from databus.sandbox import Sandbox
from databus.sandbox.servers.protocol import NotHealthyError
from databus.sandbox.servers.zookeeper import four_letter_word, member_mode
from tests.contract.checkpoint_store import FLOW, commit, outcome, plan_of, wait_until
from tests.ports import ports_from

pytestmark = pytest.mark.integration

NAME = "zookeeper-3"
MEMBERS = (1, 2, 3)


class Ensemble:
    """Three members, and who leads."""

    def __init__(self, sandbox: Sandbox):
        self.sandbox = sandbox
        self.addresses = sandbox.address(NAME).split(",")

    def modes(self) -> dict[int, str]:
        found = {}
        for member, address in zip(MEMBERS, self.addresses, strict=True):
            host, _, port = address.rpartition(":")
            with contextlib.suppress(NotHealthyError):
                found[member] = member_mode(host, int(port))
        return found

    def leader(self) -> int:
        leading: list[int] = []

        def led() -> bool:
            leading[:] = [member for member, mode in self.modes().items() if mode == "leader"]
            return len(leading) == 1

        wait_until(led)
        return leading[0]

    def reign(self) -> int:
        """Number of the election that the present leader came from: the upper half of its last transaction's id."""
        host, _, port = self.addresses[self.leader() - 1].rpartition(":")
        with contextlib.suppress(NotHealthyError):  # it has just ceased to lead
            found = re.search(r"Zxid: 0x([0-9a-f]+)", four_letter_word(host, int(port), "srvr"))
            return int(found[1], 16) >> 32 if found else 0
        return 0

    def follower(self) -> int:
        return next(member for member, mode in self.modes().items() if mode == "follower")

    def all_up(self) -> None:
        for member in MEMBERS:
            self.sandbox.resume(NAME, f"server-{member}")
        if sorted(self.modes().values()) != ["follower", "follower", "leader"]:
            self.sandbox.restart(NAME)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("ensemble"), ports_from=ports_from(30_000))
    sandbox.up([NAME])
    yield sandbox
    sandbox.destroy()


@pytest.fixture
def ensemble(sandbox: Sandbox) -> Iterator[Ensemble]:
    found = Ensemble(sandbox)
    yield found
    found.all_up()


@pytest.fixture
def connect(ensemble: Ensemble) -> Iterator[Any]:
    root = f"/test-{uuid.uuid4().hex[:8]}"
    with contextlib.ExitStack() as stack:

        def open_store(hosts: str | None = None, **extra: Any) -> ZooKeeperCheckpoints:
            options = {"hosts": hosts or ",".join(ensemble.addresses), "root": root, **extra}
            return stack.enter_context(
                ZooKeeperCheckpoints(Connection(conn_id="three", conn_type="zookeeper", extra=options))
            )

        yield open_store


def move(store: ZooKeeperCheckpoints, lease: Lease, batch: int) -> None:
    plan = plan_of(batch, batch - 1, batch)
    store.write_plan(lease, plan)
    commit(store, lease, plan)


def started(store: ZooKeeperCheckpoints) -> Lease:
    lease = store.claim(FLOW, "run-1", wait_s=0)
    store.start(FLOW, lease, SequenceOffset(0), "run-1")
    return lease


@pytest.mark.parametrize(("who", "how"), [("leader", "kill"), ("leader", "pause"), ("follower", "kill")])
def test_one_member_less_changes_nothing(ensemble: Ensemble, connect: Any, who: str, how: str) -> None:
    """Batches go on in order under the same epoch and lease; another run still finds the lease taken."""
    # A client notices a silent server after two thirds of the session's timeout.
    store = connect(session_timeout_s=6, operation_timeout_s=30)
    lease = started(store)
    move(store, lease, 1)
    member = ensemble.leader() if who == "leader" else ensemble.follower()
    getattr(ensemble.sandbox, how)(NAME, f"server-{member}")
    for batch in (2, 3, 4):
        move(store, lease, batch)
    assert (store.load(FLOW), lease.held()) == (outcome(plan_of(4, 3, 4), lease.epoch), True)
    assert [entry.batch for entry in store.history(FLOW, 10)] == [4, 3, 2, 1, 0]
    with pytest.raises(LeaseBusyError):
        connect(operation_timeout_s=30).claim(FLOW, "run-2", wait_s=0)
    if how == "kill":
        ensemble.sandbox.restart(NAME, f"server-{member}")
    else:
        ensemble.sandbox.resume(NAME, f"server-{member}")
    host_of_it = ensemble.addresses[member - 1]
    wait_until(lambda: member in ensemble.modes())
    # The one that was away has caught up: what it is asked alone is the truth.
    assert connect(hosts=host_of_it, operation_timeout_s=30).load(FLOW).batch == 4


def test_the_leader_is_restarted_in_order(ensemble: Ensemble, connect: Any) -> None:
    store = connect(session_timeout_s=20, operation_timeout_s=30)
    lease = started(store)
    reign = ensemble.reign()
    ensemble.sandbox.restart(NAME, f"server-{ensemble.leader()}")
    # The former one may be elected again, if the others were slow to agree.
    wait_until(lambda: ensemble.reign() > reign)  # 0 while none leads
    move(store, lease, 1)
    assert lease.held()
    assert [entry.batch for entry in store.history(FLOW, 10)] == [1, 0]


def test_without_a_majority_nothing_is_confirmed_and_then_it_goes_on(ensemble: Ensemble, connect: Any) -> None:
    """A leader that has just lost its majority may log a write, and the next majority then takes it from its log."""
    store = connect(session_timeout_s=60, operation_timeout_s=2)
    lease = started(store)
    move(store, lease, 1)
    plan = plan_of(2, 1, 2)
    store.write_plan(lease, plan)
    for member in (1, 2):
        ensemble.sandbox.kill(NAME, f"server-{member}")
    with pytest.raises(CheckpointUnavailableError) as caught:
        commit(store, lease, plan)
    assert caught.value.retryable
    ensemble.sandbox.restart(NAME, "server-1")
    assert (store.load(FLOW).batch, store.pending_plan(FLOW)) in [(1, plan), (2, None)]  # all of it or nothing
    commit(store, lease, plan)
    assert store.load(FLOW) == outcome(plan, lease.epoch)
    assert [entry.batch for entry in store.history(FLOW, 10)].count(2) == 1


def test_a_holder_alone_on_the_minority_side_is_overtaken_and_stays_out(ensemble: Ensemble, connect: Any) -> None:
    """Its member is paused: the other two elect, the session ends there, and a successor claims."""
    member = ensemble.leader()
    store = connect(hosts=ensemble.addresses[member - 1], session_timeout_s=2, operation_timeout_s=30)
    lease = started(store)
    plan = plan_of(1, 0, 1)
    store.write_plan(lease, plan)
    ensemble.sandbox.pause(NAME, f"server-{member}")
    others = ",".join(a for n, a in enumerate(ensemble.addresses, 1) if n != member)
    other = connect(hosts=others, operation_timeout_s=30)
    successor = other.claim(FLOW, "run-2", wait_s=30)
    assert other.pending_plan(FLOW) == plan
    commit(other, successor, plan)
    wait_until(lambda: not lease.held())
    ensemble.sandbox.resume(NAME, f"server-{member}")
    # What the holder knows of. For a moment its member still leads in its own eyes, and shows what was before.
    with pytest.raises(StaleEpochError):
        commit(store, lease, plan)
    with pytest.raises(StaleEpochError):
        store.write_plan(lease, plan_of(2, 1, 2))
    assert not lease.held()
    assert other.load(FLOW) == outcome(plan, successor.epoch)
