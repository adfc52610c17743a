"""Routes of mirrors: which there are, how each stands, and what offsets became on the other side."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from databus.core.errors.root import DatabusError
from databus.ops.mirror.consumer_groups import group_places
from databus.ops.mirror.overview import is_mirror, mirror_listed, mirror_state
from databus.ops.mirror.translate import mapped, span_facts
from databus.web.accounts import LAST_PARTITION
from databus.web.definitions import Cursor, stored_behind
from databus.web.installation import Access, DagFlow, Installation
from databus.web.paging import MOST, page, place_of

_LARGEST = 2**63 - 1
_MOST_SPANS = 5_000
"""Spans of a page: each page reads the map again."""

Back = Annotated[bool, Query(description="From the target to the source.")]


def router(access: Access, installation: Installation) -> APIRouter:
    """Return the routes; none of them changes anything.

    Args:
        access: rights.
        installation: what they work on.
    """
    made = APIRouter(tags=["mirrors"])
    sees, readable = [Depends(access.sees)], Depends(access.lists)

    @made.get("/mirrors")
    def mirrors(
        cursor: Cursor = "", limit: Annotated[int, Query(ge=1, le=MOST)] = 100, dags: Any = readable
    ) -> dict[str, Any]:
        """Mirrors whose DAG who asks may see, by DAG id; a DAG whose flow cannot be read says why."""
        after = place_of(cursor, (str,))
        found: list[tuple[str, dict[str, Any]]] = []
        for dag_id, of_dag in stored_behind(installation, dags, after[0] if after else ""):
            if isinstance(of_dag, DatabusError) or is_mirror(of_dag.flow):
                found.append((dag_id, _listed(dag_id, of_dag)))
            if len(found) > limit:
                break
        return page([item for _, item in found], limit, [(dag_id,) for dag_id, _ in found])

    @made.get("/dags/{dag_id}/mirror", dependencies=sees)
    def mirror(dag_id: str) -> dict[str, Any]:
        """State of a mirror now: lag, heartbeat, groups, pause, alerts; asks both clusters."""
        with installation.opened(dag_id) as (flow, services):
            return mirror_state(flow, services)

    @made.get("/dags/{dag_id}/mirror/offsets", dependencies=sees)
    def offsets(  # noqa: PLR0913, PLR0917 - one parameter per one of the address
        dag_id: str,
        topic: Annotated[str, Query(max_length=1_000)],
        partition: Annotated[int, Query(ge=0, le=LAST_PARTITION)],
        first: Annotated[int, Query(alias="from", ge=0, le=_LARGEST, description="First offset.")] = 0,
        last: Annotated[
            int | None, Query(alias="to", ge=1, le=_LARGEST, description="Offset behind the last; all by default.")
        ] = None,
        back: Back = False,
        cursor: Cursor = "",
        limit: Annotated[int, Query(ge=1, le=_MOST_SPANS)] = 1_000,
    ) -> dict[str, Any]:
        """Offsets of a partition and what they became on the other side, as spans; after a rewind one has several."""
        after = place_of(cursor, (int,))
        begin = max(0, after[0]) if after else 0
        with installation.opened(dag_id) as (flow, services):
            found = mapped(flow, services, (topic, partition), (first, last), back=back)
        shown = [span_facts(*each) for each in found[begin : begin + limit + 1]]
        return page(shown, limit, [(begin + number,) for number in range(1, len(shown) + 1)])

    @made.get("/dags/{dag_id}/mirror/group", dependencies=sees)
    def group(
        dag_id: str, name: Annotated[str, Query(min_length=1, max_length=1_000)], back: Back = False
    ) -> dict[str, Any]:
        """Offsets of a consumer group, and where it would go on on the other side; nothing is set."""
        with installation.opened(dag_id) as (flow, services):
            found = group_places(flow, services, name, back=back)
        places = [
            {
                "topic": one.place[0],
                "partition": one.place[1],
                "offset": one.offset,
                "other_topic": one.other[0] if one.other else None,
                "other_partition": one.other[1] if one.other else None,
                "other_offset": one.other_offset,
                "committed": one.committed,
            }
            for one in found
        ]
        return {"flow": flow.name, "group": name, "places": places}

    return made


def _listed(dag_id: str, of_dag: DagFlow | DatabusError) -> dict[str, Any]:
    if isinstance(of_dag, DatabusError):
        told = {"code": of_dag.code, "message": of_dag.message, "hint": of_dag.hint}
        return {"dag_id": dag_id, "mirror": None, "error": told}
    return {"dag_id": dag_id, "mirror": mirror_listed(of_dag.flow), "error": None}
