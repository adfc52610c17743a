"""`databus checkpoint`: the committed checkpoint and its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from databus.cli.checkpoint import accept
from databus.cli.checkpoint import amend as amending
from databus.cli.server.choice import served
from databus.cli.terminal.options import Dags, FlowName, Output, opened
from databus.cli.terminal.output import Format, show_one, show_rows
from databus.core.positions.offsets import offset_from_json
from databus.core.state.checkpoint import HistoryEntry
from databus.ops.checkpoint import show as checkpoints

app = typer.Typer(help="Show, pause, rewind, skip or restore a flow's checkpoint.", no_args_is_help=True)

_OF_THE_ROUTE = ("dag_id", "version", "place", "gaps")
"""Facts beside a checkpoint, as a server tells them."""


@app.command()
def show(flow: FlowName, dags: Dags = None, output: Output = Format.TABLE) -> None:
    """Show the committed checkpoint, the batch in flight, lagging sinks."""
    if (there := served(flow)) is not None:
        found = there.get("/checkpoint")
        facts = {name: value for name, value in found.items() if name not in _OF_THE_ROUTE}
    else:
        with opened(flow, dags, records=False) as (spec, services):
            facts = checkpoints.show(spec, services).to_json()
    if output is Format.TABLE and "offset" in facts:
        outputs = {sink: len(known) for sink, known in (facts["outputs"] or {}).items()}
        facts |= {"offset": str(offset_from_json(facts["offset"])), "outputs": outputs or None}
    show_one(facts, output)


@app.command()
def history(
    flow: FlowName,
    last: Annotated[int, typer.Option("--last", "-n", help="Number of entries.", min=1)] = 20,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """List commits and amendments, newest first."""
    entries: Sequence[HistoryEntry]
    if (there := served(flow)) is not None:
        found = there.pages("/checkpoint/history", last, stored=True)
        entries = [HistoryEntry.from_json(item["entry"]) for item in found]
    else:
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
