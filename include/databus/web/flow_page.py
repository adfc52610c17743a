"""Route of the page of one flow, behind the guard of its DAG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from fastapi import FastAPI

    from databus.web.app import Guard

Shown = Literal["1h", "24h", "7d"]
"""Windows of the chart."""


def add_flow_page(app: FastAPI, guard: Guard) -> None:
    """Add the route.

    Args:
        app: the application.
        guard: refuses a user without access to the DAG named in the path.
    """
    from fastapi import Depends

    from databus.ops.flows.flow_view import flow_view
    from databus.web import problems

    def flow(dag_id: str, window: Shown = "1h", details: bool = False) -> dict[str, Any]:
        """Graph, chart and batches of the flow that a DAG runs, with details settings; 404 where none is recorded."""
        found = flow_view(dag_id, window, details=details)
        if found is None:
            text = f"nothing is recorded of a flow that DAG {dag_id} runs"
            raise problems.refused(404, text, "A flow is recorded from its first batch on.", "flow_not_recorded")
        return found

    app.add_api_route(
        "/api/v1/dags/{dag_id}/flow",
        flow,
        methods=["GET"],
        dependencies=[Depends(guard)],
        responses=problems.RESPONSES,
    )
