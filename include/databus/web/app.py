"""The application that Airflow's plugin mounts: data routes behind a guard, and the built bundle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI

_APART = "sandbox allow-scripts allow-popups"
"""Policy of a page that shows values of rows: it has an origin of its own, and with it none of Airflow's cookies."""

_NO_BATCH = "A run is recorded once a batch of it is committed."
_NO_DOCS = "DATABUS_DATA_DOCS names their folder, on this server and on the workers; the audit of a run writes them."

Guard = Callable[..., Any]
"""A FastAPI dependency that refuses a request; finds the DAG in the path's `dag_id`."""

Readable = Callable[..., Any]
"""A FastAPI dependency that gives the ids of the DAGs that who asks may see; refuses who may see none at all."""


def create_app(
    guard: Guard, readable: Readable, bundle: Path, operations: Callable[[FastAPI], None] | None = None
) -> FastAPI:
    """Return the application.

    Every data route stands behind the guard: an application that Airflow mounts is open by default. The bundle is
    public, as Airflow's own is: it holds no data.

    Args:
        guard: refuses a user without access to the DAG named in the path.
        readable: says which DAGs a user may see.
        bundle: folder of the built pages.
        operations: adds the routes of operators (`databus.web.operations`), each behind its own guard.
    """
    from fastapi import APIRouter, Depends, FastAPI
    from fastapi.responses import FileResponse
    from fastapi.staticfiles import StaticFiles

    from databus import __version__
    from databus.core.settings import Settings
    from databus.ops.flows.overview import flows_view
    from databus.ops.runs.view import docs_page, flow_of_run, run_view
    from databus.records.overview import delays_view
    from databus.records.store import RecordStore
    from databus.web import problems

    # The description of the routes would be open: it is left out.
    app = FastAPI(title="Databus", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    problems.install(app)
    guarded = APIRouter(prefix="/api/v1", dependencies=[Depends(guard)], responses=problems.RESPONSES)

    seen = Depends(readable)

    def flows(dags: Any = seen) -> dict[str, Any]:
        """All flows that have moved a batch and that who asks may see."""
        return flows_view(dags)

    app.add_api_route("/api/v1/flows", flows, methods=["GET"], responses=problems.RESPONSES)

    def delays(dags: Any = seen) -> dict[str, Any]:
        """Delays of the last hour of all flows that who asks may see: forty spans, null where there was no batch."""
        with RecordStore(Settings.from_environment().records_url) as store:
            return delays_view(store, dags)

    app.add_api_route("/api/v1/delays", delays, methods=["GET"], responses=problems.RESPONSES)

    @guarded.get("/dags/{dag_id}/runs/{run_id}")
    def run(dag_id: str, run_id: str) -> dict[str, Any]:
        """Inputs and outputs of one run; 404 when nothing is recorded of it."""
        flow = flow_of_run(dag_id, run_id)
        found = flow and run_view(flow, run_id)
        if not found:
            raise problems.refused(404, f"nothing is recorded of run {run_id}", _NO_BATCH, "run_not_recorded")
        return found

    @guarded.get("/dags/{dag_id}/runs/{run_id}/data-docs", response_class=FileResponse, response_model=None)
    def data_docs(dag_id: str, run_id: str) -> FileResponse:
        """The run's page of Data Docs; 404 when there is none."""
        flow = flow_of_run(dag_id, run_id)
        page = docs_page(flow, run_id) if flow else None
        if page is None:
            raise problems.refused(404, f"there are no Data Docs of run {run_id}", _NO_DOCS, "no_data_docs")
        return FileResponse(page, media_type="text/html", headers={"Content-Security-Policy": _APART})

    app.include_router(guarded)
    if operations is not None:
        operations(app)
    app.mount("/static", StaticFiles(directory=bundle, check_dir=False), name="static")
    return app


class FirstUse:
    """An ASGI application that is built by its first request: workers load plugins too, and never serve.

    Args:
        build: returns the application.
    """

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self._app: Any = None

    @property
    def app(self) -> Any:
        """The application, built now if nothing was asked before."""
        if self._app is None:
            self._app = self._build()
        return self._app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on."""
        await self.app(scope, receive, send)
