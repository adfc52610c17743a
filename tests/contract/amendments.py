"""What every checkpoint store must do with amendments by people; part of the store's contract."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus.core.errors import CheckpointConflictError, LeaseBusyError, StaleEpochError
from databus.core.positions.gaps import OPEN, SKIPPED, Gap
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.amendments import AcceptedOutputs, Amendment
from databus.core.state.checkpoint import Checkpoint, Epoch, ReplacedOutputs
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan, SinkPlan

FLOW = "orders"
NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)


def gap(start: int, end: int, decision: str = SKIPPED) -> Gap:
    return Gap(0, SequenceOffset(start), SequenceOffset(end), "skip", decision, "ada", "broken rows", NOON)


def rewind(to: int, **fields: Any) -> Amendment:
    return Amendment("rewind", "ada", "a bad mapping", SequenceOffset(to), **fields)


def skip(start: int, end: int, **fields: Any) -> Amendment:
    return Amendment("skip", "ada", "broken rows", SequenceOffset(end), gap=gap(start, end), **fields)


def planned(store: Any, batch: int, start: int, end: int, ids: Mapping[str, str] | None = None) -> Plan:
    slots = store.load(FLOW).slots.get("kafka", (0, 0))
    covered = OffsetRange(SequenceOffset(start), SequenceOffset(end))
    return Plan("default", FLOW, batch, covered, {"kafka": SinkPlan(2, slots, ids=ids or {})}, "spec", NOON)


def move(
    store: Any,
    lease: Lease,
    end: int,
    outputs: Mapping[str, Mapping[str, str]] | None = None,
    names: Mapping[str, Mapping[str, str]] | None = None,
) -> Plan:
    """Run a batch from where the flow stands."""
    standing = store.load(FLOW)
    plan = planned(store, standing.batch + 1, standing.offset.sequence, end)
    store.write_plan(lease, plan)
    commit(store, lease, plan, outputs, names)
    return plan


def commit(
    store: Any,
    lease: Lease,
    plan: Plan,
    outputs: Mapping[str, Mapping[str, str]] | None = None,
    names: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    outcome = Checkpoint(
        plan.range.end, plan.batch, Epoch(lease.epoch), "run", plan.hash, {}, NOON, NOON,
        {"kafka": (plan.batch, plan.batch)}, output_ids=outputs or {}, output_names=names or {},
    )  # fmt: skip
    store.commit(lease, plan, outcome, [], {})


def everything(store: Any) -> Any:
    return (
        store.load(FLOW), store.pending_plan(FLOW), tuple(store.history(FLOW, 100)), store.paused(FLOW),
        tuple(store.gaps(FLOW)),
    )  # fmt: skip


class AmendmentContract:
    """Inherited by `CheckpointStoreContract`, which brings `store`, `lease` and `open_store`."""

    # --- rewind and skip ---

    def test_a_rewind_moves_the_checkpoint_back_and_says_who_and_why(self, lease: Any, store: Any) -> None:
        for end in (10, 20, 30):
            move(store, lease, end)
        before = store.load(FLOW)
        after = store.amend(FLOW, lease, rewind(10))
        assert store.load(FLOW) == after
        assert (after.offset, after.batch, after.slots) == (SequenceOffset(10), 3, before.slots)
        assert (after.watermark, after.counts, after.run_id) == (None, {}, "ada")
        entry = store.history(FLOW, 1)[0]
        assert (entry.action, entry.who, entry.why) == ("rewind", "ada", "a bad mapping")
        assert (entry.previous, entry.offset, entry.batch) == (before.offset, SequenceOffset(10), 3)
        again = move(store, lease, 20)
        assert (again.batch, again.sinks["kafka"].prev) == (4, (3, 3))
        assert [e.number for e in store.history(FLOW, 3)] == [6, 5, 4]

    def test_a_skip_names_the_gap_it_makes(self, lease: Any, store: Any) -> None:
        move(store, lease, 10)
        after = store.amend(FLOW, lease, skip(10, 25))
        assert (after.offset, after.batch, after.watermark) == (SequenceOffset(25), 1, NOON)
        assert store.gaps(FLOW) == (replace(gap(10, 25), number=1),)
        store.amend(FLOW, replace_lease(store, lease), skip(25, 30))
        assert [g.number for g in store.gaps(FLOW)] == [1, 2]

    def test_a_skip_without_its_gap_or_the_wrong_way_is_refused(self, lease: Any, store: Any) -> None:
        move(store, lease, 10)
        before = everything(store)
        for wrong in (
            replace(skip(10, 25), gap=None),
            replace(skip(10, 25), gap=gap(10, 24)),
            replace(skip(10, 25), gap=gap(9, 25)),
            Amendment("restore", "ada", "", SequenceOffset(25)),
            rewind(10),
            rewind(11),
            skip(10, 5),
            skip(10, 10),
        ):
            with pytest.raises(CheckpointConflictError):
                store.amend(FLOW, lease, wrong)
            assert everything(store) == before

    def test_a_restore_goes_either_way(self, lease: Any, store: Any) -> None:
        for end in (10, 20):
            move(store, lease, end)
        store.amend(FLOW, lease, Amendment("restore", "ada", "", SequenceOffset(10)))
        forward = Amendment("restore", "ada", "", SequenceOffset(20), gap=gap(10, 20))
        assert store.amend(FLOW, replace_lease(store, lease), forward).offset == SequenceOffset(20)

    # --- outputs that were deleted ---

    def test_outputs_are_accepted_as_they_are_and_the_plan_in_flight_goes_on(self, lease: Any, store: Any) -> None:
        move(store, lease, 10, {"kafka": {"a": "a1", "b": "b1"}})
        plan = planned(store, 2, 10, 20, {"a": "a1", "b": "b1", "c": "c1"})
        store.write_plan(lease, plan)
        before = store.load(FLOW)
        replaced = {"kafka": {"a": "a2", "b": None}}
        said = AcceptedOutputs("ada", "made anew", {"kafka": {**replaced["kafka"], "d": "d1"}, "other": {"a": "x"}})
        said = replace(said, replaced={**replaced, "other": {}}, written={"kafka": {"a[0]": 3}, "other": {"a[0]": 1}})
        mine = replace_lease(store, lease)
        after = store.accept_outputs(FLOW, mine, said)
        assert after == store.load(FLOW)
        assert after.output_ids == {"kafka": {"a": "a2"}}
        assert replace(after, output_ids={}, epoch=before.epoch) == replace(before, output_ids={})
        pending = store.pending_plan(FLOW)
        assert pending.sinks["kafka"].ids == {"a": "a2", "c": "c1"}
        assert pending.hash == plan.hash
        (entry,) = store.history(FLOW, 1)
        assert (entry.action, entry.who, entry.why) == ("accept", "ada", "made anew")
        assert (entry.previous, entry.offset, entry.batch) == (before.offset, before.offset, 1)
        # Some of the plan in flight may be in the former ones.
        assert entry.replaced == ReplacedOutputs(2, replaced, {"kafka": {"a[0]": 3}})
        stands = everything(store)
        assert store.accept_outputs(FLOW, mine, said) == after
        assert everything(store) == stands
        with pytest.raises(StaleEpochError):
            store.accept_outputs(FLOW, lease, AcceptedOutputs("ada", "", {"kafka": {"a": None}}))
        commit(store, mine, pending)
        assert store.load(FLOW).batch == 2

    def test_exact_names_go_with_what_is_forgotten_and_stay_through_a_move(self, lease: Any, store: Any) -> None:
        move(store, lease, 10, {"kafka": {"a_b": "1", "c_d": "2"}}, {"kafka": {"a_b": "a$b", "c_d": "c$d"}})
        said = AcceptedOutputs("ada", "renamed", {"kafka": {"a_b": None, "c_d": "3"}})
        after = store.accept_outputs(FLOW, lease, said)
        assert (after.output_ids, after.output_names) == ({"kafka": {"c_d": "3"}}, {"kafka": {"c_d": "c$d"}})
        (entry,) = store.history(FLOW, 1)
        assert (entry.replaced, entry.why) == (None, "renamed; kafka: a_b forgotten")
        moved = store.amend(FLOW, lease, rewind(0, gone={"kafka": {"c_d": None}}))
        assert (moved.output_ids, moved.output_names) == ({"kafka": {}}, {"kafka": {"c_d": "c$d"}})

    def test_an_amendment_forgets_what_it_gives_up_and_nothing_else(self, lease: Any, store: Any) -> None:
        move(store, lease, 10, {"kafka": {"a": "a1", "b": "b1"}, "search": {"x": "x1"}})
        after = store.amend(FLOW, lease, rewind(0, gone={"kafka": {"a": None}}))
        assert after.output_ids == {"kafka": {"b": "b1"}, "search": {"x": "x1"}}
        assert store.load(FLOW) == after
        assert store.history(FLOW, 1)[0].replaced == ReplacedOutputs(1, {"kafka": {"a": None}})

    def test_an_amendment_deletes_the_plan_that_was_closed_and_no_other(self, lease: Any, store: Any) -> None:
        move(store, lease, 10)
        plan = planned(store, 2, 10, 20)
        store.write_plan(lease, plan)
        before = everything(store)
        for closed in (None, planned(store, 2, 10, 21)):
            with pytest.raises(CheckpointConflictError, match="in flight"):
                store.amend(FLOW, lease, rewind(0, closed=closed))
            assert everything(store) == before
        after = store.amend(FLOW, lease, rewind(0, closed=plan, slots={"kafka": (2, 2)}))
        assert (after.batch, after.slots) == (2, {"kafka": (2, 2)})
        assert store.pending_plan(FLOW) is None
        assert move(store, lease, 5).batch == 3

    def test_a_plan_that_is_gone_cannot_be_closed(self, lease: Any, store: Any) -> None:
        plan = move(store, lease, 10)
        with pytest.raises(CheckpointConflictError, match="no plan is in flight"):
            store.amend(FLOW, lease, rewind(0, closed=plan))

    def test_an_amendment_again_changes_nothing(self, lease: Any, store: Any) -> None:
        move(store, lease, 10)
        made = replace_lease(store, lease)
        first = store.amend(FLOW, made, skip(10, 25))
        before = everything(store)
        assert store.amend(FLOW, made, skip(10, 25)) == first
        assert everything(store) == before

    def test_a_stale_holder_amends_nothing(self, lease: Any, store: Any, open_store: Any) -> None:
        move(store, lease, 10)
        lease.release()
        open_store().claim(FLOW, "run-2", wait_s=0)
        before = everything(store)
        for write in (lambda: store.amend(FLOW, lease, rewind(0)), lambda: store.note_gap(FLOW, lease, gap(10, 20))):
            with pytest.raises(StaleEpochError):
                write()
        assert everything(store) == before

    def test_a_flow_that_never_ran_cannot_be_amended(self, store: Any) -> None:
        lease = store.claim(FLOW, "ada", wait_s=0)
        for write in (
            lambda: store.amend(FLOW, lease, rewind(0)),
            lambda: store.pause(FLOW, "ada", "because"),
            lambda: store.resume(FLOW, "ada", "because"),
        ):
            with pytest.raises(CheckpointConflictError, match="no checkpoint"):
                write()

    def test_history_of_amendments_is_trimmed_as_that_of_commits(self, lease: Any, store: Any) -> None:
        move(store, lease, 50)
        for number in range(8):
            lease = replace_lease(store, lease)
            store.amend(FLOW, lease, rewind(49 - number))
        store.recorded(FLOW, store.history(FLOW, 1)[0].number)
        entries = store.history(FLOW, 100)
        assert [e.offset.sequence for e in entries[:3]] == [42, 43, 44]
        assert len({e.number for e in entries}) == len(entries) <= 6

    # --- gaps ---

    def test_an_open_gap_is_one_entry_until_it_is_decided(self, lease: Any, store: Any) -> None:
        move(store, lease, 10)
        first = store.note_gap(FLOW, lease, gap(10, 20, OPEN))
        assert first.number == 1
        assert store.note_gap(FLOW, lease, gap(10, 20, OPEN)) == first
        assert store.note_gap(FLOW, lease, gap(10, 30, OPEN)).number == 1
        assert [(g.end.sequence, g.decision) for g in store.gaps(FLOW)] == [(30, OPEN)]
        store.amend(FLOW, lease, skip(10, 30))
        assert [(g.number, g.end.sequence, g.decision) for g in store.gaps(FLOW)] == [(1, 30, SKIPPED)]
        lease = replace_lease(store, lease)
        store.amend(FLOW, lease, rewind(10))
        assert store.note_gap(FLOW, lease, gap(10, 20, OPEN)).number == 2

    # --- pause ---

    def test_a_pause_is_seen_and_kept_by_who_came_first(self, lease: Any, store: Any, open_store: Any) -> None:
        assert store.paused(FLOW) is None
        made = store.pause(FLOW, "ada", "maintenance")
        assert (made.who, made.why) == ("ada", "maintenance")
        other = open_store()
        assert other.paused(FLOW) == made
        assert other.pause(FLOW, "bob", "me too") == made
        assert other.resume(FLOW, "bob", "done") == made
        assert store.paused(FLOW) is None
        assert store.resume(FLOW, "bob", "done") is None
        said = [(e.action, e.who, e.why) for e in store.history(FLOW, 2)]
        assert said == [("resume", "bob", "done"), ("pause", "ada", "maintenance")]

    def test_a_pause_amid_a_batch_spoils_neither(self, lease: Any, store: Any, open_store: Any) -> None:
        move(store, lease, 10)
        plan = planned(store, 2, 10, 20)
        store.write_plan(lease, plan)
        open_store().pause(FLOW, "ada", "maintenance")
        assert store.load(FLOW).batch == 1
        done = Checkpoint(plan.range.end, 2, Epoch(lease.epoch), "run", plan.hash, {}, NOON, NOON, {"kafka": (2, 2)})
        store.commit(lease, plan, done, [], {})
        assert store.load(FLOW) == done
        assert [(e.action, e.batch) for e in store.history(FLOW, 3)] == [("commit", 2), ("pause", 1), ("commit", 1)]

    def test_pauses_race_with_commits(self, lease: Any, store: Any, open_store: Any) -> None:
        other, trouble = open_store(), []

        def toggle() -> None:
            try:
                for number in range(5):
                    other.pause(FLOW, "ada", str(number))
                    other.resume(FLOW, "ada", str(number))
            except Exception as error:  # noqa: BLE001 - handed to the test
                trouble.append(error)

        thread = threading.Thread(target=toggle)
        thread.start()
        for number in range(1, 16):
            move(store, lease, number)
        thread.join(60)
        assert not thread.is_alive()
        assert not trouble, trouble
        assert (store.load(FLOW).batch, store.load(FLOW).offset) == (15, SequenceOffset(15))
        numbers = [e.number for e in store.history(FLOW, 100)]
        assert numbers[0] == 1 + 15 + 10
        assert numbers == sorted(numbers, reverse=True)

    # --- any order ---

    @settings(  # one test of the contract, run by a class per store
        max_examples=settings.default.max_examples // 4,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(steps=st.lists(st.tuples(st.sampled_from("mprscg"), st.integers(0, 60)), max_size=12))
    def test_any_order_of_amendments_and_batches_keeps_the_books(self, open_store: Any, steps: Any) -> None:
        """Batch numbers never fall or repeat, history is a chain without holes, each range is delivered or named."""
        store = open_store()
        lease = store.claim(FLOW, "run-1", wait_s=0)
        first = store.start(FLOW, lease, SequenceOffset(0), "run-1") if store.load(FLOW) is None else store.load(FLOW)
        used, numbers = first.batch, {entry.number for entry in store.history(FLOW, 100)}
        for what, where in steps:
            lease = replace_lease(store, lease)
            at, pending = store.load(FLOW).offset.sequence, store.pending_plan(FLOW)
            closing = {"closed": pending, "slots": {"kafka": (pending.batch,) * 2}} if pending else {}
            if what == "m" and not pending:
                assert move(store, lease, at + 1 + where).batch == used + 1
                used += 1
            elif what == "p" and not pending:
                store.write_plan(lease, planned(store, used + 1, at, at + 1 + where))
                used += 1
            elif what == "r" and where < at:
                store.amend(FLOW, lease, rewind(where, **closing))
            elif what == "s":
                store.amend(FLOW, lease, skip(at, at + 1 + where, **closing))
                assert store.gaps(FLOW)[-1].end == SequenceOffset(at + 1 + where)
            elif what == "c":
                with pytest.raises(LeaseBusyError):
                    store.claim(FLOW, "other", wait_s=0)
            elif what == "g":
                (store.pause if store.paused(FLOW) is None else store.resume)(FLOW, "ada", "why")
            newest = store.history(FLOW, 1)[0]
            assert newest.offset == store.load(FLOW).offset
            assert store.load(FLOW).batch <= used
            added = {entry.number for entry in store.history(FLOW, 100)} - numbers
            assert added <= {max(numbers) + 1}
            numbers |= added
        if store.paused(FLOW) is not None:
            store.resume(FLOW, "ada", "done")
        pending = store.pending_plan(FLOW)
        if pending is not None:
            to = store.load(FLOW).offset.sequence
            store.amend(FLOW, replace_lease(store, lease), skip(to, to + 1, closed=pending))
        store.close()


def replace_lease(store: Any, lease: Any) -> Any:
    """Claim anew, as each amendment does."""
    lease.release()
    return store.claim(FLOW, "ada", wait_s=5)
