"""`databus lag`, `databus peek` and `databus doctor`: read servers, change nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import typer

from databus.cli.server.choice import served, served_of, server
from databus.cli.terminal.exits import ERROR, LAG, OK, USAGE, exit_code
from databus.cli.terminal.options import Dags, FlowName, Output, connection_source, opened, tell_unreadable
from databus.cli.terminal.output import ERR, OUT, Format, show_rows
from databus.core.errors.config import ConfigError
from databus.core.errors.entries import more_of
from databus.core.errors.root import DatabusError
from databus.core.findings import Level
from databus.ops.flows.discovery import discover, find_flow

if TYPE_CHECKING:
    from databus.cli.server.client import ServedFlow
    from databus.ops.health.lag import FlowLag

Flows = Annotated[
    list[str] | None,
    typer.Argument(help="Names of flows.", metavar="FLOW", show_default="all flows of the DAG folder"),
]


def lag(
    flows: Flows = None,
    watch: Annotated[
        float | None,
        typer.Option("--watch", help="Repeat at this interval, in seconds, e.g. 2.", min=0.2, show_default="once"),
    ] = None,
    fail_over: Annotated[
        float | None,
        typer.Option(
            "--fail-over",
            help="Exit with 6 when the lag of a flow exceeds so many seconds, e.g. 60.",
            min=0,
            show_default="never",
        ),
    ] = None,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the lag of flows behind their sources.

    `committed` is the offset of the sink that lags most; `databus checkpoint show` has the flow and each sink. Of a
    flow that never ran it is where it would begin (`not_started` in JSON).

    A flow that cannot be measured is named with its cause, and hides no other: exit code 2 for a missing connection
    or a file that is not readable, 4 for a server that does not answer. --watch repeats while a flow can be measured.
    """
    from databus.ops.health.lag import measure_each

    broken: Sequence[object] = ()
    measured_now: Callable[[], list[FlowLag]]
    if server() is not None:
        measured_now, broken = _measured_there(flows or ())
    else:
        specs = [find_flow(name, dags, dags=False).flow for name in flows or ()]
        if not specs:
            found, unread = discover(dags, dags=False)
            specs, broken = [f.flow for f in found], unread
            tell_unreadable(unread)
        measured_now = partial(measure_each, specs, connection_source())
    for look in count():
        measured = measured_now()
        rows = [
            {
                "flow": m.flow,
                "committed": str(m.beginning) if m.beginning and output is Format.TABLE else m.committed,
                "head": m.lag.head if m.lag else m.beginning.head if m.beginning else None,
                "lag_bytes": m.lag.bytes if m.lag else None,
                "lag_seconds": m.lag.seconds if m.lag else None,
                "eta_seconds": None if m.eta_s is None else round(m.eta_s, 1),
                "headroom_seconds": m.headroom.seconds if m.headroom else None,
                "headroom_bytes": m.headroom.bytes if m.headroom else None,
                "not_started": None if not m.beginning else {"start": m.beginning.start, "at": m.beginning.at},
                "error": m.error.message if m.error else None,
                **({"snapshot": m.snapshot.to_json()} if m.snapshot and output is not Format.TABLE else {}),
            }
            for m in measured
        ]
        columns = tuple(name for name in rows[0] if name not in ("not_started", "error")) if rows else ()
        if watch is not None and output is Format.TABLE and OUT.is_terminal:
            OUT.clear()
        show_rows(rows, columns, output, empty="no flows", head=look == 0 or OUT.is_terminal)
        for m in measured:
            if m.snapshot:
                ERR.print(f"{m.flow}: {m.snapshot.text}", markup=False)
            if m.headroom and m.headroom.low:
                ERR.print(f"{m.flow}: retention headroom is low: {m.headroom}", style="yellow", markup=False)
        unknown = _tell_unknown(measured)
        late = [m for m in measured if fail_over is not None and m.lag and (m.lag.seconds or 0) > fail_over]
        if watch is None or late or (unknown and all(m.error for m in measured)):
            raise typer.Exit(LAG if late else unknown or (USAGE if broken else OK))
        time.sleep(watch)


