"""Pause, rewind, skip and restore on real servers: what a consumer of Kafka and a reader of the index then see."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from databus import Batching, Elasticsearch, Flow
from databus.core.errors import (
    CheckpointConflictError,
    ConfigError,
    FlowPausedError,
    LeaseBusyError,
    MarkerDivergedError,
    OffsetInvalidError,
    SinkError,
    SinkSettingError,
)
from databus.core.positions.gaps import SKIPPED
from databus.core.positions.offsets import Ordering
from databus.core.state.amendments import Action
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.plan import Plan
from databus.demo.consumers import index_documents
from databus.demo.oracle import fold
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.preview import CheckpointMove
from databus.ops.checkpoint.targets import Target
from databus.ops.services import open_services, opened_ends
from databus.runtime import batch as batch_module
from databus.runtime import window as window_module
from databus.runtime.context import Services
from tests.integration.command_line import Cli
from tests.integration.commands import Commands
from tests.integration.conftest import World
from tests.integration.kafka_target import consume, event_id, forget_kept
from tests.integration.one_process import run_locally
from tests.integration.shop_flow import Shop, assert_arrived_once

pytestmark = [pytest.mark.integration, pytest.mark.spark]

ADA = Attribution("ada", "a bad mapping")


@contextmanager
def services_of(world: World, shop: Shop) -> Iterator[Services]:
    with open_services(shop.flow, world.connections, world.settings) as services:
        yield services


def do(
    world: World, shop: Shop, action: Action, target: Target, said: Attribution = ADA
) -> tuple[CheckpointMove, Checkpoint]:
    with services_of(world, shop) as services:
        return mediation.execute(shop.flow, services, action, target, said)


def look(world: World, shop: Shop, action: Action, target: Target) -> CheckpointMove:
    with services_of(world, shop) as services:
        return mediation.preview(shop.flow, services, action, target)


def arrived(world: World, shop: Shop) -> list[str]:
    """Event ids in the order in which a read_committed consumer gets them, partition by partition."""
    messages = consume(world.sandbox.address("kafka"), shop.name)
    return [event_id(message) for message in messages if message.value() is not None]


def assert_a_deduplicating_consumer_sees_all_once(world: World, shop: Shop) -> None:
    """Drop records whose event id came before: what is left must be every change, once, in order."""
    known: set[tuple[str, bool]] = set()
    kept: list[tuple[bytes | None, bytes | None]] = []
    for message in consume(world.sandbox.address("kafka"), shop.name):
        identity = (event_id(message), message.value() is None)
        if identity not in known:
            known.add(identity)
            kept.append((message.key(), message.value()))
    assert_arrived_once(shop.connection, shop.writer.written, fold(kept))


def direct_shop(world: World, name: str, **sink: Any) -> Shop:
    """A shop whose flow takes the direct lane."""
    shop = Shop(world, name, **sink)
    shop.flow = shop.flow.model_copy(update={"checks": ()})
    return shop


def in_batches(world: World, shop: Shop, count: int, run: Callable[[Flow], Any] | None = None) -> list[Checkpoint]:
    """Write and run so often, and return the checkpoint after each."""
    made = []
    for _ in range(count):
        shop.writer.run(20)
        (run or partial(run_locally, world))(shop.flow)
        made.append(world.checkpoint(shop.flow))
    return made


@pytest.fixture
def fails_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make the next batch end as a killed run's does: before anything is dispatched, or before the commit."""

    def at(stage: str) -> pytest.MonkeyPatch:
        def fail(*_: Any, **__: Any) -> Any:
            raise SinkError("killed here")

        monkeypatch.setattr(batch_module, {"dispatch": "_move_direct", "commit": "commit"}[stage], fail)
        return monkeypatch

    return at


def leave_a_plan(world: World, shop: Shop, fails: pytest.MonkeyPatch) -> Plan:
    shop.writer.run(20)
    with pytest.raises(SinkError, match="killed here"):
        run_locally(world, shop.flow)
    fails.undo()
    with services_of(world, shop) as services:
        plan = services.store.pending_plan(shop.name)
    assert plan is not None
    return plan


