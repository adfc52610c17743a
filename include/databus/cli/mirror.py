"""`databus mirror`: offsets, consumer groups, lag and heartbeats of a mirror."""

from __future__ import annotations

from typing import Annotated

import typer

from databus.cli.terminal.options import Dags, FlowName, Output, opened
from databus.cli.terminal.output import Format, show_one, show_rows
from databus.ops.health.lag import measure_partitions
from databus.ops.mirror.consumer_groups import GroupSync
from databus.ops.mirror.heartbeats import newest_heartbeat
from databus.ops.mirror.translate import mapped, mirror_sink
from databus.ops.mirror.translate import translate as translated

app = typer.Typer(help="Offsets, consumer groups, lag and heartbeats of a mirror.", no_args_is_help=True)

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
def offsets(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    topic: Annotated[str, typer.Argument(help="Topic, as the side that is asked from names it.")],
    partition: Annotated[int, typer.Argument(help="Partition.", min=0)],
    first: Annotated[int, typer.Option("--from", help="First offset.", min=0)] = 0,
    upto: Annotated[int | None, typer.Option("--to", help="Offset behind the last.", min=1)] = None,
    back: Back = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Show which offsets became which on the other side, run by run; in a run both count up together."""
    with opened(flow, dags) as (spec, services):
        found = mapped(spec, services, (topic, partition), (first, upto), back=back)
    rows = [
        {
            "topic": place[0],
            "partition": place[1],
            "from": span.begin,
            "to": span.upto - 1,
            "other_from": span.image,
            "other_to": span.image_upto - 1,
            "exact": span.exact,
        }
        for place, span in found
    ]
    columns = ("topic", "partition", "from", "to", "other_from", "other_to", "exact")
    show_rows(rows, columns, output, empty="nothing of these offsets was mirrored")


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


@app.command()
def lag(
    flow: FlowName,
    behind: Annotated[bool, typer.Option("--behind", help="Only partitions that have something to move.")] = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Show how far each topic-partition is behind the source, in records and seconds, and what cannot be read yet.

    What is held back lies behind a transaction that is still open at the source.
    """
    with opened(flow, dags) as (spec, services):
        sink = mirror_sink(spec)
        found = measure_partitions(spec, services)
    rows = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "target": sink.target(one.topic),
            "records": one.records,
            "seconds": one.seconds,
            "held_back": one.held_back,
        }
        for one in found
        if one.records or one.held_back or not behind
    ]
    columns = ("topic", "partition", "target", "records", "seconds", "held_back")
    show_rows(rows, columns, output, empty="nothing is behind")


@app.command()
def heartbeat(flow: FlowName, dags: Dags = None, output: Output = Format.TABLE) -> None:
    """Show the newest heartbeat that has arrived: what the source wrote before it is on the target."""
    with opened(flow, dags) as (spec, services):
        seen = newest_heartbeat(spec, services)
    show_one({"flow": flow, "written_at": seen.written_at, "age_seconds": seen.age_s}, output)
