"""`databus checkpoint`: the committed checkpoint and its history."""

from __future__ import annotations

from typing import Annotated

import typer

from databus.cli.checkpoint import accept
from databus.cli.checkpoint import amend as amending
from databus.cli.terminal.options import Dags, FlowName, Output, opened
from databus.cli.terminal.output import Format, show_one, show_rows
from databus.ops.checkpoint import show as checkpoints

app = typer.Typer(help="Show, pause, rewind, skip or restore a flow's checkpoint.", no_args_is_help=True)


@app.command()
def show(flow: FlowName, dags: Dags = None, output: Output = Format.TABLE) -> None:
    """Show the committed checkpoint, the batch in flight, lagging sinks."""
    with opened(flow, dags, records=False) as (spec, services):
        view = checkpoints.show(spec, services)
    facts = view.to_json()
    if output is Format.TABLE and view.checkpoint is not None:
        outputs = {sink: len(known) for sink, known in view.checkpoint.output_ids.items()}
        facts |= {"offset": str(view.checkpoint.offset), "outputs": outputs or None}
    show_one(facts, output)


@app.command()
def history(
    flow: FlowName,
    last: Annotated[int, typer.Option("--last", "-n", help="Number of entries.", min=1)] = 20,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """List commits and amendments, newest first."""
    with opened(flow, dags, records=False) as (spec, services):
        entries = checkpoints.history(spec, services, last)
    if output is not Format.TABLE:
        show_rows([e.to_json() for e in entries], (), output)
        return
    rows = [
        {
            "n": e.number,
            "at": e.at.isoformat(timespec="seconds"),
            "action": e.action,
            "who": e.who,
            "why": checkpoints.why_of(e) or None,
            "from": str(e.previous) if e.previous else None,
            "to": str(e.offset),
            "batch": e.batch,
            "epoch": e.epoch,
            "rows": sum(c.read for c in e.counts.values()),
        }
        for e in entries
    ]
    show_rows(
        rows, ("n", "at", "action", "who", "why", "from", "to", "batch", "epoch", "rows"), output, empty="no history"
    )


for _command in (
    amending.pause,
    amending.resume,
    amending.rewind,
    amending.skip,
    amending.restore,
    accept.accept,
    accept.adopt,
):
    app.command()(_command)