def test_every_kind_of_place_is_found(world: World) -> None:
    shop = direct_shop(world, "med_places", partitions=2)
    first, second, third = in_batches(world, shop, 3)
    connection = shop.connection
    with connection.cursor() as cursor:
        cursor.execute("SELECT SLEEP(1.1)")
        cursor.execute("SELECT NOW(6)")
        when = cursor.fetchone()[0].replace(tzinfo=UTC)
    (fourth,) = in_batches(world, shop, 1)
    for target, wanted in (
        (Target(str(second.offset)), second),
        (Target(f"gtid:{second.offset.gtids}"), second),  # type: ignore[attr-defined]
        (Target(json.dumps(first.offset.to_json())), first),
        (Target(batches=1), third),
        (Target(batches=3), first),
        (Target(when.isoformat()), third),
    ):
        move = look(world, shop, "rewind", target)
        assert move.end.compare(wanted.offset) is Ordering.EQUAL, target
        assert move.end.gtids == wanted.offset.gtids, target  # type: ignore[attr-defined]
        assert (move.back, move.next_batch) == (True, fourth.batch + 1)
    assert look(world, shop, "restore", Target(entry=2)).end == first.offset
    between = look(world, shop, "rewind", Target(str(second.offset)))
    assert between.bytes == fourth.offset.pos - second.offset.pos  # type: ignore[attr-defined]
    assert between.passed.complete
    assert between.passed.batches == 2
    for wrong, error in (
        (Target(batches=5), ConfigError),
        (Target(f"{second.offset.file}:{second.offset.pos + 1}"), OffsetInvalidError),  # type: ignore[attr-defined]
        (Target("last tuesday"), ConfigError),
        (Target('{"kind": "binlog"}'), ConfigError),
        (Target("latest"), CheckpointConflictError),
        (Target(json.dumps({**first.offset.to_json(), "gtids": second.offset.gtids})), OffsetInvalidError),  # type: ignore[attr-defined]
    ):
        with pytest.raises(error):
            look(world, shop, "rewind", wrong)
    with pytest.raises(ConfigError, match="history entry 99"):
        look(world, shop, "restore", Target(entry=99))
    with pytest.raises(CheckpointConflictError, match="skip to"):
        look(world, shop, "skip", Target(batches=1))
    with pytest.raises(ConfigError, match="nothing is missing"):
        look(world, shop, "skip", Target(past_gap=True))
    assert world.checkpoint(shop.flow) == fourth


@pytest.mark.parametrize("slots", [1, 2])
def test_a_rewind_repeats_rows_with_the_same_ids_and_the_markers_chain_on(world: World, slots: int) -> None:
    shop = direct_shop(world, f"med_rewind_{slots}", partitions=2, slots=slots)
    _, second, third = in_batches(world, shop, 3)
    before = arrived(world, shop)
    assert len(set(before)) == len(before)
    move, amended = do(world, shop, "rewind", Target(batches=1))
    assert (amended.offset, amended.batch) == (second.offset, third.batch)
    assert arrived(world, shop) == before  # nothing is sent by the rewind itself
    run_locally(world, shop.flow)
    seen = Counter(arrived(world, shop))
    repeated = [name for name, count in seen.items() if count == 2]
    assert set(seen) == set(before)
    assert 0 < len(repeated) <= move.passed.written["kafka"]
    assert sum(move.passed.rows.values()) >= len(repeated)
    assert f"up to {move.passed.written['kafka']} records again" in move.effects[0].effect
    once = dict.fromkeys(arrived(world, shop))
    assert len(once) == len(before)
    in_batches(world, shop, 2)
    assert Counter(arrived(world, shop)).most_common(1)[0][1] == 2
    assert_a_deduplicating_consumer_sees_all_once(world, shop)
    with services_of(world, shop) as services:
        entries = services.store.history(shop.name, 10)
    (rewound,) = (e for e in entries if e.action == "rewind")
    assert (rewound.who, rewound.why, rewound.previous, rewound.offset) == (
        "ada", "a bad mapping", third.offset, second.offset,
    )  # fmt: skip


def test_a_skip_leaves_rows_out_and_names_the_gap(world: World) -> None:
    shop = direct_shop(world, "med_skip")
    (first,) = in_batches(world, shop, 1)
    before = arrived(world, shop)
    shop.writer.run(20)
    assert look(world, shop, "skip", Target("latest")).bytes > 0
    move, amended = do(world, shop, "skip", Target("latest"))
    run_locally(world, shop.flow)
    assert arrived(world, shop) == before
    with services_of(world, shop) as services:
        (gap,) = services.store.gaps(shop.name)
    assert (gap.number, gap.start, gap.end, gap.cause, gap.decision, gap.who, gap.why) == (
        1, first.offset, amended.offset, "skip", SKIPPED, "ada", "a bad mapping",
    )  # fmt: skip
    in_batches(world, shop, 1)
    assert len(arrived(world, shop)) > len(before)
    assert move.passed.batches == 0


