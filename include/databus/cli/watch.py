"""`databus watch`: alerts, metrics and health of all flows, without Airflow."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any

import typer

from databus.cli.terminal.exits import ERROR, OK
from databus.cli.terminal.options import Dags, connection_source
from databus.cli.terminal.output import ERR
from databus.core.amounts import counted
from databus.core.errors.config import ConfigError
from databus.core.settings import Settings
from databus.observe.prometheus import CONTENT_TYPE, render
from databus.ops.health.airflow import AirflowHealth
from databus.ops.health.watch import FlowWatch, Round, run
from databus.runtime.drain import Drain, drain_on_signals

_STALE_ROUNDS = 3
"""Healthy while the last round is not older than so many intervals, and a minute."""


def watch(
    dags: Dags = None,
    every: Annotated[float, typer.Option("--every", help="Interval between two rounds, in seconds.", min=1)] = 15.0,
    listen: Annotated[
        str, typer.Option("--listen", help='Address of /metrics and /health, HOST:PORT; "" for none.')
    ] = "127.0.0.1:9464",
    airflow: Annotated[
        str | None,
        typer.Option(
            "--airflow",
            help="URL of Airflow, to alert on its health, e.g. http://airflow:8080.",
            envvar="DATABUS_AIRFLOW_URL",
            show_default="not checked",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Run one round and exit: with 1 when something is wrong.")
    ] = False,
) -> None:
    """Evaluate alerts, notify channels, serve /metrics and /health.

    All flows of the DAG folder are watched until a signal ends it. Airflow is not needed.
    """
    health = AirflowHealth(airflow) if airflow else None
    watched = FlowWatch(dags, connection_source(), Settings.from_environment(), health)
    drain = Drain()
    try:
        if once:
            found = watched.round()
            _say(found)
            for figures in found.figures:
                for what, error in figures.unreachable.items():
                    said = f"flow {figures.flow}: {what} does not answer: {error}"
                    ERR.print(said, style="yellow", markup=False)
            raise typer.Exit(ERROR if found.problems or any(f.unreachable for f in found.figures) else OK)
        with drain_on_signals(drain), _served(watched, listen, every):
            run(watched, every, drain.wait, _say)
    finally:
        watched.close()


def _say(found: Round) -> None:
    for alert in found.alerts:
        ERR.print(f"{alert.event}: {alert.title}", markup=False)
    for problem in found.problems:
        ERR.print(problem, style="yellow", markup=False)
    if found.number == 1:
        for figures in found.figures:
            if figures.snapshot is not None and not figures.snapshot.ended:
                ERR.print(f"flow {figures.flow}: {figures.snapshot.text}", markup=False)
        ERR.print(f"watching {counted(len(found.figures), 'flow')}, a look took {found.seconds:.1f} s", markup=False)


@contextmanager
def _served(watched: FlowWatch, listen: str, every_s: float) -> Iterator[None]:
    """Serve /metrics and /health while the block runs."""
    if not listen:
        yield
        return
    host, _, port = listen.rpartition(":")
    if not port.isdigit():
        raise ConfigError(f"--listen {listen!r} is not an address", hint="Write HOST:PORT.")
    stale_s = max(60.0, _STALE_ROUNDS * every_s)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, text = _answer(watched.last, self.path.partition("?")[0], stale_s)
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: Any) -> None:
            """A line per scrape says nothing."""

    try:
        server = ThreadingHTTPServer((host or "0.0.0.0", int(port)), Handler)  # noqa: S104 - as it was asked for
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot listen on {listen}: {error}", hint="Name a free address with --listen.") from None
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    ERR.print(f"serving /metrics and /health on {listen}", markup=False)
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _answer(last: Round | None, path: str, stale_s: float) -> tuple[int, str, str]:
    """Return status, content type and body."""
    if path == "/metrics":
        return 200, CONTENT_TYPE, render(last.points if last else ())
    if path != "/health":
        return 404, "text/plain; charset=utf-8", "Here are /metrics and /health.\n"
    age_s = time.monotonic() - last.ended if last else None
    well = age_s is not None and age_s <= stale_s
    said = {
        "status": "healthy" if well else "starting" if last is None else "stale",
        "last_round_age_seconds": age_s,
        "flows": [f.flow for f in last.figures] if last else [],
        "unreachable": {f.flow: dict(f.unreachable) for f in last.figures if f.unreachable} if last else {},
        "problems": list(last.problems) if last else [],
    }
    return (200 if well else 503), "application/json", json.dumps(said)
