"""What a holder knows from its own last write is not read again, and nothing that others write is missed for it."""

from __future__ import annotations

from typing import Any

import pytest

from databus.checkpoints.connection.session import ZooKeeperSession
from databus.core.errors import CheckpointConflictError, StaleEpochError
from databus.testing.zookeeper_proxy import Fault, ZooKeeperProxy
from tests.contract.checkpoint_store import FLOW, commit, moved, outcome, plan_of, wait_until
from tests.integration.checkpoints.stores import Connect, in_thread, started

pytestmark = pytest.mark.integration


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that went to ZooKeeper, "read" for each that waits for an answer, "write" for each multi."""
    found: list[str] = []
    retrying, write = ZooKeeperSession._retrying, ZooKeeperSession.write

    def reads(session: ZooKeeperSession, issue: Any) -> Any:
        found.append("read")
        return retrying(session, issue)

    def writes(session: ZooKeeperSession, *args: Any) -> Any:
        found.append("write")
        return write(session, *args)

    monkeypatch.setattr(ZooKeeperSession, "_retrying", reads)
    monkeypatch.setattr(ZooKeeperSession, "write", writes)
    return found


def test_a_batch_of_a_holder_is_two_writes(connect: Connect, asked: list[str]) -> None:
    store = connect()
    lease = started(store)
    moved(store, lease, 1)
    assert (lease.successor_waiting(), store.paused(FLOW)) == (False, None)
    asked.clear()
    for number in (2, 3):
        plan = plan_of(number, number - 1, number)
        store.write_plan(lease, plan)
        commit(store, lease, plan)
        assert (lease.successor_waiting(), store.paused(FLOW)) == (False, None)
    assert asked == ["write"] * 4
    assert connect().load(FLOW) == outcome(plan, lease.epoch)
    assert [entry.number for entry in store.history(FLOW, 9)] == [4, 3, 2, 1]


@pytest.mark.parametrize("rivals", [9, 1_000])
def test_a_commit_outlasts_pauses_and_resumes_and_gives_up_one_without_end(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, *, rivals: int
) -> None:
    store, other = connect(), connect()
    lease = started(store)
    plan = plan_of(1, 0, 1)
    store.write_plan(lease, plan)
    send, left = store._send, [rivals]

    def beaten(*args: Any) -> Any:
        if left[0]:
            left[0] -= 1
            (other.resume if other.paused(FLOW) else other.pause)(FLOW, "ada", "again")
        return send(*args)

    monkeypatch.setattr(store, "_send", beaten)
    if rivals < 50:
        commit(store, lease, plan)
        assert connect().load(FLOW) == outcome(plan, lease.epoch)
    else:
        with pytest.raises(CheckpointConflictError, match=r"refused 5[01] times.*; something else wrote") as gave_up:
            commit(store, lease, plan)
        assert "pauses and resumes" in str(gave_up.value.hint)
        assert connect().pending_plan(FLOW) == plan


def test_pauses_and_resumes_outlast_commits(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A live flow commits between the reads and the write of a pause, each time."""
    store, other = connect(), connect()
    lease = started(store)
    send, batches = other._send, iter(range(1, 100))
    rivals = [12, 12]

    def beaten(*args: Any) -> Any:
        if rivals[-1]:
            rivals[-1] -= 1
            moved(store, lease, next(batches))
        return send(*args)

    monkeypatch.setattr(other, "_send", beaten)
    assert other.pause(FLOW, "ada", "maintenance").who == "ada"
    rivals.pop()
    other.resume(FLOW, "ada", "done")
    assert rivals == [0]
    assert store.paused(FLOW) is None


@pytest.mark.parametrize("planned", [False, True])
def test_a_pause_between_two_writes_is_kept_and_seen(connect: Connect, *, planned: bool) -> None:
    store, other = connect(), connect()
    lease = started(store)
    moved(store, lease, 1)
    assert store.paused(FLOW) is None
    plan = plan_of(2, 1, 2)
    if planned:
        store.write_plan(lease, plan)
    other.pause(FLOW, "ada", "maintenance")
    wait_until(lambda: store.paused(FLOW) is not None)
    if not planned:
        store.write_plan(lease, plan)
    commit(store, lease, plan)
    assert store.load(FLOW) == outcome(plan, lease.epoch)
    assert [entry.action for entry in store.history(FLOW, 9)] == ["commit", "pause", "commit", "start"]
    other.resume(FLOW, "ada", "done")
    assert store.paused(FLOW) is None


@pytest.mark.parametrize("planned", [False, True])
def test_a_claim_between_two_writes_stops_the_holder(connect: Connect, raw: Any, *, planned: bool) -> None:
    store, other = connect(), connect()
    lease = started(store)
    moved(store, lease, 1)
    plan = plan_of(2, 1, 2)
    if planned:
        store.write_plan(lease, plan)
    raw.delete(f"{connect.root}/flows/{FLOW}/lease")
    later = other.claim(FLOW, "run-2", 0)
    if not planned:
        with pytest.raises(StaleEpochError):
            store.write_plan(lease, plan)
        other.write_plan(later, plan)
    with pytest.raises(StaleEpochError):
        commit(store, lease, plan)
    commit(other, later, plan)
    assert store.load(FLOW) == outcome(plan, later.epoch)


def test_a_store_that_claims_again_goes_by_what_another_left(connect: Connect) -> None:
    store, other = connect(), connect()
    lease = started(store)
    moved(store, lease, 1)
    lease.release()
    between = other.claim(FLOW, "run-2", 0)
    moved(other, between, 2)
    between.release()
    again = store.claim(FLOW, "run-3", 0)
    moved(store, again, 3)
    assert store.load(FLOW) == outcome(plan_of(3, 2, 3), again.epoch)


def test_what_comes_while_the_connection_is_away_is_seen(connect: Connect, proxy: ZooKeeperProxy) -> None:
    store, other = connect(port=proxy.port), connect()
    lease = started(store)
    assert (lease.successor_waiting(), store.paused(FLOW)) == (False, None)
    proxy.fail_next(Fault.BEFORE, f"/flows/{FLOW}/plan")
    store.write_plan(lease, plan_of(1, 0, 1))
    other.pause(FLOW, "ada", "maintenance")
    waiter, results = in_thread(lambda: other.claim(FLOW, "run-2", 60).epoch)
    wait_until(lambda: store.paused(FLOW) is not None)
    wait_until(lease.successor_waiting)
    lease.release()
    waiter.join()
    assert results == [lease.epoch + 1]