@pytest.mark.parametrize("stage", ["dispatch", "commit"])
@pytest.mark.parametrize("action", ["rewind", "skip"])
def test_a_plan_in_flight_is_closed_first(world: World, fails_at: Any, stage: str, action: Action) -> None:
    """Whoever still holds the closed plan can write nothing; its batch number is used up, and the markers chain on."""
    shop = direct_shop(world, f"med_{action}_{stage}", partitions=2, slots=2)
    (first,) = in_batches(world, shop, 1)
    delivered = len(arrived(world, shop))
    plan = leave_a_plan(world, shop, fails_at(stage))
    target = Target(batches=1) if action == "rewind" else Target("latest")
    seen = look(world, shop, action, target)
    assert (seen.pending, seen.next_batch) == (plan, plan.batch + 1)
    assert seen.half_written == (("kafka",) if stage == "commit" else ())
    forget_kept()
    _, amended = do(world, shop, action, target)
    assert (amended.batch, amended.slots["kafka"]) == (plan.batch, (plan.batch, plan.batch))
    if stage == "dispatch":
        with opened_ends(shop.flow, _Services(world)) as ends, pytest.raises(MarkerDivergedError, match="abandoned"):
            ends.sinks["kafka"].writer(plan).write((), 0)
        forget_kept()
    run_locally(world, shop.flow)
    assert world.checkpoint(shop.flow).batch == plan.batch + (1 if action == "rewind" else 0)
    in_batches(world, shop, 1)
    times = Counter(Counter(arrived(world, shop)).values())
    if action == "skip":
        assert set(times) == {1}
        return
    # Twice came the batch that was gone back over, and that of the closed plan where it had been written.
    assert set(times) == {1, 2}
    with services_of(world, shop) as services:
        commits = [e for e in services.store.history(shop.name, 20) if e.action == "commit"]
    again = next(e for e in commits if e.batch == plan.batch + 1)
    dispatched = sum(counts.dispatched for counts in again.counts.values())
    assert times[2] == (dispatched if stage == "commit" else delivered)
    assert_a_deduplicating_consumer_sees_all_once(world, shop)
    assert first.batch < plan.batch


class _Services:
    """What `opened_ends` takes of services."""

    def __init__(self, world: World):
        self.connections, self.settings, self.server_ids = world.connections, world.settings, None


