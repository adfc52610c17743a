"""`databus alerts`: what is on, and whether channels work."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from databus.cli.exits import ERROR, OK, USAGE
from databus.cli.options import Dags, FlowName, Output, connection_source, tell_unreadable
from databus.cli.output import ERR, Format, show_rows
from databus.core.alerts import Alert, AlertEvent, AlertKind
from databus.core.errors import DatabusError
from databus.core.settings import Settings
from databus.ops.alerts import channels_of
from databus.ops.discovery import discover, find_flow
from databus.ops.figures import FlowLook

app = typer.Typer(help="Show alerts, and try their channels.", no_args_is_help=True)


@app.command("list")
def list_alerts(
    flow: Annotated[str | None, typer.Argument(metavar="[FLOW]")] = None,
    every: Annotated[bool, typer.Option("--all", help="Those that are over, too.")] = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """List alerts that are on, and what channels have not been given yet."""
    named, broken = ([find_flow(flow, dags, dags=False)], []) if flow else discover(dags, dags=False)
    tell_unreadable(broken)
    flows = [found.flow for found in named]
    rows = []
    for spec in flows:
        with FlowLook(spec, connection_source(), Settings.from_environment()) as look:
            for key, noted in sorted(look.store.alert_book().load(spec.name).items()):
                state = noted.state
                if every or state.raised or state.owed or noted.problem:
                    rows.append(
                        {
                            "flow": spec.name,
                            "alert": key,
                            "on": None if noted.problem else state.raised,
                            "since": state.since.isoformat(timespec="seconds") if state.since else None,
                            "number": None if noted.problem else state.number,
                            "owed_to": ", ".join(sorted({c for owed in state.owed for c in owed.channels})),
                            "problem": noted.problem,
                        }
                    )
    columns = ("flow", "alert", "on", "since", "number", "owed_to")
    shown = (*columns, "problem") if any(row["problem"] for row in rows) else columns
    show_rows(rows, shown, output, empty="no alerts")


@app.command("test")
def try_channels(flow: FlowName, dags: Dags = None) -> None:
    """Send a test alert to every channel of a flow; exit with 1 when one does not take it."""
    spec, settings, now = find_flow(flow, dags, dags=False).flow, Settings.from_environment(), datetime.now(UTC)
    channels = channels_of(spec)
    if not channels:
        ERR.print(f"{flow} has no channels: add alerts=(…) to it", style="yellow", markup=False)
        raise typer.Exit(USAGE)
    alert = Alert(
        installation=settings.installation,
        flow=flow,
        kind=AlertKind.LAG,
        subject="test",
        number=0,
        event=AlertEvent.RAISED,
        summary="this is a test of the channel, nothing is wrong",
        at=now,
        since=now,
        runbook=f"{settings.runbooks_url.rstrip('/')}/{AlertKind.LAG}.md",
    )
    failed = False
    for channel in channels:
        try:
            channel.send(alert, connection_source())
        except DatabusError as error:
            failed = True
            ERR.print(f"{channel.channel_name}: {error}", style="red", markup=False)
        else:
            ERR.print(f"{channel.channel_name}: sent", style="green", markup=False)
    raise typer.Exit(ERROR if failed else OK)
