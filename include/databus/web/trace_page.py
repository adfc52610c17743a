"""Routes of the page of traces: journeys through flows that who asks may see, and rows for those who may edit a DAG."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from databus.core.connections import ConnectionSource
from databus.core.settings import Settings
from databus.ops.trace.query import Kind

if TYPE_CHECKING:
    from fastapi import FastAPI

    from databus.web.app import Guard, Readable

_AT_ONCE = 2
"""Traces that run at once in a process: each may read from several servers."""

_WAITING = 4
"""Traces that wait for these, each in a thread that Airflow's own requests lack; more are refused at once."""

_WAIT_S = 20.0
_LONGEST = 2_000


def add_trace_page(app: FastAPI, readable: Readable, editing: Guard, connections: ConnectionSource) -> None:
    """Add the routes.

    Args:
        app: the application.
        readable: says which DAGs a user may see.
        editing: refuses a user who may not edit the DAG named in the path: row values are for those who may.
        connections: where servers are.
    """
    from fastapi import Depends, Query

    from databus.ops.trace.view import TraceAsked, TracePage
    from databus.web import problems

    free, let_in = threading.BoundedSemaphore(_AT_ONCE), threading.BoundedSemaphore(_AT_ONCE + _WAITING)
    seen = Depends(readable)
    asked, of_sink, at_place = (Query(min_length=1, max_length=_LONGEST) for _ in range(3))
    of_table, of_flow, at_site = (Query("", max_length=_LONGEST) for _ in range(3))
    in_lines = Query(False, description="Also each journey as lines for people, as the command prints them.")

    def answer(ask: Any) -> dict[str, Any]:
        if not let_in.acquire(blocking=False):
            raise busy(f"{_AT_ONCE} traces are running, and {_WAITING} wait for them")
        try:
            if not free.acquire(timeout=_WAIT_S):
                raise busy(f"{_AT_ONCE} traces have been running for {_WAIT_S:g} seconds")
            try:
                found: dict[str, Any] = ask(TracePage(connections, Settings.from_environment()))
                return found
            finally:
                free.release()
        finally:
            let_in.release()

    def busy(message: str) -> Exception:
        return problems.refused(503, message, "Try again.", "trace_busy")

    def trace(  # noqa: PLR0913, PLR0917 - one parameter per one of the address
        q: str = asked,
        table: str = of_table,
        kind: Kind | None = None,
        flow: str = of_flow,
        site: str = at_site,
        lines: bool = in_lines,
        dags: Any = seen,
    ) -> dict[str, Any]:
        """Journeys of what a text asks for; 404 when none is recorded, and what was looked through."""
        wanted = TraceAsked(q, table, kind or "", flow, site, lines=lines)
        return answer(lambda page: page.trace(wanted, dags))

    def images(dag_id: str, sink: str = of_sink, place: str = at_place) -> dict[str, Any]:
        """The row before and after a change, as a sink of the DAG's flow holds it."""
        return answer(lambda page: page.images(dag_id, sink, place))

    known = problems.RESPONSES
    app.add_api_route("/api/v1/trace", trace, methods=["GET"], responses=known)
    app.add_api_route(
        "/api/v1/dags/{dag_id}/images", images, methods=["GET"], dependencies=[Depends(editing)], responses=known
    )
