"""Values above the bound of a multi on a real ZooKeeper: GTID sets with holes, thousands of slots and receipts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from databus.checkpoints.codec import MAX_WRITE_BYTES
from databus.checkpoints.connection.session import start_client
from databus.checkpoints.durable_folder import DurableFolder
from databus.checkpoints.nodes.large_values import LARGE_BYTES, LargeValues, reference
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.errors import CheckpointFormatError
from databus.core.positions.gaps import OPEN, SKIPPED, Gap
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.amendments import Amendment
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.snapshot import PlannedChunks, Snapshot, TableProgress
from databus.testing.zookeeper_proxy import Fault, ZooKeeperProxy
from tests.contract.checkpoint_store import COUNTS, FLOW, NOON
from tests.integration.conftest import World

pytestmark = pytest.mark.integration

HOLES, SLOTS, HISTORY = 20_000, 5_000, 3


def offset(number: int, holes: int = HOLES) -> BinlogOffset:
    """A place whose GTID set misses every other transaction: `holes` holes, some 160 KB."""
    gtids = "3e11fa47-71ca-11e1-9e33-c80aa9429562:" + ":".join(str(n) for n in range(1, 2 * holes + number, 2))
    return BinlogOffset("mysql-bin.000001", 100 + number, gtids, server="3e11fa47-71ca-11e1-9e33-c80aa9429562")


def plan_of(batch: int, holes: int = HOLES, slots: int = SLOTS) -> Plan:
    covered = OffsetRange(offset(batch - 1, holes), offset(batch, holes))
    sinks = {"kafka": SinkPlan(slots, (batch - 1,) * slots, {"cdc.orders": slots})}
    return Plan("default", FLOW, batch, covered, sinks, "spec", NOON)


def receipts_of(batch: int, slots: int = SLOTS) -> list[dict[str, Any]]:
    return [
        {"sink": "kafka", "slot": slot, "batch": batch, "written": 7, "rows": {"shop.orders": 7}, "rejected": 0,
         "outputs": {f"cdc.orders[{slot}]": {"first_offset": slot, "last_offset": slot + 6}}, "duplicate": False}
        for slot in range(slots)
    ]  # fmt: skip


def outcome(plan: Plan, epoch: int) -> Checkpoint:
    slots = {"kafka": (plan.batch,) * plan.sinks["kafka"].slots}
    at = plan.range.end
    return Checkpoint(at, plan.batch, epoch, "run", plan.hash, COUNTS, NOON, NOON, slots)  # type: ignore[arg-type]


class Large:
    """Stores below a root of the test's own, with one folder for what is large."""

    def __init__(self, world: World, folder: Path, stack: ExitStack):
        self.world, self.folder, self.stack = world, folder, stack
        self.root = f"/large-{uuid.uuid4().hex[:8]}"
        self.values = DurableFolder(f"{folder}/_content/default/{FLOW}")

    def store(self, port: int | None = None, *, bounded: bool = False, history: int = HISTORY) -> ZooKeeperCheckpoints:
        address = {"port": port} if port else {}
        extra = {"root": self.root, "history": history}
        conn_id = self.world.override("zookeeper_default", extra=extra, **address)
        connection = self.world.connections.get(conn_id)
        large = None if bounded else LargeValues(str(self.folder), "default")
        return self.stack.enter_context(ZooKeeperCheckpoints(connection, large=large))

    def nodes(self) -> dict[str, bytes]:
        """Every node of the flow itself, as it is stored."""
        client = start_client(self.world.connections.get("zookeeper_default"))
        try:
            home = f"{self.root}/flows/{FLOW}"
            lists = {"history", "gaps"} & set(client.get_children(home))
            names = [n for n in client.get_children(home) if n not in {"waiters", "lease", "sinks", *lists}]
            names += [f"{parent}/{n}" for parent in lists for n in client.get_children(f"{home}/{parent}")]
            return {name: client.get(f"{home}/{name}")[0] for name in names}
        finally:
            client.stop()
            client.close()

    def referred(self) -> set[str]:
        return {name for data in self.nodes().values() if (name := reference(data)) is not None}


@pytest.fixture
def large(world: World, tmp_path: Path) -> Iterator[Large]:
    with ExitStack() as stack:
        yield Large(world, tmp_path / "segments", stack)


def started(store: ZooKeeperCheckpoints, first: BinlogOffset | None = None) -> Lease:
    lease = store.claim(FLOW, "run", 0)
    store.start(FLOW, lease, first or offset(0), "run")
    return lease


