"""`databus trace`: the journey of one change, from the source to the sinks and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from databus.cli.server.choice import server
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
    if (there := server()) is not None:
        asked = {"table": table, "kind": kind, "flow": flow, "site": site}
        _show_there(there.get("/trace", q=what, lines=True, **asked), output)
        return
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
    _show_lines([(journey.flow, [*lines(journey)]) for journey in journeys], output)


_OF_THE_ROUTE = ("dag_id", "steps", "lines")
"""Facts beside a journey, as a server tells them."""


def _show_there(told: Mapping[str, Any], output: Format) -> None:
    journeys = told["journeys"]
    if unread := told["looked_through"]["not_readable"]:
        ERR.print(f"not readable: {', '.join(unread)}", style="yellow", markup=False, soft_wrap=True)
    if output is Format.TABLE:
        _show_lines([(journey["flow"], journey["lines"]) for journey in journeys], output)
    else:
        shown = [{name: value for name, value in each.items() if name not in _OF_THE_ROUTE} for each in journeys]
        show_one({"kind": told["kind"], "what": told["what"], "journeys": shown}, output)
    if told["more"]:
        ERR.print(f"NOT ALL: {counted(told['more'], 'change')} more; name its flow or table.", style="yellow")


def _show_lines(journeys: Sequence[tuple[str, Sequence[Sequence[str]]]], output: Format) -> None:
    for number, (flow, told) in enumerate(journeys):
        if number:
            OUT.print()
        steps = (("flow", flow), *told)
        rows = [{"step": step, "what": in_words(text, "range" if step == "batch" else "")} for step, text in steps]
        show_rows(rows, ("step", "what"), output)
    of = dict.fromkeys(flow for flow, _ in journeys if flow)
    ERR.print(f"{counted(len(journeys), 'change')} of {counted(len(of), 'flow')}: {', '.join(of)}", style="dim")
