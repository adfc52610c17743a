"""`databus flows`: what flows there are and what they look like."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from databus.cli.exits import OK, USAGE
from databus.cli.options import Dags, FlowName, Output
from databus.cli.output import ERR, OUT, Format, show_one, show_rows
from databus.ops.discovery import discover, find_flow
from databus.ops.graph import graph_of, mermaid
from databus.ops.mirror_loops import problems

app = typer.Typer(help="List, show, validate and draw flows.", no_args_is_help=True)


@app.command("list")
def list_flows(dags: Dags = None, output: Output = Format.TABLE) -> None:
    """List the flows of the DAG folder."""
    found, broken = discover(dags, dags=False)
    rows = [
        {
            "flow": f.flow.name,
            "source": f"{f.flow.source.kind} {', '.join(f.flow.source.datasets())}".strip(),
            "sinks": ", ".join(f"{s.kind} {' '.join(s.datasets())}".strip() for s in f.flow.sinks),
            "file": str(f.file),
        }
        for f in found
    ]
    show_rows(rows, ("flow", "source", "sinks", "file"), output, empty="no flows")
    for item in broken:
        ERR.print(f"not readable: {item.error.message}", style="yellow", markup=False)
    if broken:
        raise typer.Exit(USAGE)


@app.command()
def show(flow: FlowName, dags: Dags = None, output: Output = Format.YAML) -> None:
    """Show a flow's definition."""
    found = find_flow(flow, dags, dags=False)
    show_one({"file": str(found.file), **found.flow.to_json()}, output)


@app.command()
def validate(dags: Dags = None, output: Output = Format.TABLE) -> None:
    """Read every DAG file and report those that are wrong, and mirrors that go round; exit code 2 when any is."""
    found, broken = discover(dags)
    rows = [{"file": str(f.file), "flow": f.flow.name, "state": "ok", "problem": None, "hint": None} for f in found]
    rows += [
        {"file": str(b.file), "flow": None, "state": "error", "problem": b.error.message, "hint": b.error.hint}
        for b in broken
    ]
    together = problems(f.flow for f in found)
    rows += [
        {"file": None, "flow": ", ".join(p.mirrors), "state": "error", "problem": p.message, "hint": p.hint}
        for p in together
    ]
    show_rows(rows, ("file", "flow", "state", "problem", "hint"), output, empty="no flows")
    raise typer.Exit(USAGE if broken or together else OK)


@app.command()
def graph(
    flow: FlowName,
    form: Annotated[str, typer.Option("--format", help="mermaid or json.")] = "mermaid",
    dags: Dags = None,
) -> None:
    """Draw a flow."""
    drawn = graph_of(find_flow(flow, dags, dags=False).flow)
    if form == "json":
        show_one(asdict(drawn), Format.JSON)
    elif form == "mermaid":
        OUT.print(mermaid(drawn), markup=False, soft_wrap=True)
    else:
        raise typer.BadParameter("known formats: mermaid, json", param_hint="--format")
