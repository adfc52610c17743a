"""Transforms of one sink in Spark's lane and in both: what the direct lane gives, and a flow for each sink."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from databus import AddColumn, Filter, Lookup, Mask, Memory, NotNull, Project, Route
from databus.core.flow import Flow
from tests.sinks_apart import Here, Told, flow_of, moved, require_apart

pytestmark = pytest.mark.spark

PLAIN = Memory(name="plain", store="plain")
OWN = (
    Filter("amount > 300 OR status = 'new'"),
    Mask("region", keep_last=1),
    Lookup("status", {"new": "1"}, into="rank", missing="hold", tables=("shop.people",)),
)


def told_alike(ours: Told, theirs: Told) -> None:
    assert ours.stores == theirs.stores
    assert [report.tables for report in ours.reports] == [report.tables for report in theirs.reports]
    assert [report.checks for report in ours.reports] == [report.checks for report in theirs.reports]
    assert [report.columns for report in ours.reports] == [report.columns for report in theirs.reports]
    stages = sorted({row.stage for row in ours.held})
    assert [ours.held_by(stage) for stage in stages] == [theirs.held_by(stage) for stage in stages]
    assert len(ours.held) == len(theirs.held)
    for sink in ours.stores:
        assert ours.left_out(sink) == theirs.left_out(sink)


def test_both_lanes_give_a_sink_the_same(spark: Any) -> None:
    sinks = [Memory(name="own", store="own", transforms=OWN), PLAIN]
    flow = flow_of(9, 150, [Mask("status", tables=("shop.orders",))], sinks, [NotNull("customer_id")])
    ours, theirs = moved(Here(), flow), moved(spark, flow.model_copy(update={"lane": "spark"}))

    told_alike(ours, theirs)
    assert ours.left_out("own")
    assert ours.held_by("own")
    assert ours.held_by("check")


@pytest.mark.parametrize("flows", [6])
def test_each_sink_holds_what_a_flow_of_its_own_holds(spark: Any, flows: int) -> None:
    seed = random.SystemRandom().getrandbits(32)
    seen: Counter[str] = Counter()
    for number in range(flows):
        require_apart(spark, seed + number, 60, seen, lane="spark")
    assert seen["left out"], seed


def test_tables_of_a_sinks_transforms_that_do_not_compile_take_sparks_lane(spark: Any) -> None:
    """Batches in two lanes: each sink is given one stream of both, and its own transforms apply to both."""
    own = (Filter("cos(amount) > 0", tables=("shop.people",)), *OWN)
    sinks = [Memory(name="own", store="own", transforms=own), PLAIN]
    flow = flow_of(10, 150, [], sinks, [NotNull("customer_id")])
    two, one = moved(spark, flow), moved(spark, flow.model_copy(update={"lane": "spark"}))

    told_alike(two, one)
    assert {report.through_spark for report in two.reports} == {("shop.people",)}
    assert two.left_out("own")


@pytest.mark.parametrize("before", [(), (Filter("amount > 100"),)], ids=["plain", "filtered"])
def test_copies_are_made_behind_a_sinks_own_transforms(spark: Any, before: tuple[Any, ...]) -> None:
    """Routes by value: an update that moves has a copy at each route, of the images that the sink's filter leaves."""
    route = Route(by="CASE WHEN customer_id % 2 = 0 THEN 'even' ELSE 'odd' END", routes=("even", "odd"))
    own = {
        "even": (Filter("amount > 5000000000"), AddColumn(gross="CAST(amount * 2 AS decimal(14,2))")),
        "all": (Mask("region"), Filter("_op <> 'c' OR amount IS NOT NULL"), Project("id", "amount", "region")),
    }
    routes = {"even": ("even",), "all": ("*",)}
    sinks = [Memory(name=n, store=n, routes=routes[n], transforms=own[n]) for n in own]
    together = moved(spark, flow_of(11, 120, [*before, route], sinks, lane="spark"))
    for name, specs in own.items():
        sink = Memory(name=name, store=name, routes=routes[name])
        flow: Flow = flow_of(11, 120, [*before, route, *specs], [sink], lane="spark")
        assert together.stores[name] == moved(spark, flow).stores[name], name
    assert together.left_out("even")
