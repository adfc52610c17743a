"""`databus checkpoint accept`: continues with outputs that were deleted or made anew."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from databus import __version__
from databus.cli.checkpoint.amend import done, nothing_done, preview
from databus.cli.server.choice import served
from databus.cli.terminal.option_groups import grouped
from databus.cli.terminal.options import ChangeOptions, Dags, Execute, FlowName, Output, Shown, opened, operator
from databus.cli.terminal.output import Format, show_one, show_rows


@grouped
def accept(
    flow: FlowName,
    change: ChangeOptions,
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

    what = "accepting outputs"
    if (there := served(flow)) is not None:
        asked = {"topics": forget} if forget else {}
        # The rows of an acceptance are a list.
        told: Any = done(there, "accept", asked, change, what) if change.execute else preview(there, "accept", asked)
    else:
        with opened(flow, shown.dags) as (spec, services):
            if change.execute:
                said = Attribution(operator(), change.reason, what=what)
                found = accepting.execute(spec, services, said, forget or ())
            else:
                found = accepting.preview(spec, services, forget or ())
        told = accepting.facts_of(found)
    rows = [{**one, "accepted": change.execute} for one in told]
    columns = ("flow", "sink", "output", "known", "found", "behind", "accepted")
    show_rows(rows, columns, shown.output, empty="every output is still the one that was written to")
    if not change.execute:
        nothing_done(change.reason)


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

    if (there := served(flow)) is not None:
        asked, change = ({"allow_repeats": True} if allow_repeats else {}), ChangeOptions(reason, execute)
        facts = done(there, "adopt", asked, change) if execute else preview(there, "adopt", asked)
    else:
        who = RunIdentity(operator(), "", __version__)
        with opened(flow, dags) as (spec, services):
            if execute:
                found = adoption.execute(spec, services, who, reason, allow_repeats=allow_repeats)
            else:
                found = adoption.preview(spec, services, allow_repeats=allow_repeats)
        facts = found.to_json()
    note = None if execute else "a preview: nothing was changed; --execute does it"
    show_one({**facts, "done": execute, "note": note}, output)
