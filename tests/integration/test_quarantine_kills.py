"""A replay of the quarantine, kill -9 at each of its stages: a row is sent once to each sink, whatever comes after."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from databus import Flow, Kafka
from databus.core.errors import LeaseBusyError
from databus.ops.quarantine.outcome import ReplayResult
from databus.records.quarantine.held_row import HeldState
from tests.integration.conftest import World
from tests.integration.kafka_target import consume, event_id
from tests.integration.killed_replay import STAGES, replay_until
from tests.integration.test_quarantine import Desk

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

LATER = tuple(stage for stage in STAGES if stage != "taken up")
"""The stages that follow; about half a minute each."""


def replay_when_free(desk: Desk, row: str) -> list[ReplayResult]:
    """Replay a row as soon as the lease of the dead process has ended."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return desk.replay(event_ids=(row,))
        except LeaseBusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def stopping_elsewhere(flow: Flow) -> Flow:
    """Return the flow with the other policy of statements on partitions."""
    other = "fail" if getattr(flow.source, "on_partition_ddl", "") == "event" else "event"
    return flow.model_copy(update={"source": flow.source.model_copy(update={"on_partition_ddl": other})})


@pytest.mark.parametrize("later", [LATER[:0], LATER], ids=["taken up", "each stage"])
def test_a_replay_killed_at_any_stage_sends_its_row_once(world: World, database: str, later: tuple[str, ...]) -> None:
    desk = Desk(world, database)
    topics = (database, f"{database}.second")
    sinks = tuple(
        Kafka(name=f"sink{number}", conn_id="kafka_east", topic=topic, partitions=2, slots=2)
        for number, topic in enumerate(topics)
    )
    soon = world.override("zookeeper_default", extra={"session_timeout_s": 2})
    desk.flow = desk.flow.model_copy(update={"sinks": sinks, "zookeeper_conn_id": soon})
    desk.execute(*(f"INSERT INTO orders VALUES ({number}, '1', NULL)" for number in range(len(later) + 2)))
    world.run(desk.flow)
    desk.flow = desk.flow.model_copy(update={"checks": ()})
    ids = [row.event_id for _, row in sorted(desk.held().items())]
    assert len(ids) == len(later) + 2

    def arrived() -> list[Counter[str]]:
        address = world.sandbox.address("kafka")
        return [Counter(event_id(m) for m in consume(address, topic) if m.value()) for topic in topics]

    first, other, *rest = ids
    replay_until("taken up", world, desk.flow, first)
    (result,) = replay_when_free(desk, other)  # the row taken up before is not sent with another one's replay
    assert (result.number, result.replayed) == (1, 1)
    sent = Counter({other: 1})
    assert arrived() == [sent, sent]

    for stage, wanted in zip(later, rest, strict=True):
        replay_until(stage, world, desk.flow, wanted)
        desk.flow = stopping_elsewhere(
            desk.flow
        )  # of no effect on rows: a half-written replay is finished all the same
        results = replay_when_free(desk, wanted)
        assert sum(r.replayed for r in results) == (0 if stage == "committed" else 1), stage
        sent[wanted] += 1
        assert arrived() == [sent, sent], stage

    (result,) = desk.replay()
    sent[first] += 1
    assert (result.replayed, result.held) == (1, 0)
    assert desk.replay() == []
    assert arrived() == [sent, sent]
    assert {row.event_id for row in desk.held(HeldState.REPLAYED).values()} == set(ids)
