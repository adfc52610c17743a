"""Steps of a catch-up, as values."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from databus.checkpoints.codec import MAX_WRITE_BYTES, encode
from databus.checkpoints.connection.session import Node
from databus.checkpoints.connection.transaction import Operation, OperationKind, size_bytes
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.nodes.stored_outputs import StoredCheckpoint
from databus.checkpoints.paths import Layout
from databus.checkpoints.rules.reconciliation import RECONCILED, catch_up_step
from databus.core.errors import CheckpointConflictError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.plan_outcome import PlanOutcome
from databus.core.state.snapshot import PlannedChunks, Snapshot, TableProgress

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
PATHS = Layout().flow("orders")


def plan_of(batch: int, start: int, spec: str = "spec") -> Plan:
    covered = OffsetRange(SequenceOffset(start), SequenceOffset(start + 1))
    return Plan("default", "orders", batch, covered, {"kafka": SinkPlan(1, (1,))}, spec, NOON)


def done(plan: Plan) -> Checkpoint:
    return Checkpoint(plan.range.end, plan.batch, Epoch(1), "run", plan.hash, {}, NOON, NOON, {"kafka": (plan.batch,)})


def state_of(pending: Plan | None) -> FlowState:
    checkpoint = Node(StoredCheckpoint.of(done(plan_of(1, 0)), 2).content, 5, 0)
    plan = Node(encode(pending.to_json()), 3, 0) if pending else None
    return FlowState("orders", checkpoint, plan, None)


def step(pending: Plan | None, *moved: Plan) -> dict[str, Operation]:
    outcomes = [PlanOutcome(plan, done(plan), [], {}) for plan in moved]
    found = catch_up_step(PATHS, state_of(pending), outcomes, None, lambda _number: [])
    assert found is not None
    assert found.last
    return {operation.path: operation for operation in found.operations}


def test_a_plan_of_a_former_definition_goes_with_the_batch_that_took_its_place() -> None:
    operations = step(plan_of(2, 1, "former"), plan_of(3, 1))
    assert (operations[PATHS.plan].kind, operations[PATHS.plan].version) == (OperationKind.DELETE, 3)
    assert operations[PATHS.checkpoint].version == 5
    assert RECONCILED.encode() in operations[PATHS.history_entry(3)].data


@pytest.mark.parametrize("batch", [2, 3])
def test_another_plan_in_flight_of_the_same_or_a_later_number_is_a_conflict(batch: int) -> None:
    with pytest.raises(CheckpointConflictError, match=f"batch {batch} .* is in flight"):
        step(plan_of(batch, 1, "another"), plan_of(2, 1))


def test_a_catch_up_in_several_steps_moves_the_snapshot_with_each() -> None:
    tables = (TableProgress("shop.orders"),)
    begun = Snapshot(1, "initial", NOON, tables, paused=True)
    moved, snapshot = [], replace(begun, paused=False)
    for batch in range(2, 8):
        if batch != 4:
            table = replace(snapshot.tables[0], state="reading", chunks=snapshot.tables[0].chunks + 1)
            snapshot = replace(snapshot, tables=(table,))
        chunks = PlannedChunks(snapshot, ()) if batch != 4 else None
        moved.append(replace(plan_of(batch, batch - 1), chunks=chunks))
    outcomes = [PlanOutcome(plan, done(plan), [{"sink": "kafka", "blob": "x" * 60_000}], {}) for plan in moved]
    state = replace(state_of(None), snapshot_node=Node(encode(begun.to_json()), 8, 0))
    steps, seen = 0, []
    while (found := catch_up_step(PATHS, state, outcomes, None, lambda _number: [])) is not None:
        operations = {operation.path: operation for operation in found.operations}
        checkpoint, node = operations[PATHS.checkpoint], operations.get(PATHS.snapshot)
        assert size_bytes(found.operations) < MAX_WRITE_BYTES
        at = json.loads(checkpoint.data)["batch"]
        if node is not None:
            assert state.snapshot_node is not None
            assert (node.kind, node.version) == (OperationKind.SET, state.snapshot_node.version)
            after = Snapshot.from_json(json.loads(node.data))
            seen.append((at, after.tables[0].chunks, after.paused))
            state = replace(state, snapshot_node=Node(node.data, node.version + 1, 0))
        state = replace(state, checkpoint_node=Node(checkpoint.data, checkpoint.version + 1, 0))
        steps += 1
    assert steps > 1
    assert seen[-1] == (7, 5, True)
    assert all(chunks == at - 1 - (at >= 4) for at, chunks, _ in seen)


def test_a_snapshot_moves_not_with_the_batches_of_a_sink_that_is_behind() -> None:
    own, begun = PATHS.of_sink("kafka"), Snapshot(1, "initial", NOON, (TableProgress("shop.orders"),))
    plan = replace(plan_of(2, 1), chunks=PlannedChunks(replace(begun, finished_at=NOON), ()))
    outcomes = [PlanOutcome(plan, done(plan), [], {})]
    found = catch_up_step(own, state_of(None), outcomes, None, lambda _number: [])
    assert found is not None
    assert PATHS.snapshot not in {operation.path for operation in found.operations}


def test_a_snapshot_lies_where_a_databus_that_does_not_know_it_sweeps_nothing() -> None:
    assert PATHS.values_folder(PATHS.snapshot) == PATHS.of_sink("kafka").values_folder(PATHS.snapshot)
    assert PATHS.values_folder(PATHS.snapshot) == "orders.snapshot"


def test_large_values_of_a_flow_and_of_its_sinks_lie_apart() -> None:
    own = PATHS.of_sink("back up")
    assert PATHS.values_folder(PATHS.plan) == own.values_folder(PATHS.history_entry(7)) == "orders"
    assert PATHS.values_folder(own.plan) == own.values_folder(own.history_entry(7)) == "orders@back%20up"
    replays = Layout("/flows/x").flow("orders.quarantine")
    assert replays.values_folder(replays.checkpoint) == "orders.quarantine"


def test_known_outputs_lie_where_a_databus_that_does_not_know_them_sweeps_nothing() -> None:
    own, backfill = PATHS.of_sink("back up"), f"{PATHS.backfills}/outputs"
    assert PATHS.values_folder(PATHS.outputs) == own.values_folder(PATHS.outputs) == "orders.outputs"
    assert PATHS.values_folder(own.outputs) == own.values_folder(own.outputs) == "orders.outputs@back%20up"
    assert PATHS.values_folder(backfill) == "orders"
    named = PATHS.of_sink("outputs")
    assert (PATHS.values_folder(named.plan), PATHS.values_folder(named.outputs)) == (
        "orders@outputs",
        "orders.outputs@outputs",
    )
