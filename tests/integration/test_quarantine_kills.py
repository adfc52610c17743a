"""A replay of the quarantine, killed at each of its stages: the row is sent once to each sink, whatever comes after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from databus import Kafka
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.records.held_rows import HeldRows, HeldState
from databus.runtime import replay as replay_module
from tests.integration.conftest import World
from tests.integration.kafka_target import consume, event_id
from tests.integration.test_quarantine import Desk
from tests.integration.zookeeper_away import Killed

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]


def dies_after(patch: pytest.MonkeyPatch, owner: Any, name: str, nth: int = 1) -> None:
    """End the process where a call has returned for the n-th time, as far as the code that called it can tell."""
    real: Callable[..., Any] = getattr(owner, name)
    calls: list[int] = []

    def call(*arguments: Any, **named: Any) -> Any:
        done = real(*arguments, **named)
        calls.append(1)
        if len(calls) == nth:
            raise Killed
        return done

    patch.setattr(owner, name, call)


STAGES = {
    "written to the first of two sinks": (replay_module, "dispatch", 1),
    "written to both sinks": (replay_module, "dispatch", 2),
    "planned": (ZooKeeperCheckpoints, "write_plan", 1),
    "committed": (ZooKeeperCheckpoints, "commit", 1),
}


def test_a_replay_killed_at_any_stage_sends_its_row_once(
    world: World, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(world, database)
    topics = (database, f"{database}.second")
    sinks = tuple(
        Kafka(name=f"sink{number}", conn_id="kafka_east", topic=topic, partitions=2, slots=2)
        for number, topic in enumerate(topics)
    )
    desk.flow = desk.flow.model_copy(update={"sinks": sinks})
    desk.execute(*(f"INSERT INTO orders VALUES ({number}, '1', NULL)" for number in range(len(STAGES) + 2)))
    world.run(desk.flow)
    desk.flow = desk.flow.model_copy(update={"checks": ()})
    ids = [row.event_id for _, row in sorted(desk.held().items())]
    assert len(ids) == len(STAGES) + 2

    def arrived() -> list[Counter[str]]:
        address = world.sandbox.address("kafka")
        return [Counter(event_id(m) for m in consume(address, topic) if m.value()) for topic in topics]

    first, other, *rest = ids
    with monkeypatch.context() as patch:
        dies_after(patch, HeldRows, "take_up")
        with pytest.raises(Killed):
            desk.replay(event_ids=(first,))
    (result,) = desk.replay(event_ids=(other,))  # the row taken up before is not sent with another one's replay
    assert (result.number, result.replayed) == (1, 1)
    sent = Counter({other: 1})
    assert arrived() == [sent, sent]

    for stage, wanted in zip(STAGES, rest, strict=True):
        with monkeypatch.context() as patch:
            dies_after(patch, *STAGES[stage])
            with pytest.raises(Killed):
                desk.replay(event_ids=(wanted,))
        results = desk.replay(event_ids=(wanted,))
        assert sum(r.replayed for r in results) == (0 if stage == "committed" else 1), stage
        sent[wanted] += 1
        assert arrived() == [sent, sent], stage

    (result,) = desk.replay()
    sent[first] += 1
    assert (result.replayed, result.held) == (1, 0)
    assert desk.replay() == []
    assert arrived() == [sent, sent]
    assert {row.event_id for row in desk.held(HeldState.REPLAYED).values()} == set(ids)
