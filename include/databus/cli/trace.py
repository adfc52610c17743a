"""`databus trace`: the journey of one change, from the source to the sinks and back."""

from __future__ import annotations

from typing import Annotated

import typer

from databus.cli.terminal.options import Dags, Output, connection_source, tell_unreadable
from databus.cli.terminal.output import ERR, OUT, Format, show_one, show_rows
from databus.cli.terminal.places import in_words
from databus.core.amounts import counted
from databus.core.settings import Settings
from databus.ops.trace.query import Kind, recognise


def trace(  # noqa: PLR0913, PLR0917 - one parameter per option
    what: Annotated[
        str,
        typer.Argument(
            help="A change: FILE:POS, a GTID, an event id, TOPIC:PARTITION:OFFSET, INDEX/ID, "
            'or a key as JSON, e.g. {"id":1}.',
            metavar="WHAT",
        ),
    ],
    flow: Annotated[
        str | None, typer.Option("--flow", "-f", help="Search this flow only.", metavar="FLOW", show_default="all")
    ] = None,
    table: Annotated[
        str, typer.Option("--table", help="Only changes of this table, DATABASE.TABLE.", show_default="all")
    ] = "",
    site: Annotated[
        str,
        typer.Option(
            "--site",
            help="Connection of the Kafka cluster that holds TOPIC:PARTITION:OFFSET, e.g. kafka_west.",
            metavar="CONN_ID",
            show_default="all clusters",
        ),
    ] = "",
    kind: Annotated[
        Kind | None,
        typer.Option("--as", help="Kind of WHAT, where its form is ambiguous.", show_default="by its form"),
    ] = None,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Follow one change from the log to Kafka, search and mirrors.

    Shown are its place in the log, its batch and run, and the Kafka messages and documents it became. Of a topic of
    one name on several clusters all messages at that offset are shown, unless --site names one.
    """
    from databus.ops.flows.discovery import discover, find_flow
    from databus.ops.trace.follow import trace as follow
    from databus.ops.trace.journey import lines

    query = recognise(what, kind)
    found, broken = discover(dags, dags=False)
    tell_unreadable(broken)
    known = [item.flow for item in found]
    flows = [found for found in known if flow in (None, found.name)]
    if flow and not flows:
        find_flow(flow, dags, dags=False)  # refuses it, and names those that there are
    where = connection_source(), Settings.from_environment()
    journeys = follow(query, flows, where, table, beside=known, site=site)
    if output is not Format.TABLE:
        show_one({"kind": str(query.kind), "what": query.text, "journeys": [j.to_json() for j in journeys]}, output)
        return
    for number, journey in enumerate(journeys):
        if number:
            OUT.print()
        steps = (("flow", journey.flow), *lines(journey))
        rows = [{"step": step, "what": in_words(told, "range" if step == "batch" else "")} for step, told in steps]
        show_rows(rows, ("step", "what"), output)
    of = dict.fromkeys(journey.flow for journey in journeys if journey.flow)
    ERR.print(f"{counted(len(journeys), 'change')} of {counted(len(of), 'flow')}: {', '.join(of)}", style="dim")
