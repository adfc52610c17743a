"""`databus mirror`: offsets and consumer groups of a mirror, on either side."""

from __future__ import annotations

from typing import Annotated

import typer

from databus.cli.options import Dags, FlowName, Output, opened
from databus.cli.output import Format, show_one, show_rows
from databus.ops.mirror_groups import GroupSync
from databus.ops.mirror_offsets import translate as translated

app = typer.Typer(help="Offsets and consumer groups of a mirror.", no_args_is_help=True)

Back = Annotated[bool, typer.Option("--back", help="From the target to the source.")]


@app.command()
def translate(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    topic: Annotated[str, typer.Argument(help="Topic, as the side that is asked from names it.")],
    partition: Annotated[int, typer.Argument(help="Partition.", min=0)],
    offset: Annotated[int, typer.Argument(help="Next offset that a reader wants.", min=0)],
    back: Back = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Show where a reader goes on on the other side."""
    with opened(flow, dags) as (spec, services):
        (to_topic, to_partition), found = translated(spec, services, (topic, partition), offset, back=back)
    show_one({"topic": to_topic, "partition": to_partition, "offset": found}, output)


@app.command()
def groups(
    flow: FlowName,
    group: Annotated[list[str] | None, typer.Option("--group", "-g", help="Name or pattern; may be repeated.")] = None,
    back: Back = False,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; else it is only shown.")] = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Carry consumer groups to the other side: each is set to where it goes on there. Groups with members are left."""
    with opened(flow, dags) as (spec, services):
        moved = GroupSync(spec, services).carry(group or (), back=back, execute=execute)
    rows = [
        {"group": m.group, "topic": m.place[0], "partition": m.place[1], "before": m.before, "after": m.after}
        for m in moved
    ]
    show_rows(rows, ("group", "topic", "partition", "before", "after"), output, empty="nothing to move")
