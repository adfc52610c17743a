"""`databus checkpoint adopt`: resumes from the sinks' markers after ZooKeeper was restored from an older copy."""

from __future__ import annotations

from typing import Annotated

import typer

from databus import __version__
from databus.cli.terminal.options import Dags, Execute, FlowName, Output, opened, operator
from databus.cli.terminal.output import Format, show_one


def adopt(
    flow: FlowName,
    reason: Annotated[str, typer.Option("--reason", help='Why, kept in the history, e.g. "restored from a backup".')],
    execute: Execute = False,
    allow_repeats: Annotated[
        bool,
        typer.Option(
            "--allow-repeats", help="Do it also when a sink's slots are at different batches: some get rows again."
        ),
    ] = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Move the checkpoint to the sinks' markers.

    For a ZooKeeper that was restored from an older copy: the sinks hold more than its checkpoint says.
    """
    from databus.ops.checkpoint import adopt as adoption
    from databus.runtime.context import RunIdentity

    who = RunIdentity(operator(), "", __version__)
    with opened(flow, dags) as (spec, services):
        if execute:
            found = adoption.execute(spec, services, who, reason, allow_repeats=allow_repeats)
        else:
            found = adoption.preview(spec, services, allow_repeats=allow_repeats)
    before = found.before
    show_one(
        {
            "flow": flow,
            "from": f"batch {before.batch}, {before.offset}" if before else "nothing committed",
            "to": f"batch {found.batch}, {found.offset}",
            "sinks_behind": {name: f"batch {own.batch}, {own.offset}" for name, own in found.behind.items()} or None,
            "needed": found.needed,
            "repeated": [*found.repeated, *(text for own in found.behind.values() for text in own.repeated)] or None,
            "done": execute,
            "note": None if execute else "a preview: nothing was changed; --execute does it",
        },
        output,
    )
