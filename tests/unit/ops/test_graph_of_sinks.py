"""Graph of a flow whose sinks have transforms of their own: each stands in front of its sink."""

from __future__ import annotations

from databus import DropColumns, Filter, Flow, Memory, Mock, NotNull
from databus.core.flow_specs import SinkSpec
from databus.ops.flows.graph import graph_of, mermaid
from databus.ops.flows.lanes import lane_of


def flow_of(*sinks: SinkSpec) -> Flow:
    return Flow(name="f", source=Mock(rows=1), checks=(NotNull("id"),), sinks=sinks)


def test_a_sinks_own_transforms_stand_between_the_checks_and_the_sink() -> None:
    own = Memory(name="own", routes=("shop.*",), transforms=(Filter("amount > 1"), DropColumns("email")))
    graph = graph_of(flow_of(own, Memory()))

    edges = [(edge.start, edge.end, edge.label) for edge in graph.edges]
    assert ("check0", "sink0_transform0", "shop.*") in edges
    assert ("sink0_transform0", "sink0_transform1", "") in edges
    assert ("sink0_transform1", "sink0", "") in edges
    assert ("check0", "sink1", "") in edges
    assert 'sink0_transform0["filter amount > 1"]' in mermaid(graph)


def test_the_lane_in_words_looks_at_the_transforms_of_sinks() -> None:
    assert lane_of(flow_of(Memory(transforms=(Filter("amount > 1"),)))).startswith("direct, where the types")
