"""A flow of made-up rows on real servers: its script's statements and faults, and what its ledger says of them."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from databus import Batching, Flow, Kafka, Mock, MockFault
from databus.core.errors import OffsetPurgedError, SourceUnavailableError
from databus.core.findings import Level
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.amendments import Attribution
from databus.ops.checkpoint import amend
from databus.ops.checkpoint.targets import Target
from databus.ops.health.doctor import examine_flow
from databus.ops.ledger.show import summary
from databus.ops.ledger.verify import verify
from databus.ops.services import open_services
from databus.ops.trace.follow import trace
from databus.ops.trace.query import recognise
from databus.runtime.context import Services
from tests.integration.conftest import Started
from tests.integration.kafka_target import consume, wait_until
from tests.integration.one_process import OneProcessWorld

pytestmark = pytest.mark.integration

ORDERS, ITEMS = "shop.orders", "shop.items"
ROWS, GONE = 400, 50
STATEMENTS = (
    (60, f"ALTER TABLE {ORDERS} ADD COLUMN note varchar(20)"),
    (120, f"ALTER TABLE {ITEMS} RENAME COLUMN price TO cost"),
    (180, f"ALTER TABLE {ORDERS} MODIFY COLUMN price bigint"),
    (260, f"ALTER TABLE {ORDERS} DROP COLUMN note"),
)


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka"), tmp_path_factory.mktemp("mock"))


def flow_of(*faults: MockFault) -> Flow:
    name = f"mock_{uuid.uuid4().hex[:8]}"
    source = Mock(
        rows=ROWS, tables=(ORDERS, ITEMS), columns={"price": "int", "state": "enum('new','paid')"},
        keys=20, operations=(1, 5, 1), skew=0.8, statements=STATEMENTS, faults=faults,
    )  # fmt: skip
    kafka = Kafka(conn_id="kafka_east", topic=name, partitions=1, tombstones=False, ddl=True)
    return Flow(
        name=name, source=source, sinks=(kafka,), batching=Batching(max_rows=70, max_wait=timedelta(seconds=0.1))
    )


@contextmanager
def services_of(world: OneProcessWorld, flow: Flow) -> Iterator[Services]:
    with open_services(flow, world.connections, world.settings) as services:
        yield services


def messages(world: OneProcessWorld, flow: Flow) -> list[dict[str, Any]]:
    return [json.loads(m.value()) for m in consume(world.sandbox.address("kafka"), flow.name)]


def folded(found: list[dict[str, Any]]) -> tuple[dict[tuple[str, int], Any], Counter[str]]:
    """Return the last state of each row, and how many messages of each operation there are."""
    state: dict[tuple[str, int], Any] = {}
    ops: Counter[str] = Counter()
    for message in found:
        ops[message["op"]] += 1
        image = message.get("after") or message.get("before")
        if image:
            state[message["source"]["table"], image["id"]] = message.get("after")
    return {key: row for key, row in state.items() if row}, ops


def test_rows_follow_statements_into_a_topic_and_the_ledger_adds_up(world: OneProcessWorld) -> None:
    flow = flow_of()
    assert world.run(flow).rows == ROWS
    found = messages(world, flow)
    state, ops = folded(found)
    assert sum(ops[op] for op in "cud") == ROWS
    assert [m["ddl"] for m in found if m["op"] == "m"] == [statement for _, statement in STATEMENTS]
    assert all("cost" in row for (table, _), row in state.items() if table == "items")
    last = [m["after"] for m in found if m["source"]["table"] == "orders" and m.get("after")][-1]
    assert list(last) == ["id", "price", "state"]
    with services_of(world, flow) as services:
        verified = verify(flow, services, None)
        assert verified.problems == ()
        assert summary(verified.state)["rows"]["dispatched"] == ROWS + len(STATEMENTS)
    assert [f for f in examine_flow(flow, world.connections) if f.level is Level.ERROR] == []
    (journey,) = trace(recognise(found[7]["source"]["event_id"]), [flow], (world.connections, world.settings))
    assert journey is not None


def test_each_fault_is_met_once_and_nothing_else_is_missing(world: OneProcessWorld) -> None:
    flow = flow_of(
        MockFault(what="read_fails", at_row=100, times=2),
        MockFault(what="away", at_row=200, lasts=timedelta(seconds=4)),
        MockFault(what="purged", at_row=300, rows=GONE),
    )
    for attempt in (1, 2):
        with pytest.raises(SourceUnavailableError, match=f"row 100 .attempt {attempt} of 2"):
            world.run(flow)
        assert world.checkpoint(flow).batch == 1
    with pytest.raises(SourceUnavailableError, match="away from row 200"):
        world.run(flow)
    assert world.checkpoint(flow).offset == SequenceOffset(23)

    def is_back() -> bool:
        try:
            world.run(flow)
        except SourceUnavailableError:
            return False
        except OffsetPurgedError as error:
            told.append(error.message)
        return True

    told: list[str] = []
    wait_until(is_back, "the source's return")
    assert "from 34 to 39 is gone" in told[-1]
    assert world.checkpoint(flow).offset == SequenceOffset(34)
    with services_of(world, flow) as services:
        amend.execute(flow, services, "skip", Target(past_gap=True), Attribution("ada", "known"))
    world.run(flow)
    _, ops = folded(messages(world, flow))
    assert sum(ops[op] for op in "cud") == ROWS - GONE
    assert ops["m"] == len(STATEMENTS)
    with services_of(world, flow) as services:
        verified = verify(flow, services, None)
        assert verified.problems == ()
        shown = summary(verified.state)
        assert len(shown["gaps"]) == 1
        assert shown["rows"]["dispatched"] == ROWS - GONE + len(STATEMENTS)
