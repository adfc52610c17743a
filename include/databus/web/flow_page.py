"""Route of the page of one flow, behind the guard of its DAG."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from databus.core.errors.root import DatabusError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from databus.web.app import Guard

Shown = Literal["1h", "24h", "7d"]
"""Windows of the chart."""


@contextmanager
def answered(status: int = 503) -> Iterator[None]:
    """Answer with an error of ours: its code, what it says and what to do.

    Args:
        status: of the answer.
    """
    from fastapi import HTTPException

    try:
        yield
    except DatabusError as error:
        raise HTTPException(status, detail_of(error)) from error


def detail_of(error: DatabusError) -> dict[str, Any]:
    """Return what a page shows of an error."""
    return {"code": error.code, "message": error.message, "hint": error.hint}


def add_flow_page(app: FastAPI, guard: Guard) -> None:
    """Add the route.

    Args:
        app: the application.
        guard: refuses a user without access to the DAG named in the path.
    """
    from fastapi import Depends, HTTPException

    from databus.ops.flows.flow_view import flow_view

    def flow(dag_id: str, window: Shown = "1h", details: bool = False) -> dict[str, Any]:
        """Graph, chart and batches of the flow that a DAG runs, with details settings; 404 where none is recorded."""
        with answered():
            found = flow_view(dag_id, window, details=details)
        if found is None:
            text = f"nothing is recorded of a flow that DAG {dag_id} runs"
            raise HTTPException(404, {"code": "flow_not_recorded", "message": text})
        return found

    app.add_api_route("/api/v1/dags/{dag_id}/flow", flow, methods=["GET"], dependencies=[Depends(guard)])
