"""Places of moments, as backfills fix them: once, and once more in a log that took the place of theirs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from databus.core.errors import StaleEpochError
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.backfill import PLANNING, Boundary
from databus.testing.zookeeper_proxy import Fault, ZooKeeperProxy
from tests.contract.checkpoint_store import FLOW
from tests.integration.checkpoints.stores import Connect, in_thread

pytestmark = pytest.mark.integration
NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
PLANS = f"{FLOW}.{PLANNING}"


def at(pos: int, generation: int) -> Boundary:
    return Boundary(NOON, BinlogOffset("bin.000001", pos, timeline=generation, generation=generation))


def test_a_boundary_stands_until_its_log_was_replaced(connect: Connect) -> None:
    store = connect()
    lease, kept = store.claim(PLANS, "run-1", wait_s=0), store.backfills()
    assert [kept.fix(FLOW, lease, at(pos, 0)) for pos in (500, 600)] == [at(500, 0)] * 2
    assert [kept.fix(FLOW, lease, at(pos, 1)) for pos in (100, 200)] == [at(100, 1)] * 2
    assert kept.fix(FLOW, lease, at(700, 0)) == at(100, 1)  # of who has not seen the new log yet
    assert kept.fix(FLOW, lease, at(4, 3)) == at(4, 3)
    assert list(kept.boundaries(FLOW, NOON)) == [at(4, 3)]


def test_of_two_that_fix_a_boundary_anew_both_get_one_place(connect: Connect) -> None:
    store = connect()
    lease = store.claim(PLANS, "run-1", wait_s=0)
    store.backfills().fix(FLOW, lease, at(500, 0))
    others = [connect() for _ in range(4)]
    begun = [
        in_thread(lambda n=n, one=one: one.backfills().fix(FLOW, lease, at(n, 1))) for n, one in enumerate(others, 100)
    ]
    found: list[Any] = []
    for thread, results in begun:
        thread.join()
        found += results
    kept = list(store.backfills().boundaries(FLOW, NOON))
    assert [boundary.offset.to_json()["generation"] for boundary in kept] == [1]
    assert found == kept * len(others)


def test_who_lost_the_lease_replaces_nothing(connect: Connect) -> None:
    store, other = connect(), connect()
    lease = store.claim(PLANS, "run-1", wait_s=0)
    store.backfills().fix(FLOW, lease, at(500, 0))
    lease.release()
    other.claim(PLANS, "run-2", wait_s=0)
    with pytest.raises(StaleEpochError):
        store.backfills().fix(FLOW, lease, at(100, 1))
    assert list(store.backfills().boundaries(FLOW, NOON)) == [at(500, 0)]


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_an_answer_that_is_lost_is_looked_for(connect: Connect, proxy: ZooKeeperProxy, fault: Fault) -> None:
    store = connect(port=proxy.port)
    lease = store.claim(PLANS, "run-1", wait_s=0)
    store.backfills().fix(FLOW, lease, at(500, 0))
    proxy.fail_next(fault, f"/flows/{FLOW}/boundaries/")
    assert store.backfills().fix(FLOW, lease, at(100, 1)) == at(100, 1)
    assert proxy.armed == 0
    assert list(store.backfills().boundaries(FLOW, NOON)) == [at(100, 1)]
