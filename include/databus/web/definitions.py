"""Routes of flows as Airflow has stored them: list, definition, lanes and graph, and where all of them stand."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from databus.core.errors.root import DatabusError
from databus.ops.checkpoint.overview import checkpoints_of
from databus.ops.flows.graph import graph_of, mermaid
from databus.ops.flows.lanes import lane_of, lanes_now
from databus.ops.flows.written import as_written_by_people, listed
from databus.web.installation import Access, DagFlow, Installation, waiting_for_servers
from databus.web.paging import MOST, page, place_of

_AT_ONCE = 100
"""DAGs that are read at once, until a page is full."""

_MOST_LOOKED_AT = 100
"""Checkpoints of a page: each is some reads of ZooKeeper."""

Cursor = Annotated[str, Query(description="`next` of the page before; none for the first.")]


def router(access: Access, installation: Installation) -> APIRouter:
    """Return the routes; none of them changes anything.

    Args:
        access: rights.
        installation: what they work on.
    """
    made = APIRouter(tags=["flows"])
    sees, readable = [Depends(access.sees)], Depends(access.lists)

    @made.get("/definitions")
    def definitions(
        flow: Annotated[str, Query(description="Only the flow, or the DAG, of this name.")] = "",
        cursor: Cursor = "",
        limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
        dags: Any = readable,
    ) -> dict[str, Any]:
        """Flows whose DAG who asks may see, by DAG id, whether they have run or not."""
        after = place_of(cursor, (str,))
        known = installation.among([flow]).get(flow) if flow and flow in dags else None
        if isinstance(known, DagFlow) and known.flow.name == flow:  # the usual case: a DAG has its flow's name
            return page([_listed(flow, known)], limit, [])
        found: list[tuple[str, DagFlow | DatabusError]] = []
        for dag_id, of_dag in stored_behind(installation, dags, after[0] if after else ""):
            if not flow or flow in (dag_id, of_dag.flow.name if isinstance(of_dag, DagFlow) else dag_id):
                found.append((dag_id, of_dag))
            if len(found) > limit:
                break
        return page([_listed(*each) for each in found], limit, [(dag_id,) for dag_id, _ in found])

    @made.get("/checkpoints")
    def checkpoints(
        cursor: Cursor = "", limit: Annotated[int, Query(ge=1, le=_MOST_LOOKED_AT)] = 50, dags: Any = readable
    ) -> dict[str, Any]:
        """Places of all flows whose DAG who asks may see, by DAG id; one that cannot be read says why."""
        after = place_of(cursor, (str,))
        found: list[tuple[str, DagFlow | DatabusError]] = []
        for each in stored_behind(installation, dags, after[0] if after else ""):
            found.append(each)
            if len(found) > limit:
                break
        shown = [*_stand(installation, found[:limit]), *({} for _ in found[limit:])]
        return page(shown, limit, [(dag_id,) for dag_id, _ in found])

    @made.get("/dags/{dag_id}/definition", dependencies=sees)
    def definition(dag_id: str) -> dict[str, Any]:
        """The flow as its DAG file writes it, and its lane as far as the definition says it."""
        of_dag = installation.found(dag_id)
        options = as_written_by_people(of_dag.flow)
        return {"dag_id": dag_id, "file": of_dag.file, "options": options, "lane_taken": lane_of(of_dag.flow)}

    @made.get("/dags/{dag_id}/lanes", dependencies=sees)
    def lanes(dag_id: str) -> dict[str, Any]:
        """Lane of each table as its source has it now; asks the source."""
        flow = installation.found(dag_id).flow
        with waiting_for_servers():
            return {"flow": flow.name, "lanes": lanes_now(flow, installation.connections)}

    @made.get("/dags/{dag_id}/graph", dependencies=sees)
    def graph(dag_id: str) -> dict[str, Any]:
        """The flow's steps as a graph, and the same in Mermaid's language."""
        drawn = graph_of(installation.found(dag_id).flow)
        return {"flow": drawn.flow, "graph": asdict(drawn), "mermaid": mermaid(drawn)}

    return made


def stored_behind(
    installation: Installation, dags: Collection[str], after: str
) -> Iterator[tuple[str, DagFlow | DatabusError]]:
    """Yield the flows of DAGs behind a DAG id, in the order of these."""
    left = sorted(dag_id for dag_id in dags if dag_id > after)
    for first in range(0, len(left), _AT_ONCE):
        yield from sorted(installation.among(left[first : first + _AT_ONCE]).items(), key=lambda found: found[0])


def _listed(dag_id: str, of_dag: DagFlow | DatabusError) -> dict[str, Any]:
    if isinstance(of_dag, DatabusError):
        return {"dag_id": dag_id, "flow": None, "source": None, "sinks": None, "file": None, "error": _told(of_dag)}
    return {"dag_id": dag_id, **listed(of_dag.flow, of_dag.file), "error": None}


def _stand(installation: Installation, found: Sequence[tuple[str, DagFlow | DatabusError]]) -> list[dict[str, Any]]:
    flows = [of_dag.flow for _, of_dag in found if isinstance(of_dag, DagFlow)]
    with waiting_for_servers():
        looks = iter(checkpoints_of(flows, installation.connections))
    items: list[dict[str, Any]] = []
    for dag_id, of_dag in found:
        if isinstance(of_dag, DatabusError):
            items.append({"dag_id": dag_id, "flow": None, "checkpoint": None, "version": None, "error": _told(of_dag)})
            continue
        look = next(looks)
        items.append({
            "dag_id": dag_id,
            "flow": of_dag.flow.name,
            "checkpoint": look.facts,
            "version": look.version or None,
            "error": _told(look.error) if look.error else None,
        })  # fmt: skip
    return items


def _told(error: DatabusError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "hint": error.hint}
