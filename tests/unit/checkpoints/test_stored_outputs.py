"""What a checkpoint knows of outputs, beside it: written where it changes, by the multi that writes the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.checkpoints.codec import encode
from databus.checkpoints.connection.session import Node
from databus.checkpoints.connection.transaction import Operation, OperationKind
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.nodes.stored_outputs import StoredCheckpoint
from databus.checkpoints.paths import Layout
from databus.checkpoints.rules.accepted import accepted_checkpoint
from databus.checkpoints.rules.reconciliation import catch_up_step
from databus.core.errors import CheckpointFormatError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.amendments import AcceptedOutputs
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.known_outputs import merged_outputs
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.plan_outcome import PlanOutcome

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
PATHS = Layout().flow("orders")
TOPICS = {f"cdc.shop_of_a_long_name.orders_{n:05d}": f"AbCdEfGhIjKlMnOpQr{n:04d}" for n in range(5_000)}
FIRST = Checkpoint(SequenceOffset(0), 0, Epoch(1), "run", "", {}, None, NOON)

outputs = st.dictionaries(
    st.sampled_from(["kafka", "search"]),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2", ""]), max_size=2),
    max_size=2,
)


@dataclass
class Nodes:
    """The nodes of one flow, by the rules of a multi: all operations or none."""

    held: dict[str, Node] = field(default_factory=dict)

    def apply(self, operations: Sequence[Operation]) -> None:
        after = dict(self.held)
        for o in operations:
            stands = after.get(o.path)
            if o.kind is OperationKind.CREATE:
                assert stands is None
                after[o.path] = Node(o.data, 0, 0)
                continue
            assert stands is not None
            assert stands.version == o.version
            if o.kind is OperationKind.DELETE:
                del after[o.path]
            else:
                after[o.path] = Node(o.data, stands.version + 1, 0)
        self.held = after

    def state(self, outputs_of: Nodes | None = None) -> FlowState:
        later = outputs_of or self
        return FlowState("orders", self.held.get(PATHS.checkpoint), None, None, later.held.get(PATHS.outputs))

    def at(self) -> Nodes:
        return Nodes(dict(self.held))


def knowing(number: int, ids: object, names: object = None) -> Checkpoint:
    return replace(FIRST, batch=number, output_ids=ids, output_names=names or {})  # type: ignore[arg-type]


def told(checkpoint: Checkpoint) -> object:
    return checkpoint.outputs_json()


def moved_to(nodes: Nodes, checkpoint: Checkpoint, number: int) -> Sequence[Operation]:
    state = nodes.state()
    operations = state.writes(PATHS, state.stored(checkpoint, number))
    nodes.apply(operations)
    return operations


class TestSize:
    def test_a_checkpoint_is_as_small_with_five_thousand_topics_as_with_one(self) -> None:
        nodes, sizes = Nodes(), []
        for number, topics in enumerate([dict([*TOPICS.items()][:1]), TOPICS], 1):
            moved_to(nodes, knowing(1, {"kafka": topics}), number)
            sizes.append(len(nodes.held[PATHS.checkpoint].data))
        assert sizes[0] == sizes[1] < 1_000
        assert len(nodes.held[PATHS.outputs].data) > 250_000

    def test_commits_that_learn_nothing_write_the_checkpoint_alone(self) -> None:
        nodes = Nodes()
        moved_to(nodes, knowing(1, {"kafka": TOPICS}), 1)
        state = nodes.state()
        for number in range(2, 9):
            before = state.checkpoint
            assert before is not None
            # As a commit makes it: a mapping of its own with what the batch's plan pinned.
            known = merged_outputs(before.output_ids, {"kafka": {"cdc.shop_of_a_long_name.orders_00007": TOPICS[
                "cdc.shop_of_a_long_name.orders_00007"]}})  # fmt: skip
            stored = state.stored(knowing(number, known), number)
            operations = state.writes(PATHS, stored)
            assert [o.path for o in operations] == [PATHS.checkpoint]
            nodes.apply(operations)
            state = state.committed(knowing(number, known), stored, number)
        assert nodes.state().checkpoint == knowing(8, {"kafka": TOPICS})

    def test_a_catch_up_writes_them_once_however_many_batches_it_adds(self) -> None:
        def plan_of(batch: int) -> Plan:
            covered = OffsetRange(SequenceOffset(batch - 1), SequenceOffset(batch))
            return Plan("default", "orders", batch, covered, {"kafka": SinkPlan(1, (1,))}, "spec", NOON)

        def done(plan: Plan) -> Checkpoint:
            return replace(knowing(plan.batch, {"kafka": TOPICS}), offset=plan.range.end, plan_hash=plan.hash)

        nodes = Nodes()
        moved_to(nodes, FIRST, 1)
        outcomes = [PlanOutcome(plan, done(plan), [], {}) for plan in map(plan_of, range(1, 20))]
        step = catch_up_step(PATHS, nodes.state(), outcomes, None, lambda _number: [])
        assert step is not None
        assert step.last
        assert [o.path for o in step.operations].count(PATHS.outputs) == 1
        nodes.apply([o for o in step.operations if o.path in (PATHS.checkpoint, PATHS.outputs)])
        assert nodes.state().checkpoint == outcomes[-1].checkpoint


@given(st.lists(st.tuples(outputs, outputs, st.sampled_from(["applied", "killed"])), max_size=8), st.booleans())
def test_what_is_read_is_what_was_written_last_whatever_was_cut_off(
    moves: list[tuple[dict[str, dict[str, str]], dict[str, dict[str, str]], str]], remember: bool
) -> None:
    """A kill leaves either all of a write or none of it: never a checkpoint with the outputs of another."""
    nodes, stands = Nodes(), FIRST
    moved_to(nodes, FIRST, 1)
    state = nodes.state()
    for number, (ids, names, end) in enumerate(moves, 2):
        wanted = knowing(number, ids, names)
        if end == "killed":
            state.writes(PATHS, state.stored(wanted, number))  # never arrives, and the next holder reads
            state = nodes.state()
            continue
        stored = state.stored(wanted, number)
        nodes.apply(state.writes(PATHS, stored))
        state, stands = (state.committed(wanted, stored, number) if remember else nodes.state()), wanted
        assert nodes.state().outputs_node == state.outputs_node
        assert nodes.state().checkpoint_node == state.checkpoint_node
    found = nodes.state().checkpoint
    assert found is not None
    assert (found.batch, told(found)) == (stands.batch, told(stands))
    assert (PATHS.outputs in nodes.held) == any(stands.outputs_json().values())


@given(st.lists(outputs, min_size=2, max_size=6), st.data())
def test_a_checkpoint_read_before_a_commit_and_outputs_read_after_it_are_told_apart(
    known: list[dict[str, dict[str, str]]], data: st.DataObject
) -> None:
    nodes, moments = Nodes(), []
    for number, ids in enumerate(known, 1):
        moved_to(nodes, knowing(number, ids), number)
        moments.append(nodes.at())
    early = data.draw(st.integers(0, len(known) - 1))
    late = data.draw(st.integers(early, len(known) - 1))
    state, wanted = moments[early].state(moments[late]), knowing(early + 1, known[early])
    if not state.torn:
        assert state.checkpoint is not None
        assert told(state.checkpoint) == told(wanted)
        return
    assert told(knowing(0, known[late])) != told(wanted)
    with pytest.raises(CheckpointFormatError, match="must have the digest"):
        _ = state.checkpoint


class TestOtherVersions:
    def test_a_checkpoint_that_holds_its_outputs_is_read_and_moved_over_by_the_next_write(self) -> None:
        """Version 2, as databus wrote it before."""
        before = knowing(7, {"kafka": TOPICS}, {"kafka": {"a_b": "a$b"}})
        nodes = Nodes({PATHS.checkpoint: Node(encode({**before.to_json(), "history": 8}), 41, 0)})
        state = nodes.state()
        assert (state.checkpoint, state.history_number, state.torn) == (before, 8, False)
        assert [o.path for o in moved_to(nodes, before, 9)] == [PATHS.checkpoint, PATHS.outputs]
        assert nodes.state().checkpoint == before
        assert len(nodes.held[PATHS.checkpoint].data) < 1_000

    def test_an_older_databus_refuses_by_the_form_and_never_reads_it_as_one_without_outputs(self) -> None:
        known, bare = (StoredCheckpoint.of(knowing(1, ids), 1) for ids in ({"kafka": {"a": "1"}}, {"kafka": {}}))
        assert (json.loads(known.content)["v"], json.loads(bare.content)["v"]) == (3, 1)
        with pytest.raises(CheckpointFormatError, match="without its outputs"):
            Checkpoint.from_json(json.loads(known.content))

    @pytest.mark.parametrize("harm", ["gone", "older"])
    def test_outputs_that_are_not_those_of_the_checkpoint_are_named(self, harm: str) -> None:
        nodes = Nodes()
        moved_to(nodes, knowing(1, {"kafka": {"a": "1"}}), 1)
        older = nodes.held[PATHS.outputs]
        moved_to(nodes, knowing(2, {"kafka": {"a": "1", "b": "1"}}), 2)
        del nodes.held[PATHS.outputs]
        if harm == "older":
            nodes.held[PATHS.outputs] = older
        with pytest.raises(CheckpointFormatError, match="not there" if harm == "gone" else "have the digest") as error:
            _ = nodes.state().checkpoint
        assert "checkpoint of flow orders" in error.value.message
        assert "brought back in parts" in error.value.hint


def test_what_a_person_accepts_is_written_to_both_and_all_forgotten_leaves_no_node() -> None:
    nodes = Nodes()
    moved_to(nodes, knowing(1, {"kafka": {"a": "1", "b": "2"}}), 1)

    def accept(number: int, now: dict[str, str | None]) -> Checkpoint:
        stands = nodes.state().checkpoint
        assert stands is not None
        moved_to(nodes, accepted_checkpoint(stands, AcceptedOutputs("ada", "", {"kafka": now}), Epoch(2)), number)
        found = nodes.state().checkpoint
        assert found is not None
        return found

    assert accept(2, {"a": "3"}).output_ids == {"kafka": {"a": "3", "b": "2"}}
    assert accept(3, {"a": None, "b": None}).output_ids == {}
    assert set(nodes.held) == {PATHS.checkpoint}