def test_an_amendment_that_was_cut_off_is_repeated(
    world: World, fails_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the closing of a plan and the move of the checkpoint no run can go on, and nothing is lost."""
    shop = direct_shop(world, "med_cut")
    in_batches(world, shop, 2)
    plan = leave_a_plan(world, shop, fails_at("dispatch"))
    from databus.checkpoints.zookeeper import ZooKeeperCheckpoints

    def cut(*_: Any) -> Any:
        raise SinkError("killed here")

    monkeypatch.setattr(ZooKeeperCheckpoints, "amend", cut)
    with pytest.raises(SinkError, match="killed here"):
        do(world, shop, "rewind", Target(batches=1))
    monkeypatch.undo()
    with pytest.raises(MarkerDivergedError, match="abandoned") as stopped:
        run_locally(world, shop.flow)
    assert "repeat it" in stopped.value.hint
    _, amended = do(world, shop, "rewind", Target(batches=1))
    assert amended.batch == plan.batch
    run_locally(world, shop.flow)
    assert max(Counter(arrived(world, shop)).values()) == 2
    assert_a_deduplicating_consumer_sees_all_once(world, shop)


def test_it_is_refused_while_a_run_holds_the_flow(world: World) -> None:
    shop = direct_shop(world, "med_busy")
    (standing,) = in_batches(world, shop, 1)
    with services_of(world, shop) as holder:
        lease = holder.store.claim(shop.name, "scheduled__2026", 0)
        with pytest.raises(LeaseBusyError, match="scheduled__2026") as busy:
            do(world, shop, "rewind", Target("earliest"))
        assert f"databus checkpoint pause {shop.name}" in busy.value.hint
        lease.release()
    assert world.checkpoint(shop.flow).offset == standing.offset
    with pytest.raises(ConfigError, match="who and why"):
        Attribution("ada", " ")


def test_a_pause_drains_the_window_and_lets_none_begin(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = direct_shop(world, "med_pause")
    shop.flow = shop.flow.model_copy(update={"batching": Batching(max_rows=20, max_wait=timedelta(seconds=1))})
    shop.writer.run(200)
    begun, results = threading.Event(), []
    real = window_module.move_batch  # type: ignore[attr-defined]

    def noticed(*arguments: Any, **told: Any) -> Any:
        moved = real(*arguments, **told)
        begun.set()
        return moved

    monkeypatch.setattr(window_module, "move_batch", noticed)
    thread = threading.Thread(target=lambda: results.append(run_locally(world, shop.flow)))
    thread.start()
    assert begun.wait(120)
    with services_of(world, shop) as services:
        mediation.pause(shop.flow, services, Attribution("ada", "maintenance"))
    thread.join(120)
    (result,) = results
    assert "paused by ada" in result.paused
    assert "maintenance" in result.summary()["paused"]
    behind = world.checkpoint(shop.flow)
    with pytest.raises(FlowPausedError, match=r"paused by ada.*maintenance"):
        run_locally(world, shop.flow)
    assert world.checkpoint(shop.flow) == behind
    with services_of(world, shop) as services:
        assert services.store.pending_plan(shop.name) is None
        former = mediation.resume(shop.flow, services, Attribution("bob", "done"))
    assert former is not None
    run_locally(world, shop.flow)
    shop.assert_all_arrived_once()


def test_a_compacted_topic_is_not_rewound_unless_accepted(world: World) -> None:
    shop = direct_shop(world, "med_compacted", topic_config={"cleanup.policy": "compact"})
    in_batches(world, shop, 2)
    move = look(world, shop, "rewind", Target(batches=1))
    assert "compacted" in move.effects[0].refused
    before = world.checkpoint(shop.flow)
    with pytest.raises(SinkSettingError, match="compacted") as refused:
        do(world, shop, "rewind", Target(batches=1))
    assert refused.value.code == "sink_refuses_move"
    assert world.checkpoint(shop.flow) == before
    do(world, shop, "rewind", Target(batches=1), Attribution("ada", "readers know", consents=True))


def test_an_index_is_as_it_was_after_a_rewind(world: World) -> None:
    shop = direct_shop(world, "med_index")
    mapping = {"properties": {"customer_id": {"type": "unsigned_long"}}}
    only = Elasticsearch(conn_id="opensearch_default", index="med-{table}", routes=("shop.customers",), mapping=mapping)
    shop.flow = shop.flow.model_copy(update={"sinks": (only,), "checks": (), "transforms": ()})
    in_batches(world, shop, 2)
    address = world.sandbox.address("opensearch")
    before = index_documents(address, "med-customers")
    assert before
    move, _ = do(world, shop, "rewind", Target(batches=2))
    assert "idempotent by version" in move.effects[0].effect
    run_locally(world, shop.flow)
    assert index_documents(address, "med-customers") == before


def test_the_command_previews_and_executes(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = direct_shop(world, "med_cli")
    shop.dag_file(tmp_path)
    run = Commands(world, tmp_path, monkeypatch)
    with pytest.raises(CheckpointConflictError, match="no checkpoint"):
        run("checkpoint", "rewind", shop.name, "earliest")
    _, second = in_batches(world, shop, 2)
    seen = run.json("checkpoint", "rewind", shop.name, "--batches", "1")
    assert (seen["done"], seen["direction"], seen["next_batch"]) == (False, "back", second.batch + 1)
    with pytest.raises(ConfigError, match="who and why"):
        run("checkpoint", "rewind", shop.name, "--batches", "1", "--execute")
    assert world.checkpoint(shop.flow) == second
    done = run.json("checkpoint", "rewind", shop.name, "--batches", "1", "--reason", "bad mapping", "--execute")
    assert done["done"]
    assert world.checkpoint(shop.flow).offset.to_json() == done["to_offset"]
    newest = run.json("checkpoint", "history", shop.name)[0]
    assert (newest["action"], newest["why"]) == ("rewind", "bad mapping")
    assert "@" in newest["who"]
    run("checkpoint", "pause", shop.name)
    assert run.json("checkpoint", "show", shop.name)["paused"] is None
    run("checkpoint", "pause", shop.name, "--reason", "maintenance", "--execute")
    assert "maintenance" in run.json("checkpoint", "show", shop.name)["paused"]
    ran = run.json("run", shop.name, "--until-caught-up", "--spark", f"sc://{world.sandbox.address('spark')}")
    assert "maintenance" in ran["paused"]
    assert "sink kafka" in run("checkpoint", "skip", shop.name, "latest").stdout
    run("checkpoint", "skip", shop.name, "latest", "--reason", "not wanted", "--execute")
    assert [gap["decision"] for gap in run.json("gaps", shop.name)] == ["skipped"]
    run("checkpoint", "restore", shop.name, "1", "--reason", "all again", "--execute")
    run("checkpoint", "resume", shop.name, "--reason", "done", "--execute")
    assert run.json("checkpoint", "show", shop.name)["paused"] is None


def test_the_command_ends_with_the_code_of_its_error(world: World, tmp_path: Path) -> None:
    shop = direct_shop(world, "med_codes")
    shop.dag_file(tmp_path)
    refused = Cli(world, tmp_path)("checkpoint", "rewind", shop.name, "earliest", code=3)
    assert "no checkpoint" in refused.stderr
