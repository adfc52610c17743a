"""`databus checkpoint accept`: continues with outputs that were deleted or made anew."""

from __future__ import annotations

from typing import Annotated

import typer

from databus.cli.checkpoint.amend import nothing_done
from databus.cli.terminal.option_groups import grouped
from databus.cli.terminal.options import Change, FlowName, Shown, opened, operator
from databus.cli.terminal.output import show_rows


@grouped
def accept(
    flow: FlowName,
    change: Change,
    shown: Shown,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            help="Topic to forget, so that a table of another name may write to it, e.g. cdc.orders; may be repeated.",
            metavar="TOPIC",
            show_default="none is forgotten",
        ),
    ] = None,
) -> None:
    """Continue with topics that were deleted or made anew.

    What was in the former topics is not sent again.
    """
    from databus.ops.checkpoint import accept as accepting
    from databus.ops.checkpoint.amend import Attribution

    with opened(flow, shown.dags) as (spec, services):
        if change.execute:
            said = Attribution(operator(), change.reason, what="accepting outputs")
            found = accepting.execute(spec, services, said, forget or ())
        else:
            found = accepting.preview(spec, services, forget or ())
    rows = [
        {"flow": one.writer, "sink": one.sink, **changed.to_json(), "behind": one.behind, "accepted": change.execute}
        for one in found
        for changed in one.outputs
    ]
    columns = ("flow", "sink", "output", "known", "found", "behind", "accepted")
    show_rows(rows, columns, shown.output, empty="every output is still the one that was written to")
    if not change.execute:
        nothing_done()
