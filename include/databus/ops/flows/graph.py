"""A flow as a graph: one pure function used by docs, CLI and UI."""

from __future__ import annotations

from dataclasses import dataclass

from databus.core.flow import Flow


@dataclass(frozen=True)
class GraphNode:
    """Graph node: one step of a flow.

    Attributes:
        id: short id, unique in the graph.
        stage: "source", "transform", "check" or "sink".
        kind: registry kind.
        label: text shown.
    """

    id: str
    stage: str
    kind: str
    label: str


@dataclass(frozen=True)
class GraphEdge:
    """A connection between two steps; `label` names the routes a sink takes, "" for all."""

    start: str
    end: str
    label: str = ""


@dataclass(frozen=True)
class FlowGraph:
    """Nodes in the order of the path and the edges between them."""

    flow: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


def graph_of(flow: Flow) -> FlowGraph:
    """Return the graph of a flow."""
    source = flow.source
    nodes = [GraphNode("source", "source", source.kind, f"{source.kind} {', '.join(source.datasets())}".strip())]
    edges: list[GraphEdge] = []
    chain = [
        *(GraphNode(f"transform{n}", "transform", t.kind, t.label()) for n, t in enumerate(flow.transforms)),
        *(GraphNode(f"check{n}", "check", c.kind, f"{c.check_name} {c.severity}") for n, c in enumerate(flow.checks)),
    ]
    for node in chain:
        edges.append(GraphEdge(nodes[-1].id, node.id))
        nodes.append(node)
    last = nodes[-1].id
    for number, sink in enumerate(flow.sinks):
        start, routes = last, "" if sink.routes == ("*",) else ", ".join(sink.routes)
        for place, each in enumerate(sink.transforms):
            nodes.append(GraphNode(f"sink{number}_transform{place}", "transform", each.kind, each.label()))
            edges.append(GraphEdge(start, nodes[-1].id, routes))
            start, routes = nodes[-1].id, ""
        nodes.append(
            GraphNode(f"sink{number}", "sink", sink.kind, f"{sink.sink_name} {' '.join(sink.datasets())}".strip())
        )
        edges.append(GraphEdge(start, f"sink{number}", routes))
    if flow.checks:
        nodes.append(GraphNode("quarantine", "sink", "quarantine", "quarantine"))
        edges.append(GraphEdge(last, "quarantine", "rows that a check holds back"))
    return FlowGraph(flow.name, tuple(nodes), tuple(edges))


def mermaid(graph: FlowGraph) -> str:
    """Return the graph in mermaid's flowchart language."""
    shapes = {"source": ("[(", ")]"), "transform": ("[", "]"), "check": ("{{", "}}"), "sink": ("([", "])")}
    lines = ["flowchart LR"]
    for node in graph.nodes:
        opening, closing = shapes[node.stage]
        lines.append(f'  {node.id}{opening}"{_quoted(node.label)}"{closing}')
    for edge in graph.edges:
        arrow = f' -- "{_quoted(edge.label)}" --> ' if edge.label else " --> "
        lines.append(f"  {edge.start}{arrow}{edge.end}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;")
