"""`databus lag`, `databus peek` and `databus doctor`: look at servers without changing anything."""

from __future__ import annotations

import time
from itertools import count
from typing import Annotated

import typer

from databus.cli.exits import ERROR, LAG, OK
from databus.cli.options import Dags, FlowName, Output, connection_source, opened
from databus.cli.output import ERR, OUT, Format, show_rows
from databus.core.findings import Level
from databus.ops.discovery import discover, find_flow

Flows = Annotated[list[str] | None, typer.Argument(help="Names of flows; all by default.", metavar="[FLOW]...")]


def lag(
    flows: Flows = None,
    watch: Annotated[float | None, typer.Option("--watch", help="Repeat every so many seconds.", min=0.2)] = None,
    fail_over: Annotated[
        float | None, typer.Option("--fail-over", help="Exit with 6 when a flow is more seconds behind.")
    ] = None,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Show how far flows are behind their sources."""
    from databus.ops.lag import FlowLag, measure
    from databus.ops.services import open_services

    specs = [find_flow(name, dags, dags=False).flow for name in flows or ()]
    specs = specs or [f.flow for f in discover(dags, dags=False)[0]]
    source = connection_source()
    for look in count():
        measured: list[FlowLag] = []
        for spec in specs:
            with open_services(spec, source, records=False) as services:
                measured.append(measure(spec, services))
        rows = [
            {
                "flow": m.flow,
                "committed": m.committed,
                "head": m.lag.head if m.lag else None,
                "lag_bytes": m.lag.bytes if m.lag else None,
                "lag_seconds": m.lag.seconds if m.lag else None,
                "eta_seconds": None if m.eta_s is None else round(m.eta_s, 1),
                "headroom_seconds": m.headroom.seconds if m.headroom else None,
                "headroom_bytes": m.headroom.bytes if m.headroom else None,
            }
            for m in measured
        ]
        columns = tuple(rows[0]) if rows else ()
        if watch is not None and output is Format.TABLE and OUT.is_terminal:
            OUT.clear()
        show_rows(rows, columns, output, empty="no flows", head=look == 0 or OUT.is_terminal)
        for m in measured:
            if m.headroom and m.headroom.low:
                ERR.print(f"{m.flow}: retention headroom is low: {m.headroom}", style="yellow", markup=False)
        late = [m for m in measured if fail_over is not None and m.lag and (m.lag.seconds or 0) > fail_over]
        if watch is None or late:
            raise typer.Exit(LAG if late else OK)
        time.sleep(watch)


def peek(
    flow: FlowName,
    rows: Annotated[int, typer.Option("--rows", "-n", help="How many row changes.", min=1)] = 10,
    start: Annotated[
        str | None,
        typer.Option("--from", help="earliest, latest, FILE:POS, gtid:SET or a time; the checkpoint by default."),
    ] = None,
    dags: Dags = None,
) -> None:
    """Print decoded row changes as JSON lines, from the checkpoint or any position or time."""
    from databus.ops import preview
    from databus.ops.row_lines import printable

    with opened(flow, dags, records=False) as (spec, services):
        for row in preview.peek(spec, services, start, rows):
            OUT.print(printable(row), markup=False, soft_wrap=True)


def doctor(
    flow: Annotated[str | None, typer.Argument(metavar="[FLOW]")] = None,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Name what is missing on this machine and, for a flow, on its servers, and what to do about it."""
    from databus.ops.doctor import examine_environment, examine_flow, worst

    findings = examine_environment()
    if flow is not None:
        findings += examine_flow(find_flow(flow, dags, dags=False).flow, connection_source())
    rows = [
        {"level": str(f.level), "subject": f.subject, "found": f.message, "what_to_do": f.hint, "code": f.code}
        for f in findings
    ]
    show_rows(rows, ("level", "subject", "found", "what_to_do"), output)
    if output is Format.TABLE:
        bad = sum(f.level is Level.ERROR for f in findings)
        ERR.print(f"{len(findings)} looked at, {bad} to mend", style="red" if bad else "green")
    raise typer.Exit(ERROR if worst(findings) is Level.ERROR else OK)
