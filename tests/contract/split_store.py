"""What every checkpoint store must do for sinks that fall behind (ADR 16); inherited by each store's own tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from databus.core.errors import CheckpointConflictError, ConfigError, StaleEpochError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.amendments import AcceptedOutputs, Amendment
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import Plan, SinkPlan
from tests.contract.amendments import skip
from tests.contract.checkpoint_store import COUNTS, FLOW, NOON, RECEIPTS, OpenStore, Stored

SLOTS = {"kafka": 2, "search": 1}


def plan_of(batch: int, start: int, end: int, *sinks: str, prev: int) -> Plan:
    pinned = {name: SinkPlan(SLOTS[name], (prev,) * SLOTS[name]) for name in sinks}
    return Plan("default", FLOW, batch, OffsetRange(SequenceOffset(start), SequenceOffset(end)), pinned, "spec", NOON)


def outcome(plan: Plan, epoch: int, former: Checkpoint | None = None, only: tuple[str, ...] = ()) -> Checkpoint:
    slots = {name: (plan.batch,) * SLOTS[name] for name in plan.sinks if not only or name in only}
    return Checkpoint(
        plan.range.end, plan.batch, Epoch(epoch), "run", plan.hash, COUNTS, NOON, NOON,
        {**(former.slots if former else {}), **slots},
    )  # fmt: skip


class SplitStoreContract:
    """Mixed into the test class of a store, which brings the fixtures `store`, `open_store` and `lease`."""

    def commit(self, store: Any, lease: Any, plan: Plan, only: tuple[str, ...] = ()) -> Checkpoint:
        done = outcome(plan, lease.epoch, store.load(FLOW), only)
        store.commit(lease, plan, done, RECEIPTS, COUNTS)
        return done

    def first(self, store: Any, lease: Any) -> Checkpoint:
        plan = plan_of(1, 0, 10, "kafka", "search", prev=0)
        store.write_plan(lease, plan)
        return self.commit(store, lease, plan)

    def test_no_sink_is_behind_at_first(self, store: Any, lease: Any) -> None:
        assert store.sinks_behind(FLOW) == ()
        assert store.of_sink("search").load(FLOW) is None
        assert store.highest_batch(FLOW) == 0
        assert self.first(store, lease).batch == store.highest_batch(FLOW) == 1

    def test_a_sink_is_detached_with_the_plan_in_flight(self, store: Any, lease: Any, open_store: OpenStore) -> None:
        self.first(store, lease)
        plan = plan_of(2, 10, 20, "kafka", "search", prev=1)
        store.write_plan(lease, plan)
        before = Stored.of(store)
        own = store.detach(FLOW, lease, "search", "search does not answer")
        assert (own.offset, own.batch, own.slots) == (SequenceOffset(10), 1, {"search": (1,)})
        assert Stored.of(store) == before
        assert store.detach(FLOW, lease, "search", "again") == own
        other = open_store()
        assert other.sinks_behind(FLOW) == ("search",)
        assert other.of_sink("search").load(FLOW) == own
        assert other.of_sink("search").pending_plan(FLOW) == plan
        (entry,) = other.of_sink("search").history(FLOW, 10)
        assert (entry.action, entry.why, entry.offset) == ("detach", "search does not answer", own.offset)

    def test_a_sink_that_is_behind_keeps_what_it_knows_of_its_outputs(self, store: Any, lease: Any) -> None:
        plan = plan_of(1, 0, 10, "kafka", "search", prev=0)
        store.write_plan(lease, plan)
        knows = {"kafka": {"a": "a1"}, "search": {"x": "x1", "y": "y1"}}
        names = {"kafka": {"a": "a$"}, "search": {"x": "x$"}}
        first = replace(outcome(plan, lease.epoch), output_ids=knows, output_names=names)
        store.commit(lease, plan, first, RECEIPTS, COUNTS)
        shared = plan_of(2, 10, 20, "kafka", "search", prev=1)
        store.write_plan(lease, shared)
        assert store.detach(FLOW, lease, "search", "away").output_ids == {"search": {"x": "x1", "y": "y1"}}
        own = store.of_sink("search")
        own.accept_outputs(FLOW, lease, AcceptedOutputs("ada", "made anew", {"search": {"x": "x2", "y": None}}))
        assert store.load(FLOW).output_ids == knows
        for view, sink in ((store, "kafka"), (own, "search")):
            done = outcome(shared, lease.epoch, view.load(FLOW), (sink,))
            stood = view.load(FLOW)
            done = replace(done, output_ids=stood.output_ids, output_names=stood.output_names)
            view.commit(lease, shared, done, RECEIPTS, COUNTS)
        joined = store.join(FLOW, lease, "search", "run")
        assert joined.output_ids == {"kafka": {"a": "a1"}, "search": {"x": "x2"}}
        assert joined.output_names == names

    def test_a_plan_that_does_not_name_the_sink_is_not_its_own(self, store: Any, lease: Any) -> None:
        self.first(store, lease)
        store.write_plan(lease, plan_of(2, 10, 20, "kafka", prev=1))
        store.detach(FLOW, lease, "search", "")
        assert store.of_sink("search").pending_plan(FLOW) is None

    def test_both_sides_commit_the_shared_plan_and_go_their_ways(self, store: Any, lease: Any) -> None:
        self.first(store, lease)
        shared = plan_of(2, 10, 20, "kafka", "search", prev=1)
        store.write_plan(lease, shared)
        store.detach(FLOW, lease, "search", "away")
        own = store.of_sink("search")
        assert self.commit(store, lease, shared, ("kafka",)).slots == {"kafka": (2, 2), "search": (1,)}
        assert own.pending_plan(FLOW) == shared
        further = plan_of(3, 20, 30, "kafka", prev=2)
        store.write_plan(lease, further)
        self.commit(store, lease, further)
        assert store.highest_batch(FLOW) == 3
        self.commit(own, lease, shared, ("search",))
        assert (own.load(FLOW).offset, own.load(FLOW).slots) == (SequenceOffset(20), {"search": (2,)})
        assert store.load(FLOW).offset == SequenceOffset(30)
        assert [entry.action for entry in own.history(FLOW, 10)] == ["commit", "detach"]
        assert [entry.batch for entry in store.history(FLOW, 10)] == [3, 2, 1, 0]

    def test_a_sink_that_caught_up_joins(self, store: Any, lease: Any) -> None:
        self.first(store, lease)
        store.detach(FLOW, lease, "search", "away")
        own = store.of_sink("search")
        both = [(store, plan_of(2, 10, 20, "kafka", prev=1)), (own, plan_of(3, 10, 20, "search", prev=1))]
        for view, plan in both:
            view.write_plan(lease, plan)
            assert store.highest_batch(FLOW) == plan.batch
            self.commit(view, lease, plan)
        joined = store.join(FLOW, lease, "search", "run-2")
        assert store.load(FLOW) == joined
        assert (joined.offset, joined.batch, joined.plan_hash) == (SequenceOffset(20), 3, both[1][1].hash)
        assert joined.slots == {"kafka": (2, 2), "search": (3,)}
        assert store.sinks_behind(FLOW) == ()
        assert own.load(FLOW) is None
        assert [entry.action for entry in own.history(FLOW, 10)] == ["join", "commit", "detach"]
        assert store.history(FLOW, 1)[0].action == "join"
        following = plan_of(4, 20, 30, "kafka", "search", prev=3)
        store.write_plan(lease, following)
        self.commit(store, lease, following)

    @pytest.mark.parametrize("where", ["flow", "sink"])
    def test_no_sink_joins_in_mid_batch(self, store: Any, lease: Any, where: str) -> None:
        self.first(store, lease)
        store.detach(FLOW, lease, "search", "away")
        view, sink = (store, "kafka") if where == "flow" else (store.of_sink("search"), "search")
        view.write_plan(lease, plan_of(2, 10, 20, sink, prev=1))
        with pytest.raises(CheckpointConflictError, match=f"batch 2 of the {where} is in flight"):
            store.join(FLOW, lease, "search", "run-2")
        assert store.sinks_behind(FLOW) == ("search",)

    def test_no_sink_joins_elsewhere(self, store: Any, lease: Any) -> None:
        self.first(store, lease)
        store.detach(FLOW, lease, "search", "away")
        plan = plan_of(2, 10, 20, "kafka", prev=1)
        store.write_plan(lease, plan)
        self.commit(store, lease, plan)
        before = Stored.of(store)
        with pytest.raises(CheckpointConflictError, match="the flow stands at"):
            store.join(FLOW, lease, "search", "run-2")
        assert Stored.of(store) == before
        with pytest.raises(CheckpointConflictError, match="the sink has no checkpoint"):
            store.join(FLOW, lease, "kafka", "run-2")

    def test_a_stale_holder_neither_detaches_nor_joins(self, store: Any, lease: Any, open_store: OpenStore) -> None:
        self.first(store, lease)
        store.detach(FLOW, lease, "search", "away")
        lease.release()
        open_store().claim(FLOW, "run-2", wait_s=0)
        with pytest.raises(StaleEpochError):
            store.detach(FLOW, lease, "kafka", "away")
        with pytest.raises(StaleEpochError):
            store.join(FLOW, lease, "search", "run-1")
        with pytest.raises(StaleEpochError):
            store.amend_sink(FLOW, lease, "search", skip(10, 10))
        with pytest.raises(StaleEpochError):
            store.of_sink("search").write_plan(lease, plan_of(2, 10, 20, "search", prev=1))
        assert store.sinks_behind(FLOW) == ("search",)

    def test_a_sink_that_is_behind_elsewhere_is_not_detached_again(self, store: Any, lease: Any) -> None:
        self.first(store, lease)
        store.detach(FLOW, lease, "search", "away")
        plan = plan_of(2, 10, 20, "kafka", prev=1)
        store.write_plan(lease, plan)
        self.commit(store, lease, plan)
        with pytest.raises(CheckpointConflictError, match="behind already"):
            store.detach(FLOW, lease, "search", "away")

    def test_a_flow_that_never_ran_detaches_nothing(self, store: Any) -> None:
        lease = store.claim(FLOW, "run-1", wait_s=0)
        with pytest.raises(CheckpointConflictError):
            store.detach(FLOW, lease, "search", "away")

    def test_names_of_sinks_are_kept_as_they_are(self, store: Any, lease: Any) -> None:
        done = self.first(store, lease)
        name = "search/eu west%2F"
        assert store.detach(FLOW, lease, name, "away") == replace(done, slots={}, counts={}, detached=1)
        assert store.sinks_behind(FLOW) == (name,)
        with pytest.raises(ConfigError):
            store.detach(FLOW, lease, "..", "away")

    # --- by hand ---

    def behind(self, store: Any, lease: Any, own: Plan | None = None) -> Any:
        """Leave a sink at 10, with a plan if one is given, and the flow at 20 after batch 2."""
        self.first(store, lease)
        store.detach(FLOW, lease, "search", "away")
        further = plan_of(2, 10, 20, "kafka", prev=1)
        store.write_plan(lease, further)
        self.commit(store, lease, further)
        if own is not None:
            store.of_sink("search").write_plan(lease, own)
        return store.of_sink("search")

    @pytest.mark.parametrize("end", [15, 20])
    def test_a_sink_that_is_behind_goes_forward_by_hand(self, store: Any, lease: Any, end: int) -> None:
        plan = plan_of(3, 10, 15, "search", prev=1)
        own, before = self.behind(store, lease, plan), None
        before = store.load(FLOW), store.history(FLOW, 9)
        made = skip(10, end, closed=plan, slots={"search": (3,)})
        after = store.amend_sink(FLOW, lease, "search", made)
        assert store.amend_sink(FLOW, lease, "search", made) == after == own.load(FLOW)
        assert (after.offset, after.batch, after.slots) == (SequenceOffset(end), 3, {"search": (3,)})
        assert (own.pending_plan(FLOW), store.sinks_behind(FLOW)) == (None, ("search",))
        assert [(e.action, e.who, e.previous) for e in own.history(FLOW, 1)] == [("skip", "ada", SequenceOffset(10))]
        assert (store.load(FLOW), store.history(FLOW, 9)) == before
        assert [(g.start, g.end, g.cause) for g in store.gaps(FLOW)] == [(SequenceOffset(10), after.offset, "skip")]
        if end == 20:
            assert store.join(FLOW, lease, "search", "ada").slots == {"kafka": (2, 2), "search": (3,)}
            assert store.sinks_behind(FLOW) == ()

    def test_it_goes_no_further_than_the_flow_and_not_back(self, store: Any, lease: Any) -> None:
        plan = plan_of(3, 10, 15, "search", prev=1)
        own = self.behind(store, lease, plan)
        closed = {"closed": plan, "slots": {"search": (3,)}}
        rewound = Amendment("rewind", "ada", "", SequenceOffset(5), **closed)
        nameless = replace(skip(10, 20, **closed), gap=None)
        for wrong in (skip(10, 25, **closed), rewound, skip(10, 15), nameless):
            with pytest.raises(CheckpointConflictError):
                store.amend_sink(FLOW, lease, "search", wrong)
        with pytest.raises(CheckpointConflictError, match="is not behind"):
            store.amend_sink(FLOW, lease, "kafka", skip(10, 15))
        assert (own.load(FLOW).offset, own.pending_plan(FLOW), store.gaps(FLOW)) == (SequenceOffset(10), plan, ())

    @pytest.mark.parametrize("shared", [True, False])
    def test_an_amendment_takes_along_a_sink_that_stands_where_the_flow_stands(
        self, store: Any, lease: Any, shared: bool
    ) -> None:
        self.first(store, lease)
        plan = plan_of(2, 10, 20, *(("kafka", "search") if shared else ("kafka",)), prev=1)
        if shared:
            store.write_plan(lease, plan)
        store.detach(FLOW, lease, "search", "away")
        if not shared:
            store.write_plan(lease, plan)
        slots = {name: (2,) * SLOTS[name] for name in plan.sinks}
        after = store.amend(FLOW, lease, skip(10, 30, closed=plan, slots=slots))
        assert (after.offset, after.batch) == (SequenceOffset(30), 2)
        assert after.slots == {"kafka": (2, 2), "search": (2 if shared else 1,)}
        assert (store.load(FLOW), store.pending_plan(FLOW), store.sinks_behind(FLOW)) == (after, None, ())
        own = store.of_sink("search")
        assert (own.load(FLOW), own.pending_plan(FLOW), own.history(FLOW, 1)[0].action) == (None, None, "join")
        entries = [(e.number, e.action, e.offset.sequence) for e in store.history(FLOW, 2)]
        assert entries == [(entries[0][0], "skip", 30), (entries[0][0] - 1, "join", 10)]

    def test_a_sink_with_a_plan_of_its_own_is_not_taken_along(self, store: Any, lease: Any) -> None:
        self.first(store, lease)
        shared = plan_of(2, 10, 20, "kafka", "search", prev=1)
        store.write_plan(lease, shared)
        store.detach(FLOW, lease, "search", "away")
        anew = replace(shared, batch=3)
        store.write_plan(lease, anew)
        with pytest.raises(CheckpointConflictError, match="stand behind the others: search"):
            store.amend(FLOW, lease, skip(10, 30, closed=anew, slots={"kafka": (3, 3)}))
