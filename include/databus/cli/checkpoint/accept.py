"""`databus checkpoint accept`: go on with outputs that were deleted or made anew."""

from __future__ import annotations

from typing import Annotated

import typer

from databus.cli.checkpoint.amend import Execute, Reason, nothing_done, operator
from databus.cli.terminal.options import Dags, FlowName, Output, opened
from databus.cli.terminal.output import Format, show_rows


def accept(
    flow: FlowName,
    forget: Annotated[
        list[str] | None,
        typer.Option("--topic", help="Forget all that is known of it, so that a table of another name may have it."),
    ] = None,
    reason: Reason = "",
    execute: Execute = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Go on without what was in topics that were deleted, with those that stand in their place or with new ones."""
    from databus.ops.checkpoint import accept as accepting
    from databus.ops.checkpoint.amend import Attribution

    with opened(flow, dags) as (spec, services):
        if execute:
            found = accepting.execute(
                spec, services, Attribution(operator(), reason, what="accepting outputs"), forget or ()
            )
        else:
            found = accepting.preview(spec, services, forget or ())
    rows = [
        {"flow": one.writer, "sink": one.sink, **changed.to_json(), "behind": one.behind, "accepted": execute}
        for one in found
        for changed in one.outputs
    ]
    columns = ("flow", "sink", "output", "known", "found", "behind", "accepted")
    show_rows(rows, columns, output, empty="every output is still the one that was written to")
    if not execute:
        nothing_done()
