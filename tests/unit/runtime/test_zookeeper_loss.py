"""A holder that goes on without its store, over a store in memory that can be cut off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from databus.checkpoints.spool import PlanSpool
from databus.core.errors import (
    CheckpointFormatError,
    CheckpointUnavailableError,
    MarkersAheadError,
)
from databus.core.flow import Flow
from databus.core.positions.gaps import OPEN, Gap
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.settings import Settings
from databus.core.state.amendments import Amendment
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.checkpoint_store import (
    Amendments,
    Batches,
    CheckpointStore,
    History,
    LaggingSinks,
    Snapshots,
)
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.plan_outcome import PlanOutcome
from databus.core.state.sink_markers import Announcement
from databus.core.state.snapshot import CaptureScope, PlannedChunks
from databus.runtime.drain import Drain
from databus.runtime.takeover.takeover import ClaimedFlow, take_over
from databus.runtime.zookeeper_loss import retrying_store
from databus.runtime.zookeeper_loss.retrying_store import Retry, RetryingLease, RetryingStore
from databus.sinks.noop import Noop
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.runtime.spool_holder import FLOW, NOON, SNAPSHOT, Holder, Slots, chunk, done, move, plan_of


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    found = Holder(tmp_path)
    yield found
    found.store.close()


def test_a_pause_is_seen_as_it_was_known_last(holder: Holder) -> None:
    assert holder.store.paused(FLOW) is None
    holder.line.cut = True
    holder.real.pause(FLOW, "ada", "maintenance")  # by somebody who reaches the store
    assert holder.store.paused(FLOW) is None
    assert holder.store.detached
    move(holder.store, holder.lease, plan_of(2))
    holder.line.cut = False
    pause = holder.store.paused(FLOW)
    assert pause is not None
    assert (pause.who, holder.store.detached, holder.real.load(FLOW)) == (
        "ada", False, done(plan_of(2), holder.lease.epoch),
    )  # fmt: skip
    assert [e.action for e in holder.real.history(FLOW, 9)] == ["commit", "pause", "commit", "start"]


def test_a_snapshot_goes_on_and_is_held_again_once_the_store_is_back(holder: Holder) -> None:
    store, lease = holder.store, holder.lease
    assert store.begin_snapshot(FLOW, lease, SNAPSHOT, "run", "first run") == SNAPSHOT
    assert store.snapshot(FLOW) == SNAPSHOT
    first = chunk(SNAPSHOT)
    move(store, lease, replace(plan_of(2), chunks=PlannedChunks(first, ())))
    holder.line.cut = True
    assert store.snapshot(FLOW) == first  # of a commit that the store had answered
    assert store.detached
    holder.real.pause_snapshot(FLOW, "ada", "a sale")  # by somebody who reaches the store
    second = chunk(first)
    move(store, lease, replace(plan_of(3), chunks=PlannedChunks(second, ())))
    assert store.snapshot(FLOW) == second
    assert holder.real.snapshot(FLOW) == replace(first, paused=True)
    holder.line.cut = False
    assert store.snapshot(FLOW) == holder.real.snapshot(FLOW) == replace(second, paused=True)
    assert (store.detached, holder.real.load(FLOW)) == (False, store.load(FLOW))


def test_what_only_the_store_can_hold_is_refused_by_name(holder: Holder) -> None:
    holder.line.cut = True
    move(holder.store, holder.lease, plan_of(2))
    gap = Gap(0, SequenceOffset(1), SequenceOffset(2), "purged", OPEN, "run", "", NOON)
    amendment = Amendment("rewind", "ada", "", SequenceOffset(0))
    for act, named in (
        (lambda: holder.store.amend(FLOW, holder.lease, amendment), r"cannot be moved \(rewind\)"),
        (lambda: holder.store.note_gap(FLOW, holder.lease, gap), "cannot be named"),
        (lambda: holder.store.detach(FLOW, holder.lease, "b", "away"), "sink b cannot fall behind"),
        (lambda: holder.store.join(FLOW, holder.lease, "b", "run"), "sink b cannot join"),
        (lambda: holder.store.pause(FLOW, "ada", ""), "cannot be paused"),
        (lambda: holder.store.resume(FLOW, "ada", ""), "pause cannot be ended"),
        (lambda: holder.store.begin_snapshot(FLOW, holder.lease, SNAPSHOT, "run", ""), "no snapshot can begin"),
        (lambda: holder.store.pause_snapshot(FLOW, "ada", ""), "snapshot cannot be paused"),
        (lambda: holder.store.resume_snapshot(FLOW, "ada", ""), "snapshot cannot be resumed"),
        (lambda: holder.store.cancel_snapshot(FLOW, "ada", ""), "snapshot cannot be cancelled"),
        (lambda: holder.store.snapshot(FLOW), "snapshot is not known"),
        (lambda: holder.store.capture_scope(FLOW), "what it captured is not known"),
        (
            lambda: holder.store.follow_scope(FLOW, holder.lease, CaptureScope(("shop.a",)), None, "run", ""),
            "tables cannot be written down",
        ),
        (lambda: holder.store.history(FLOW, 1), "history cannot be read"),
        (lambda: holder.store.gaps(FLOW), "gaps cannot be read"),
        (lambda: holder.store.adopt(holder.lease, FLOW, done(plan_of(9), holder.lease.epoch), ""), "adopted"),
        (lambda: holder.store.of_sink("b").load(FLOW), "stand still"),
    ):
        with pytest.raises(CheckpointUnavailableError, match=named):
            act()
    holder.store.recorded(FLOW, 1)
    assert holder.server.flow(FLOW).recorded == 0


def test_numbers_used_by_a_sink_behind_are_not_used_again_without_the_store(holder: Holder) -> None:
    shared = plan_of(2)
    holder.store.write_plan(holder.lease, shared)
    holder.store.detach(FLOW, holder.lease, "b", "away")
    holder.store.commit(holder.lease, shared, done(shared, holder.lease.epoch), [], {})
    own = holder.store.of_sink("b")
    assert own.pending_plan(FLOW) == shared
    assert own.highest_batch(FLOW) == holder.store.highest_batch(FLOW) == 2
    holder.line.cut = True
    with pytest.raises(CheckpointUnavailableError):
        own.write_plan(holder.lease, plan_of(3, "b"))  # nobody knows whether it is there
    assert holder.store.highest_batch(FLOW) == 3
    assert holder.store.detached
    assert holder.store.sinks_behind(FLOW) == ()  # as at the claim; who fell behind since is the window's to know


PARTS = (Batches, Amendments, LaggingSinks, Snapshots, History, CheckpointStore)
CALLS = sorted({name for part in PARTS for name in vars(part) if not name.startswith("_")})


def test_the_parts_are_all_of_the_store() -> None:
    assert set(CALLS) > {"load", "commit", "paused", "adopt", "of_sink", "recorded", "reconcile", "amend", "claim"}
    promised = {name for name in dir(CheckpointStore) if not name.startswith("_")}
    assert promised == set(CALLS)
    assert len(CALLS) == sum(not name.startswith("_") for part in PARTS for name in vars(part))  # each in one part


class Flaky:
    """A store of which each call fails once."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            self.asked.append((name, args, options))
            if len(self.asked) == 1:
                raise CheckpointUnavailableError("away")
            return "answer"

        return call


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"of_sink", "connected", "claim"}))
def test_each_call_is_retried_as_it_was(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(retrying_store, "_PAUSE_S", 0.0)
    flaky: Any = Flaky()
    assert getattr(RetryingStore(flaky, Retry(60, Drain())), name)("a", 1, who="ada") == "answer"
    assert flaky.asked == [(name, ("a", 1), {"who": "ada"})] * 2
    with pytest.raises(CheckpointUnavailableError):
        getattr(RetryingStore(cast("Any", Flaky()), Retry(0, Drain())), name)("a")


def test_a_view_and_a_lease_are_retried_as_well() -> None:
    view = RetryingStore(MemoryCheckpoints(), Retry(0.0, Drain())).of_sink("a")
    assert isinstance(view, RetryingStore)
    lease = RetryingStore(MemoryCheckpoints(), Retry(0.0, Drain())).claim(FLOW, "run", 0)
    assert isinstance(lease, RetryingLease)


class Flows:
    """A flow of two marked sinks, claimed."""

    def __init__(self, folder: Path):
        self.store = MemoryCheckpoints()
        self.flow = Flow(name=FLOW, source=Mock(rows=10), sinks=(Noop(name="a"), Noop(name="b")))
        self.settings = Settings("test", str(folder), "")
        self.lease = self.store.claim(FLOW, "run", 0)
        self.store.start(FLOW, self.lease, SequenceOffset(0), "run")
        self.sinks = {"a": Slots(), "b": Slots()}

    def take_over(self) -> Checkpoint | None:
        sinks: Any = self.sinks
        return take_over(ClaimedFlow(self.flow, self.settings, self.store, sinks, self.lease))

    def hold(self, plan: Plan, *sinks: str) -> None:
        for name in sinks or plan.sinks:
            self.sinks[name].held = [(plan.batch, plan.hash)]


@pytest.fixture
def flows(tmp_path: Path) -> Flows:
    return Flows(tmp_path)


def test_a_sink_behind_is_compared_with_its_own_checkpoint_and_plan(flows: Flows) -> None:
    flows.hold(move(flows.store, flows.lease, plan_of(1)))
    shared = plan_of(2)
    flows.store.write_plan(flows.lease, shared)
    flows.store.detach(FLOW, flows.lease, "b", "away")
    flows.store.commit(flows.lease, shared, done(plan_of(2), flows.lease.epoch), [], {})
    flows.hold(shared, "a")
    assert flows.take_over() == flows.store.load(FLOW)
    flows.hold(shared, "b")  # its own plan in flight
    assert flows.take_over() is not None
    flows.hold(plan_of(3, "b"), "b")
    with pytest.raises(MarkersAheadError, match="sink b, slot 0: batch 3"):
        flows.take_over()
    flows.sinks["b"].away = True
    assert flows.take_over() is not None
    flows.hold(plan_of(3, "a"), "a")
    with pytest.raises(MarkersAheadError, match="sink a, slot 0: batch 3"):
        flows.take_over()


def test_plans_closed_by_markers_are_not_ahead(flows: Flows) -> None:
    flows.hold(move(flows.store, flows.lease, plan_of(1)))
    former = plan_of(2, spec="former")
    flows.store.write_plan(flows.lease, former)
    flows.hold(former)  # closed, and the move of the checkpoint was cut off
    assert flows.take_over() is not None
    covered = OffsetRange(SequenceOffset(1), SequenceOffset(2))
    anew = Plan("test", FLOW, 3, covered, {name: SinkPlan(1, (2,)) for name in "ab"}, "spec", NOON)
    flows.store.write_plan(flows.lease, anew)  # takes the place of the plan that was closed
    assert flows.take_over() is not None
    flows.sinks["a"].held = [(3, "of another plan")]
    with pytest.raises(MarkersAheadError, match="of another plan"):
        flows.take_over()
    flows.hold(anew)
    amendment = Amendment("rewind", "ada", "again", SequenceOffset(0), closed=anew, slots={"a": (3,), "b": (3,)})
    flows.store.amend(FLOW, flows.lease, amendment)
    checkpoint = flows.take_over()
    assert checkpoint is not None
    assert (checkpoint.batch, checkpoint.offset) == (3, SequenceOffset(0))


def test_a_plan_of_a_former_definition_does_not_hinder_the_reconciliation(holder: Holder) -> None:
    holder.store.write_plan(holder.lease, plan_of(2, spec="former"))
    holder.line.cut = True
    covered = OffsetRange(SequenceOffset(1), SequenceOffset(2))
    anew = Plan("test", FLOW, 3, covered, {name: SinkPlan(1, (2,)) for name in "ab"}, "spec", NOON)
    move(holder.store, holder.lease, anew)
    holder.line.cut = False
    assert holder.store.load(FLOW) == holder.real.load(FLOW) == done(anew, holder.lease.epoch)
    assert (holder.real.pending_plan(FLOW), holder.spool.is_empty()) == (None, True)


def of_a_piece(batch: int) -> Checkpoint:
    """What an earlier databus, whose claim had swept a backfill's leftovers, took for the flow's checkpoint."""
    return Checkpoint(SequenceOffset(batch), batch, Epoch(1), "backfill", "of a piece", {}, None, NOON, {"a": (batch,)})


@pytest.mark.parametrize("batch", [0, 1, 7])
@pytest.mark.parametrize("unfinished", [False, True])
def test_a_spool_that_an_earlier_databus_chained_to_a_backfill_is_reconciled(
    holder: Holder, tmp_path: Path, batch: int, unfinished: bool, caplog: pytest.LogCaptureFixture
) -> None:
    first, last = plan_of(2), plan_of(3)
    holder.line.cut = True
    move(holder.store, holder.lease, first)
    if unfinished:
        holder.store.write_plan(holder.lease, last)
    else:
        move(holder.store, holder.lease, last)
    holder.spool.put_plan(first, of_a_piece(batch))
    said = holder.register.said
    assert said is not None
    chain = holder.spool.chain(done(plan_of(1), holder.lease.epoch), said)
    assert [outcome.plan for outcome in chain.outcomes] == ([first] if unfinished else [first, last])
    assert chain.pending == (last if unfinished else None)
    assert f"batch 2 was written down behind batch {batch} (plan of a piece)" in caplog.text
    # The next claim does so by itself, and nothing is ahead of it.
    holder.line.cut = False
    holder.lease.release()
    flow = Flow(name=FLOW, source=Mock(rows=10), sinks=(Noop(name="a"), Noop(name="b"))).model_copy(
        update={"on_zookeeper_loss": "continue"}
    )
    sinks: Any = {name: Slots((last.batch, last.hash)) for name in ("a", "b")}
    lease = holder.real.claim(FLOW, "next", 0)
    reached = take_over(
        ClaimedFlow(flow, Settings("test", str(tmp_path), ""), holder.real, sinks, lease, register=holder.register)  # type: ignore[arg-type]
    )
    assert reached is not None
    assert (reached.batch, holder.spool.is_empty()) == (2 if unfinished else 3, True)
    assert holder.real.pending_plan(FLOW) == (last if unfinished else None)


@pytest.mark.parametrize(
    "committed",
    [
        replace(done(plan_of(1), Epoch(1)), offset=SequenceOffset(0)),
        replace(done(plan_of(1), Epoch(1)), batch=0),
        replace(done(plan_of(1), Epoch(1)), slots={"a": (1,), "b": (0,)}),
    ],
    ids=["begins elsewhere", "another number", "the slots held something else"],
)
def test_a_spool_that_does_not_go_on_where_the_checkpoint_stands_is_refused_with_the_line_to_type(
    tmp_path: Path, committed: Checkpoint
) -> None:
    spool = PlanSpool(str(tmp_path), "test", FLOW)
    spool.put_plan(plan_of(2), of_a_piece(1))
    with pytest.raises(MarkersAheadError) as refused:
        spool.chain(replace(committed, plan_hash="h"), Announcement(Epoch(1), 2, plan_of(2).hash))
    assert f"databus checkpoint adopt {FLOW} (" in refused.value.hint


def test_an_outcome_holds_what_is_known_of_topics_only_where_that_changed(holder: Holder, tmp_path: Path) -> None:
    known = {"a": {f"cdc.shop.table_{n:04}": f"{n:022}" for n in range(5_000)}}

    def commit(number: int, ids: Any) -> Checkpoint:
        plan = plan_of(number)
        holder.store.write_plan(holder.lease, plan)
        checkpoint = replace(done(plan, holder.lease.epoch), output_ids=ids, output_names={"a": {"x": "y"}})
        holder.store.commit(holder.lease, plan, checkpoint, [], {})
        return checkpoint

    committed = commit(2, known)
    holder.line.cut = True
    made = {"a": {**known["a"], "cdc.shop.new": "id"}}
    gone = {"a": {"cdc.shop.new": "id"}}
    moved = [
        commit(3, known),
        commit(4, dict(known)),
        commit(5, made),
        commit(6, made),
        commit(7, gone),
        commit(8, gone),
    ]
    sizes = [file.stat().st_size for file in sorted(tmp_path.rglob("*.outcome.json"))]
    assert [size > 200_000 for size in sizes] == [False, False, True, False, False, False]
    assert max(sizes[:2]) < 2_000
    said = holder.register.said
    assert said is not None
    assert [o.checkpoint for o in holder.spool.chain(committed, said).outcomes] == moved
    # A reconciliation that was killed half-way has moved the checkpoint to one of them.
    for n, reached in enumerate(moved):
        assert [o.checkpoint for o in holder.spool.chain(reached, said).outcomes] == moved[n + 1 :]
    # Nothing is taken from a checkpoint that knows other outputs than the one that the batch went on from.
    with pytest.raises(CheckpointFormatError, match=r"outcome of a plan.*batch 3.*goes on from outputs"):
        holder.spool.chain(replace(committed, output_ids=made), said)
    holder.line.cut = False
    assert holder.store.load(FLOW) == moved[-1]
    assert holder.real.load(FLOW) == moved[-1]


def test_an_outcome_that_holds_all_is_of_the_version_that_an_older_databus_reads() -> None:
    plan = plan_of(2)
    before, after = done(plan_of(1), Epoch(1)), done(plan, Epoch(1))
    told = PlanOutcome(plan, after, (), {}).to_json(before)
    assert (told["v"], PlanOutcome.from_json(told, before).checkpoint) == (1, after)
    known = {"a": {"t": "id"}}
    same = PlanOutcome(plan, replace(after, output_ids=known), (), {}).to_json(replace(before, output_ids=known))
    assert (same["v"], "output_ids" in same["checkpoint"]) == (2, False)


def test_a_spool_beside_another_batch_of_the_same_number_is_no_backfills(tmp_path: Path) -> None:
    """ZooKeeper came back as it was before, and went on with another plan over the same range."""
    spool = PlanSpool(str(tmp_path), "test", FLOW)
    here, there = plan_of(2), plan_of(2, spec="another")
    move_on = done(here, Epoch(1))
    spool.put_plan(here, done(plan_of(1), Epoch(1)))
    spool.put_plan(plan_of(3), move_on)
    said = Announcement(Epoch(1), 3, plan_of(3).hash)
    with pytest.raises(MarkersAheadError, match="the outcome of batch 2"):
        spool.chain(done(plan_of(1), Epoch(1)), said)
    spool.put_outcome(PlanOutcome(here, move_on, (), {}), done(plan_of(1), Epoch(1)))
    with pytest.raises(MarkersAheadError, match="the plans that lead there from batch 2"):
        spool.chain(done(there, Epoch(1)), said)
