"""Transforms of one sink in the direct lane: each sink holds what a flow of its own would, and no sibling sees them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from databus import (
    AddColumn,
    DropColumns,
    Filter,
    Kafka,
    KeyBy,
    Lookup,
    Mask,
    Memory,
    NotNull,
    RenameColumns,
    Route,
    Split,
)
from databus.core.connections import ConnectionSource
from databus.core.errors import ConfigError
from databus.core.flow_specs import FlowContext
from databus.core.protocols.sink import Sink
from databus.registry import flow_from_json
from databus.runtime.direct.reasons import refusal, table_lanes
from databus.testing.table_batches import table
from tests.sinks_apart import Here, flow_of, moved, require_apart

PLAIN = Memory(name="plain", store="plain")


class Inserts(Memory):
    """A sink as of another package: it accepts inserts alone."""

    def open(self, connections: ConnectionSource, context: FlowContext) -> Sink:
        sink = super().open(connections, context)
        sink.accepts = lambda: frozenset("c")  # type: ignore[method-assign]
        return sink


class BySpark(Mask):
    """A transform as a user's own, for Spark alone."""

    def compilable(self) -> bool:
        return False


@pytest.mark.parametrize("flows", [3, 40])
def test_each_sink_holds_what_a_flow_of_its_own_holds(flows: int) -> None:
    seed = random.SystemRandom().getrandbits(32)
    seen: Counter[str] = Counter()
    for number in range(flows):
        require_apart(Here(), seed + number, 120, seen)
    assert seen["left out"], seed


def test_a_branch_does_not_show_in_its_sibling() -> None:
    own = (
        Filter("amount > 500"),
        Mask("status"),
        AddColumn(gross="CAST(amount * 2 AS decimal(14,2))"),
        RenameColumns({"region": "area"}),
    )
    flow = flow_of(3, 200, [], [Memory(name="cut", store="cut", transforms=own), PLAIN])
    both, alone = moved(Here(), flow), moved(Here(), flow_of(3, 200, [], [PLAIN]))

    assert both.stores["plain"] == alone.stores["plain"]
    after = [record["value"]["after"] for record in both.stores["cut"] if record["value"]["after"]]
    assert after
    assert {frozenset(image) for image in after} == {
        frozenset({"id", "customer_id", "status", "amount", "area", "gross"})
    }
    assert {image["status"] for image in after} <= {"***", None}
    counts = [c for report in both.reports for c in report.tables.values()]
    assert sum(c.dispatched for c in counts) == sum(c.read for c in counts) == 200
    assert both.left_out("cut") == 200 - both.confirmed("cut") > 0
    assert both.left_out("plain") == 0


@pytest.mark.parametrize("own", [(), (DropColumns("region"),), (Mask("region"),), (Filter("amount > 500"),)])
def test_a_sink_is_given_the_operations_that_it_accepts(own: tuple[Any, ...]) -> None:
    told = moved(Here(), flow_of(5, 200, [], [Inserts(name="new", store="new", transforms=own)]))
    all_of_them = moved(Here(), flow_of(5, 200, [*own], [PLAIN])).stores["plain"]
    wanted = [record["event_id"] for record in all_of_them if record["value"]["op"] == "c"]
    assert 0 < len(wanted) < len(all_of_them)
    assert [record["event_id"] for record in told.stores["new"]] == wanted
    counts = [c for report in told.reports for c in report.tables.values()]
    assert sum(c.dispatched for c in counts) == told.confirmed("new") + told.left_out("new")


def test_a_row_that_a_sinks_transform_holds_back_is_held_for_that_sink_alone() -> None:
    own = (Mask("region"), Lookup("status", {"new": "1"}, into="rank", missing="hold"))
    flow = flow_of(4, 100, [], [Memory(name="ranked", store="ranked", transforms=own), PLAIN])
    told = moved(Here(), flow)

    held = [row for row in told.held if row.stage == "ranked"]
    assert held
    assert {row.cause for row in held} == {"lookup(status)"}
    assert {row.stage for row in told.held} == {"ranked"}
    assert '"region":"***"' in "".join(row.payload for row in held)
    assert len(told.stores["plain"]) == 100
    assert told.confirmed("ranked") + len(held) == 100
    assert sum(c.quarantined for report in told.reports for c in report.tables.values()) == len(held)


def test_a_check_sees_the_row_before_the_sinks_transforms_and_holds_it_for_all() -> None:
    own = (DropColumns("customer_id"), Filter("100 / amount >= 0"))
    sinks = [Memory(name="cut", store="cut", transforms=own), PLAIN]
    told = moved(Here(), flow_of(5, 100, [], sinks, [NotNull("customer_id")]))

    assert {row.stage for row in told.held} == {"check"}
    assert {row.cause for row in told.held} == {"not_null(customer_id)"}
    assert '"customer_id":null' in told.held[0].payload
    assert len(told.stores["plain"]) == 100 - len(told.held)


def test_tables_that_a_sink_does_not_take_need_not_have_its_columns() -> None:
    own = (Filter("amount > 0"), DropColumns("status", tables=("shop.orders",)))
    flow = flow_of(
        0, 1, [DropColumns("amount", tables=("shop.people",))], [Memory(routes=("shop.orders",), transforms=own)]
    )
    assert len(moved(Here(), flow).entries) == 2


def test_a_transform_that_does_not_compile_takes_its_tables_through_spark_and_says_so() -> None:
    own = (Filter("cos(amount) > 0", tables=("shop.t",)),)
    flow = flow_of(0, 1, [], [PLAIN, Memory(transforms=own)])
    tables = [table("shop.t", {"id": "int", "amount": "int"}), table("shop.u", {"id": "int"}, schema_id=1)]

    first, second = table_lanes(flow, tables)
    assert (first.lane, second.lane) == ("spark", "direct")
    assert "cos" in first.reason


def test_a_transform_for_spark_of_a_sink_leaves_tables_that_the_sink_does_not_take_in_their_lane() -> None:
    own = (BySpark("amount"),)
    tables = [table(name, {"id": "int", "amount": "int"}, schema_id=n) for n, name in enumerate(("shop.t", "shop.u"))]

    flow = flow_of(0, 1, [], [PLAIN, Memory(routes=("shop.t",), transforms=own)])
    assert refusal(flow) == ""
    first, second = table_lanes(flow, tables)
    assert (first.lane, second.lane) == ("spark", "direct")
    assert first.reason == refusal(flow_of(0, 1, [], [PLAIN, Memory(transforms=own)]))
    assert first.reason == "transform mask amount is applied by Spark alone"


@pytest.mark.parametrize(
    "spec",
    [Route(by="region", routes=("eu",)), Route({"shop.t": "all"}), Split({"big": "amount > 1"}), KeyBy("customer_id")],
    ids=lambda spec: spec.label(),
)
def test_what_chooses_routes_or_keys_is_the_flows(spec: Any) -> None:
    with pytest.raises(ConfigError, match="chooses routes or keys, by which all sinks are told apart"):
        Memory(transforms=(spec,))


def test_the_stored_form_has_them_where_there_are_any() -> None:
    plain = Kafka(conn_id="k", topic="t")
    assert "transforms" not in plain.to_json()
    flow = flow_of(0, 1, [], [Kafka(conn_id="k", topic="t", transforms=(DropColumns("a"), Filter("b > 1")))])
    assert flow_from_json(flow.to_json()) == flow
    bare = flow.model_copy(update={"sinks": (plain,)})
    assert flow.spec_hash("1") != bare.spec_hash("1")
