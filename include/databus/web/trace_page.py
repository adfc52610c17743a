"""Routes of the page of traces: journeys through flows that who asks may see, and rows for those who may edit a DAG."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from databus.core.connections import ConnectionSource
from databus.core.errors.root import DatabusError
from databus.core.settings import Settings
from databus.core.trace import TraceError, TraceQueryError
from databus.ops.trace.query import Kind
from databus.web.flow_page import detail_of

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
    from fastapi import Depends, HTTPException, Query

    from databus.ops.trace.view import TracePage

    free, let_in = threading.BoundedSemaphore(_AT_ONCE), threading.BoundedSemaphore(_AT_ONCE + _WAITING)
    seen = Depends(readable)
    asked, of_sink, at_place = (Query(min_length=1, max_length=_LONGEST) for _ in range(3))
    of_table = Query("", max_length=_LONGEST)

    def answer(ask: Any) -> dict[str, Any]:
        if not let_in.acquire(blocking=False):
            raise busy(f"{_AT_ONCE} traces are running, and {_WAITING} wait for them")
        try:
            if not free.acquire(timeout=_WAIT_S):
                raise busy(f"{_AT_ONCE} traces have been running for {_WAIT_S:g} seconds")
            try:
                return traced(ask)
            finally:
                free.release()
        finally:
            let_in.release()

    def busy(message: str) -> HTTPException:
        detail = {"code": "trace_busy", "message": message, "hint": "Try again."}
        return HTTPException(503, detail, {"Retry-After": "5"})

    def traced(ask: Any) -> dict[str, Any]:
        try:
            found: dict[str, Any] = ask(TracePage(connections, Settings.from_environment()))
        except DatabusError as error:
            status = 400 if isinstance(error, TraceQueryError) else 404 if isinstance(error, TraceError) else 503
            looked = getattr(error, "looked_through", None)
            raise HTTPException(status, {**detail_of(error), "looked_through": looked}) from error
        else:
            return found

    def trace(q: str = asked, table: str = of_table, kind: Kind | None = None, dags: Any = seen) -> dict[str, Any]:
        """Journeys of what a text asks for; 404 when none is recorded, and what was looked through."""
        return answer(lambda page: page.trace(q, dags, table=table, kind=kind or ""))

    def images(dag_id: str, sink: str = of_sink, place: str = at_place) -> dict[str, Any]:
        """The row before and after a change, as a sink of the DAG's flow holds it."""
        return answer(lambda page: page.images(dag_id, sink, place))

    app.add_api_route("/api/v1/trace", trace, methods=["GET"])
    app.add_api_route("/api/v1/dags/{dag_id}/images", images, methods=["GET"], dependencies=[Depends(editing)])
