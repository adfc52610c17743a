"""What a flow knows of thousands of topics, in a node beside its checkpoint, on a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from databus.checkpoints.codec import encode
from databus.checkpoints.durable_folder import DurableFolder
from databus.checkpoints.nodes.large_values import LargeValues
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.errors import CheckpointConflictError
from databus.core.state.amendments import AcceptedOutputs
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.testing.zookeeper_proxy import Fault, ZooKeeperProxy
from tests.contract.checkpoint_store import COUNTS, FLOW, outcome, plan_of
from tests.integration.checkpoints.stores import Connect, in_thread, started

pytestmark = pytest.mark.integration

TOPICS = {f"cdc.shop_of_a_long_name.orders_{n:05d}": f"AbCdEfGhIjKlMnOpQr{n:04d}" for n in range(5_000)}


def move(store: ZooKeeperCheckpoints, lease: Lease, batch: int, topics: Mapping[str, str]) -> Checkpoint:
    plan = plan_of(batch, batch - 1, batch)
    store.write_plan(lease, plan)
    done = replace(outcome(plan, lease.epoch), output_ids={"kafka": topics})
    store.commit(lease, plan, done, [], COUNTS)
    return done


class Folder:
    """What is kept of the flow outside of ZooKeeper."""

    def __init__(self, home: Path):
        self.values = LargeValues(str(home), "default")
        self.outputs = DurableFolder(f"{home}/_content/default/{FLOW}.outputs")
        self.flows = DurableFolder(f"{home}/_content/default/{FLOW}")
        self.sinks = DurableFolder(f"{home}/_content/default/{FLOW}.outputs@kafka")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_five_thousand_topics_are_written_when_one_is_new_and_by_no_other_commit(
    connect: Connect, raw: Any, folder: Folder
) -> None:
    store = connect(large=folder.values)
    lease = started(store)
    home = f"{connect.root}/flows/{FLOW}"
    move(store, lease, 1, TOPICS)
    written = folder.outputs.names()
    for batch in range(2, 6):
        move(store, lease, batch, dict(TOPICS))
    assert (len(written), folder.outputs.names(), folder.flows.names()) == (1, written, ())
    assert raw.get(f"{home}/outputs")[1].version == 0
    assert len(raw.get(f"{home}/checkpoint")[0]) < 1_000
    done = move(store, lease, 6, {**TOPICS, "cdc.new": "N"})
    assert connect(large=folder.values).load(FLOW) == done
    assert (raw.get(f"{home}/outputs")[1].version, len(folder.outputs.names())) == (1, 1)


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_commit_that_is_cut_off_is_applied_once_and_leaves_nothing(
    connect: Connect, proxy: ZooKeeperProxy, folder: Folder, fault: Fault
) -> None:
    store = connect(port=proxy.port, large=folder.values)
    lease = started(store)
    move(store, lease, 1, TOPICS)
    proxy.fail_next(fault, f"/flows/{FLOW}/outputs")
    done = move(store, lease, 2, {**TOPICS, "cdc.new": "N"})
    assert proxy.armed == 0
    assert connect(large=folder.values).load(FLOW) == done
    # A process that is killed between the file and the multi leaves the file, and the next claim sweeps it.
    folder.outputs.put("f" * 64, b"left")
    lease.release()
    again = connect(large=folder.values)
    lease = again.claim(FLOW, "run-2", 0)
    assert len(folder.outputs.names()) == 1
    assert again.load(FLOW) == done
    assert move(again, lease, 3, TOPICS) == again.load(FLOW)


def test_a_reader_beside_commits_of_new_topics_sees_each_checkpoint_with_its_own(connect: Connect) -> None:
    store, other = connect(), connect()
    lease = started(store)
    move(store, lease, 1, {"cdc.orders": "1"})
    batches = 300
    stop: list[bool] = []

    def look() -> set[int]:
        seen = set()
        while not stop:
            found = other.load(FLOW)
            assert found is not None
            assert found.output_ids == {"kafka": {"cdc.orders": str(found.batch)}}, found.batch
            seen.add(found.batch)
        return seen

    thread, results = in_thread(look)
    try:
        for batch in range(2, batches):
            move(store, lease, batch, {"cdc.orders": str(batch)})
    finally:
        stop.append(True)
        thread.join()
    assert isinstance(results[0], set), results
    assert len(results[0]) > 10


def test_a_sink_behind_has_a_node_of_its_own_which_goes_when_it_joins(
    connect: Connect, raw: Any, folder: Folder
) -> None:
    store = connect(large=folder.values)
    lease = started(store)
    done = move(store, lease, 1, TOPICS)
    home = f"{connect.root}/flows/{FLOW}"
    own = store.detach(FLOW, lease, "kafka", "away")
    assert own.output_ids == {"kafka": TOPICS}
    assert len(folder.sinks.names()) == 1
    lease.release()
    again = connect(large=folder.values)
    lease = again.claim(FLOW, "run-2", 0)  # sweeps
    view = again.of_sink("kafka")
    assert (view.load(FLOW), again.load(FLOW), len(folder.sinks.names())) == (own, done, 1)
    first = next(iter(TOPICS))
    view.accept_outputs(FLOW, lease, AcceptedOutputs("ada", "made anew", {"kafka": {first: "new"}}))
    joined = again.join(FLOW, lease, "kafka", "run-2")
    assert joined.output_ids == {"kafka": {**TOPICS, first: "new"}}
    assert connect(large=folder.values).load(FLOW) == joined
    assert raw.exists(f"{home}/sinks/kafka/outputs") is None
    assert (len(folder.sinks.names()), len(folder.outputs.names())) == (0, 1)


def test_a_checkpoint_that_holds_its_topics_is_moved_over_by_a_pause_or_a_commit(connect: Connect, raw: Any) -> None:
    """Version 2, as databus wrote it before: with the topics in the checkpoint's node."""
    store = connect()
    lease = started(store)
    done = move(store, lease, 1, {})
    path, topics = f"{connect.root}/flows/{FLOW}/checkpoint", {"cdc.orders": "1"}
    before = replace(done, output_ids={"kafka": topics})
    raw.set(path, encode({**before.to_json(), "history": 2}))
    assert json.loads(raw.get(path)[0])["v"] == 2
    assert store.load(FLOW) == before
    with pytest.raises(CheckpointConflictError):  # the holder's own writes check what was there
        move(connect(), lease, 1, topics)
    assert connect().pause(FLOW, "ada", "upgrade") is not None
    stored = json.loads(raw.get(path)[0])
    assert (stored["v"], "output_ids" in stored, store.load(FLOW)) == (3, False, before)
    assert connect().resume(FLOW, "ada", "done") is not None
    assert move(store, lease, 2, topics) == connect().load(FLOW)