def move(store: ZooKeeperCheckpoints, lease: Lease, batch: int) -> None:
    plan = plan_of(batch)
    store.write_plan(lease, plan)
    store.commit(lease, plan, outcome(plan, lease.epoch), receipts_of(batch), COUNTS)


def test_holes_and_slots_by_the_thousand_are_read_back_as_they_were(large: Large) -> None:
    store = large.store()
    lease = started(store)
    plan = plan_of(1)
    store.write_plan(lease, plan)
    assert large.store().pending_plan(FLOW) == plan
    store.commit(lease, plan, outcome(plan, lease.epoch), receipts_of(1), COUNTS)
    other = large.store()
    assert other.load(FLOW) == outcome(plan, lease.epoch)
    assert other.pending_plan(FLOW) is None
    newest, first = other.history(FLOW, 10)
    assert (list(newest.receipts), newest.previous, newest.offset) == (receipts_of(1), offset(0), offset(1))
    assert first.offset == offset(0)
    stored = large.nodes()
    assert sum(map(len, stored.values())) < 2_000
    assert set(large.values.names()) == large.referred()
    sizes = [len(large.values.get(name) or b"") for name in large.values.names()]
    assert max(sizes) > 3 * MAX_WRITE_BYTES
    with pytest.raises(CheckpointFormatError, match="opened without"):
        large.store(bounded=True).load(FLOW)


def test_values_go_with_the_history(large: Large) -> None:
    store = large.store()
    lease = started(store)
    for batch in range(1, 7):
        store.recorded(FLOW, batch)  # all entries so far have ledger pages
        move(store, lease, batch)
        assert set(large.values.names()) == large.referred()
    # The checkpoint and three entries.
    assert len(large.values.names()) == HISTORY + 1
    lease.release()
    fewer = large.store(history=1)
    fewer.claim(FLOW, "run-2", 0)
    fewer.recorded(FLOW, 7)
    assert set(large.values.names()) == large.referred()
    assert len(large.values.names()) == 2


def test_values_of_entries_without_a_page_stay(large: Large) -> None:
    store = large.store(history=1)
    lease = started(store)
    for batch in range(1, 4):
        move(store, lease, batch)
    assert len(store.history(FLOW, 10)) == 4
    assert set(large.values.names()) == large.referred()
    assert len(large.values.names()) == 5


def test_a_sink_behind_has_values_of_its_own(large: Large) -> None:
    """The plan in flight becomes the plan of both; what the flow lets go of is not what the sink holds."""
    store = large.store()
    lease = started(store)
    move(store, lease, 1)
    shared = plan_of(2)
    store.write_plan(lease, shared)
    own = store.detach(FLOW, lease, "kafka", "away")
    own_values = DurableFolder(f"{large.folder}/_content/default/{FLOW}@kafka")
    assert len(own_values.names()) == 3  # checkpoint, plan, entry
    store.commit(lease, shared, outcome(shared, lease.epoch), receipts_of(2), COUNTS)
    assert set(large.values.names()) == large.referred()
    assert large.store().of_sink("kafka").pending_plan(FLOW) == shared
    lease.release()
    store = large.store()
    lease = store.claim(FLOW, "run-2", 0)  # sweeps
    sink = store.of_sink("kafka")
    assert (sink.load(FLOW), sink.pending_plan(FLOW), len(own_values.names())) == (own, shared, 3)
    assert store.highest_batch(FLOW) == 2
    sink.commit(lease, shared, outcome(shared, lease.epoch), receipts_of(2), COUNTS)
    joined = store.join(FLOW, lease, "kafka", "run-2")
    assert large.store().load(FLOW) == joined
    assert [entry.action for entry in large.store().of_sink("kafka").history(FLOW, 9)] == ["join", "commit", "detach"]
    assert len(own_values.names()) == 3  # of the entries
    lease.release()
    large.store().claim(FLOW, "run-3", 0)
    assert len(own_values.names()) == 3
    assert set(large.values.names()) == large.referred()


