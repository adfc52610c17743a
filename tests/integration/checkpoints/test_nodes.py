"""What stands in ZooKeeper's nodes: the layout of the design, and content that somebody else wrote."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.errors import (
    CheckpointConflictError,
    CheckpointFormatError,
)
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import SequenceOffset
from databus.core.positions.topics_read import TopicsRead
from databus.core.state.checkpoint_store import Lease
from tests.contract.checkpoint_store import (
    COUNTS,
    FLOW,
    NOON,
    commit,
    outcome,
    plan_of,
)
from tests.integration.checkpoints.stores import Connect, started

pytestmark = pytest.mark.integration


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
            (b'{"v": 9}', "format version 9"),
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


def test_counts_and_receipts_come_back_from_history(connect: Connect) -> None:
    store = connect()
    lease = started(store)
    plan = plan_of(1, 0, 10)
    store.write_plan(lease, plan)
    receipts = [{"sink": "kafka", "slot": n, "outputs": {"cdc.orders[0]": {"first": 1, "last": 7}}} for n in range(2)]
    store.commit(lease, plan, outcome(plan, lease.epoch), receipts, COUNTS)
    newest = store.history(FLOW, 1)[0]
    assert (list(newest.receipts), newest.counts) == (receipts, COUNTS)


def test_what_is_known_of_topics_is_replaced_and_told_apart_by_flow(connect: Connect, raw: Any) -> None:
    started(connect())
    kept, at = connect().topics_read(), datetime(2026, 3, 1, tzinfo=UTC)
    assert kept.load(FLOW) is None
    for read in (TopicsRead(1, at, frozenset({"b", "a"})), TopicsRead(2, at, told={"a": "id@5"})):
        kept.keep(FLOW, read)
        assert connect().topics_read().load(FLOW) == read
    assert kept.load("other") is None
    stored = {"v": 1, "batch": 2, "at": "2026-03-01T00:00:00+00:00", "unread": [], "told": {"a": "id@5"}}
    assert json.loads(raw.get(f"{connect.root}/flows/{FLOW}/topics_read")[0]) == stored


def test_accepted_wants_are_replaced_and_told_apart_by_flow(connect: Connect, raw: Any) -> None:
    kept = connect().accepted_wants()
    assert kept.load(FLOW) is None
    kept.keep(FLOW, {"b", "a"})
    kept.keep(FLOW, {"c", "a"})
    kept.keep("other", {"d"})
    assert connect().accepted_wants().load(FLOW) == {"a", "c"}
    path = f"{connect.root}/flows/{FLOW}/accepted"
    assert json.loads(raw.get(path)[0]) == {"v": 1, "wants": ["a", "c"]}
    raw.set(path, b'{"v":2,"wants":[]}')
    with pytest.raises(CheckpointFormatError, match="accepted wants of flow"):
        kept.load(FLOW)
