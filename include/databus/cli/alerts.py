"""`databus alerts`: lists raised alerts, and tests their channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from databus.cli.server.choice import served_of, server
from databus.cli.terminal.exits import ERROR, OK, USAGE
from databus.cli.terminal.options import (
    Dags,
    FlowName,
    OptionalFlow,
    Output,
    connection_source,
    tell_causes,
    tell_unreadable,
)
from databus.cli.terminal.output import ERR, Format, show_rows
from databus.core.alerts.alert import Alert, AlertEvent, AlertKind
from databus.core.errors.root import DatabusError
from databus.core.settings import Settings
from databus.ops.flows.discovery import discover, find_flow
from databus.ops.health.alerts import channels_of
from databus.ops.health.raised_alerts import raised_alerts

if TYPE_CHECKING:
    from databus.cli.server.client import ServedFlow

app = typer.Typer(help="List raised alerts, and test their channels.", no_args_is_help=True)


@app.command("list")
def list_alerts(
    flow: OptionalFlow = None,
    every: Annotated[bool, typer.Option("--all", help="List resolved alerts too.")] = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """List raised alerts, and channels still to be notified.

    A flow that cannot be looked at is named with its cause, and hides no other: exit code 2 for a missing connection
    or a file that is not readable, 4 for a server that does not answer.
    """
    looks: dict[str, Callable[[], list[dict[str, Any]]]]
    broken: Sequence[object]
    if server() is not None:
        flows, broken = served_of([flow] if flow else [])
        looks = {each.name: partial(_rows_there, each, every=every) for each in flows}
    else:
        named, unread = ([find_flow(flow, dags, dags=False)], []) if flow else discover(dags, dags=False)
        tell_unreadable(unread)
        where, settings = connection_source(), Settings.from_environment()
        looks = {f.flow.name: partial(raised_alerts, f.flow, where, settings, every=every) for f in named}
        broken = unread
    rows: list[dict[str, Any]] = []
    away: dict[str, DatabusError] = {}
    for name, look in looks.items():
        try:
            rows += look()
        except DatabusError as error:
            away[name] = error
    columns = ("flow", "alert", "on", "since", "number", "owed_to")
    shown = (*columns, "problem") if any(row["problem"] for row in rows) else columns
    show_rows(rows, shown, output, empty="no alerts" if not away else "no alerts that can be read")
    if code := tell_causes(away) or (USAGE if broken else OK):
        raise typer.Exit(code)


def _rows_there(flow: ServedFlow, *, every: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = flow.get("/alerts", all=every)["alerts"]
    return found


@app.command("test")
def try_channels(flow: FlowName, dags: Dags = None) -> None:
    """Send a test alert to every channel of a flow.

    Exit code 1 when a channel does not take it, 2 when the flow has none.
    """
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