def test_pauses_and_gaps_keep_their_values(large: Large) -> None:
    store = large.store()
    lease = started(store)
    move(store, lease, 1)
    standing = store.load(FLOW)
    store.pause(FLOW, "ada", "maintenance")
    gap = Gap(0, offset(1), offset(2), "purged", OPEN, "run", "gone", NOON)
    named = store.note_gap(FLOW, lease, gap)
    skip = Amendment("skip", "ada", "gone", offset(2), gap=replace(gap, decision=SKIPPED))
    assert store.load(FLOW) == standing
    lease.release()
    store = large.store()
    lease = store.claim(FLOW, "ada", 0)  # sweeps
    assert store.gaps(FLOW) == (named,)
    amended = store.amend(FLOW, lease, skip)
    store.resume(FLOW, "ada", "done")
    lease.release()
    other = large.store()
    other.claim(FLOW, "run-2", 0)
    assert other.load(FLOW) == amended
    assert [entry.action for entry in other.history(FLOW, 9)] == ["resume", "skip", "pause", "commit", "start"]
    (found,) = other.gaps(FLOW)
    assert (found.decision, found.end, other.paused(FLOW)) == (SKIPPED, offset(2), None)
    assert set(large.values.names()) == large.referred()


def test_a_snapshot_of_many_tables_has_a_value_of_its_own(large: Large) -> None:
    tables = tuple(TableProgress(f"shop.table_{number:05d}") for number in range(1000))
    begun = Snapshot(1, "initial", NOON, tables)
    values = DurableFolder(f"{large.folder}/_content/default/{FLOW}.snapshot")
    store = large.store()
    lease = started(store)
    store.begin_snapshot(FLOW, lease, begun, "run-1", "first run")
    assert len(values.names()) == 1
    lease.release()
    store = large.store()
    lease = store.claim(FLOW, "run-2", 0)  # sweeps
    assert store.snapshot(FLOW) == begun
    after = replace(begun, tables=(replace(tables[0], state="done", chunks=1), *tables[1:]))
    plan = replace(plan_of(1), chunks=PlannedChunks(after, ()))
    store.write_plan(lease, plan)
    store.commit(lease, plan, outcome(plan, lease.epoch), receipts_of(1), COUNTS)
    assert large.store().snapshot(FLOW) == after
    assert len(values.names()) == 1
    values.put("f" * 64, b"left by a process that was killed before its multi")
    lease.release()
    store = large.store()
    store.claim(FLOW, "run-3", 0)
    assert (store.snapshot(FLOW), len(values.names())) == (after, 1)
    assert {*large.values.names(), *values.names()} == large.referred()


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_what_a_lost_answer_or_a_kill_leaves_is_swept_at_the_next_claim(
    large: Large, world: World, fault: Fault
) -> None:
    host, _, port = world.sandbox.address("zookeeper").rpartition(":")
    with ZooKeeperProxy(host, int(port)) as proxy:
        store = large.store(proxy.port)
        lease = started(store)
        proxy.fail_next(fault, f"/flows/{FLOW}/checkpoint")
        move(store, lease, 1)
        assert store.load(FLOW) == outcome(plan_of(1), lease.epoch)
        large.values.put("f" * 64, b"left by a process that was killed before its multi")
        lease.release()
    store = large.store()
    lease = store.claim(FLOW, "run-2", 0)
    assert set(large.values.names()) == large.referred()
    move(store, lease, 2)
    assert store.load(FLOW).batch == 2


@pytest.mark.parametrize("harm", ["gone", "changed"])
def test_a_value_that_is_not_what_was_stored_is_named(large: Large, harm: str) -> None:
    store = large.store()
    lease = started(store)
    move(store, lease, 1)
    (name,) = {reference(large.nodes()["checkpoint"])}
    assert name is not None
    if harm == "gone":
        large.values.delete(name)
    else:
        large.values.put(name, (large.values.get(name) or b"").replace(b":1:3:", b":1:2:"))
    wanted = "is not there" if harm == "gone" else "has the SHA-256"
    another = large.store()
    for act in (lambda: store.load(FLOW), lambda: another.load(FLOW), lambda: move(another, lease, 2)):
        with pytest.raises(CheckpointFormatError, match=wanted) as caught:
            act()
        assert name in caught.value.message
        assert "DATABUS_SEGMENT_STORE" in caught.value.hint
    # The holder that wrote it reads nothing back: its next commit puts a whole one in its place.
    move(store, lease, 2)
    assert another.load(FLOW) == store.load(FLOW)


def test_small_values_stay_in_zookeeper(large: Large) -> None:
    store = large.store()
    lease = started(store, offset(0, 10))
    plan = plan_of(1, 10, 2)
    store.write_plan(lease, plan)
    store.commit(lease, plan, outcome(plan, lease.epoch), receipts_of(1, 2), COUNTS)
    assert large.values.names() == ()
    assert not large.referred()
    assert all(len(data) < LARGE_BYTES for data in large.nodes().values())
