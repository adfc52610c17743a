"""Rows that a check held come once to a topic whose cluster was away when the check was mended, or made stricter."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from databus import Batching, Flow, InRange, Kafka, MysqlBinlog
from databus.core.batches.receipts import CHECK
from databus.core.errors import CheckpointConflictError
from databus.ops.ledger.verify import verify
from tests.integration.conftest import World
from tests.integration.kafka_target import consume, event_id
from tests.integration.one_process import run_locally
from tests.integration.test_quarantine import Desk

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]


class TwoTopics(Desk):
    """A flow into two topics; the cluster of the second can be out of reach."""

    def __init__(self, world: World, database: str):
        super().__init__(world, database)
        self.late = world.override("kafka_east")
        self.reached = dict(world.environment)

    def check(self, minimum: int) -> None:
        self.flow = self.flow_of(minimum)

    def flow_of(self, minimum: int) -> Flow:
        sinks = {"first": "kafka_east", "late": self.late}
        return Flow(
            name=self.flow.name,
            source=self.flow.source,
            checks=(InRange("id", minimum, severity="quarantine"),),
            sinks=tuple(
                Kafka(
                    name=name,
                    conn_id=conn_id,
                    topic=f"{self.database}.{name}",
                    partitions=2,
                    slots=2,
                    timeout=timedelta(seconds=5.0),
                )
                for name, conn_id in sinks.items()
            ),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
            sink_outage=timedelta(seconds=0.0),
        )

    def reach(self, *, late: bool) -> None:
        name = f"AIRFLOW_CONN_{self.late.upper()}"
        told = json.loads(self.reached[name])
        if not late:
            told["extra"] = {**_extra(told), "bootstrap.servers": "127.0.0.1:1"}
        self.world.environment[name] = json.dumps(told)

    def given(self, sink: str) -> Counter[str]:
        address = self.world.sandbox.address("kafka")
        return Counter(event_id(m) for m in consume(address, f"{self.database}.{sink}") if m.value())

    def problems(self) -> list[str]:
        with self.services() as services:
            return [str(problem) for problem in verify(self.flow, services, None).problems]


def _extra(told: dict[str, Any]) -> dict[str, Any]:
    extra = told.get("extra", {})
    return dict(json.loads(extra)) if isinstance(extra, str) else dict(extra)


def test_a_topic_that_was_behind_gets_each_held_row_once(world: World, database: str) -> None:
    desk = TwoTopics(world, database)
    assert isinstance(desk.flow.source, MysqlBinlog)
    desk.check(3)
    desk.execute("INSERT INTO orders VALUES (1, '1', 'a@b'), (2, '2', 'a@b'), (3, '3', 'a@b'), (4, '4', 'a@b')")
    desk.reach(late=False)
    assert list(run_locally(world, desk.flow).behind) == ["late"]
    assert {stage for _, stage in desk.held()} == {CHECK}
    assert (len(desk.given("first")), len(desk.held())) == (2, 2)

    desk.check(0)  # mended, and the other one is there again
    desk.reach(late=True)
    with pytest.raises(CheckpointConflictError, match="sink late is behind"):
        desk.replay()
    assert run_locally(world, desk.flow).behind == {}
    assert desk.given("late") == desk.given("first")
    assert desk.problems() == []
    (done,) = desk.replay()
    assert (done.replayed, done.written) == (2, {"first": 2, "late": 2})
    assert desk.given("late") == desk.given("first")
    assert set(desk.given("first").values()) == {1}

    # Stricter while it is away: what only it lacks goes to it alone.
    desk.reach(late=False)
    desk.execute("INSERT INTO orders VALUES (5, '5', 'a@b'), (6, '6', 'a@b')")
    assert list(run_locally(world, desk.flow).behind) == ["late"]
    desk.check(6)
    desk.reach(late=True)
    assert run_locally(world, desk.flow).behind == {}
    assert set(desk.held()) == {('{"id":5}', "late")}
    desk.check(0)
    (done,) = desk.replay()
    assert (done.replayed, done.written) == (1, {"first": 0, "late": 1})
    assert desk.given("late") == desk.given("first")
    assert (len(desk.given("first")), set(desk.given("first").values())) == (6, {1})