def _measured_there(names: Sequence[str]) -> tuple[Callable[[], list[FlowLag]], Sequence[object]]:
    """Return what has a server measure flows, all that may be seen where none is named, and those it cannot read."""
    flows, unread = served_of(names)
    return lambda: [_lag_there(flow) for flow in flows], unread


def _lag_there(flow: ServedFlow) -> FlowLag:
    from databus.ops.health.lag import FlowLag, lag_of

    try:
        return lag_of(flow.get("/lag"))
    except DatabusError as error:
        return FlowLag(flow.name, None, None, None, error=error)


def _tell_unknown(measured: Sequence[FlowLag]) -> int:
    """Print the flows that could not be measured on stderr, cause by cause, with hints; return the exit code."""
    by_cause: dict[tuple[str, str], list[FlowLag]] = {}
    for m in measured:
        if m.error:
            by_cause.setdefault((m.error.message, m.error.hint), []).append(m)
    for (message, hint), those in by_cause.items():
        ERR.print(f"{', '.join(m.flow for m in those)}: {message}", style="red", markup=False, soft_wrap=True)
        if hint:
            ERR.print(f"  {hint}", markup=False, soft_wrap=True)
    return max((exit_code(m.error) for m in measured if m.error), default=OK)


def peek(
    flow: FlowName,
    rows: Annotated[int, typer.Option("--rows", "-n", help="Number of row changes.", min=1)] = 10,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="First position or time, as `databus backfill --from`.", show_default="the checkpoint"
        ),
    ] = None,
    dags: Dags = None,
) -> None:
    """Print decoded row changes of the source as JSON lines.

    Nothing is committed: the flow does not move.
    """
    from databus.ops.decode.row_lines import printable
    from databus.ops.runs import preview

    if (there := served(flow)) is not None:
        for line in there.lines("/peek", **{"from": start}, rows=rows):
            OUT.print(line, markup=False, soft_wrap=True)
        return
    with opened(flow, dags, records=False, places={"--from": start}) as (spec, services):
        for row in preview.peek(spec, services, start, rows):
            OUT.print(printable(row), markup=False, soft_wrap=True)


def doctor(
    flow: Annotated[
        str | None, typer.Argument(help="Name of a flow.", metavar="FLOW", show_default="this machine only")
    ] = None,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Find missing settings, grants and connections, with hints.

    Without FLOW only this machine is examined; with it the flow's servers too. Exit code 1 when something is missing.
    """
    from databus.ops.health.doctor import examine_environment, examine_flow

    if server() is not None:
        rows = _findings_there(flow)
    else:
        findings = examine_environment()
        if flow is not None:
            findings += examine_flow(find_flow(flow, dags, dags=False).flow, connection_source())
        rows = [finding.to_json() for finding in findings]
    if output is Format.TABLE:  # what is to mend stands last, next to the prompt
        rows = sorted(rows, key=lambda row: tuple(Level).index(row["level"]))
    show_rows(rows, ("level", "subject", "found", "what_to_do"), output)
    if output is Format.TABLE:
        bad = sum(row["level"] == Level.ERROR for row in rows)
        ERR.print(f"{len(rows)} looked at, {bad} to mend", style="red" if bad else "green")
        if codes := dict.fromkeys(row["code"] for row in rows if row["level"] != Level.OK and more_of(row["code"])):
            ERR.print(f"more: databus explain {' | '.join(codes)}", style="dim", markup=False, soft_wrap=True)
    raise typer.Exit(ERROR if any(row["level"] == Level.ERROR for row in rows) else OK)


def _findings_there(flow: str | None) -> list[dict[str, Any]]:
    if flow is None or (there := served(flow)) is None:
        raise ConfigError(
            "without FLOW `databus doctor` examines this machine, not the server",
            hint="Name a flow, or leave --server out (and DATABUS_SERVER unset).",
        )
    found: list[dict[str, Any]] = there.get("/doctor")["findings"]
    return found
