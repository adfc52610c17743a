"""`databus mirror`: lag, offsets, consumer groups and heartbeats of a mirror."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from databus.cli.server.choice import served
from databus.cli.terminal.lazy_commands import old_verb
from databus.cli.terminal.options import Dags, Execute, FlowName, Output, opened
from databus.cli.terminal.output import Format, show_one, show_rows
from databus.ops.health.lag import measure_partitions
from databus.ops.mirror.consumer_groups import GroupSync
from databus.ops.mirror.heartbeats import newest_heartbeat
from databus.ops.mirror.translate import mapped, mirror_sink, span_facts
from databus.ops.mirror.translate import translate as translated

app = typer.Typer(help="Lag, offsets, consumer groups and heartbeats of a mirror.", no_args_is_help=True)

_SPANS = 5_000
"""Lines that a server is asked for at once: it reads the map anew each time."""

Back = Annotated[bool, typer.Option("--back", help="Translate from the target to the source instead.")]
Topic = Annotated[
    str, typer.Argument(help="Topic, as the side to translate from names it, e.g. cdc.orders.", metavar="TOPIC")
]
Partition = Annotated[int, typer.Argument(help="Number of the partition, from 0.", min=0, metavar="PARTITION")]


@app.command()
def translate(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    topic: Topic,
    partition: Partition,
    offset: Annotated[
        int, typer.Argument(help="Offset that a consumer would read next, e.g. 4711.", min=0, metavar="OFFSET")
    ],
    back: Back = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Translate a consumer's offset to the other side."""
    if (there := served(flow)) is not None:
        show_one(there.get("/mirror/translate", topic=topic, partition=partition, offset=offset, back=back), output)
        return
    with opened(flow, dags) as (spec, services):
        (to_topic, to_partition), found = translated(spec, services, (topic, partition), offset, back=back)
    show_one({"topic": to_topic, "partition": to_partition, "offset": found}, output)


@app.command()
def offsets(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    topic: Topic,
    partition: Partition,
    first: Annotated[int, typer.Option("--from", help="First offset to list.", min=0)] = 0,
    upto: Annotated[
        int | None, typer.Option("--to", help="Offset behind the last to list.", min=1, show_default="all")
    ] = None,
    back: Back = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """List offsets and what they became on the other side.

    A line is a run of records: in it the offsets of both sides count up together.
    """
    if (there := served(flow)) is not None:
        asked: dict[str, Any] = {"topic": topic, "partition": partition, "from": first, "back": back, "limit": _SPANS}
        rows = there.pages("/mirror/offsets", **asked, **({} if upto is None else {"to": upto}))
    else:
        with opened(flow, dags) as (spec, services):
            found = mapped(spec, services, (topic, partition), (first, upto), back=back)
        rows = [span_facts(place, span) for place, span in found]
    columns = ("topic", "partition", "from", "to", "other_from", "other_to", "exact")
    show_rows(rows, columns, output, empty="nothing of these offsets was mirrored")


@app.command()
def sync_groups(
    flow: FlowName,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            "-g",
            help="Consumer group, by name or pattern, e.g. billing or 'app-*'; may be repeated.",
            show_default="those of the mirror's option `groups`",
        ),
    ] = None,
    back: Back = False,
    execute: Execute = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Set consumer groups to their translated offsets.

    They are set on the other side. A group with members is left alone.
    """
    with opened(flow, dags) as (spec, services):
        moved = GroupSync(spec, services).carry(group or (), back=back, execute=execute)
    rows = [
        {"group": m.group, "topic": m.place[0], "partition": m.place[1], "before": m.before, "after": m.after}
        for m in moved
    ]
    show_rows(rows, ("group", "topic", "partition", "before", "after"), output, empty="nothing to move")


app.command("groups", hidden=True)(old_verb("mirror groups", "mirror sync-groups", sync_groups))


@app.command()
def lag(
    flow: FlowName,
    behind: Annotated[bool, typer.Option("--behind", help="List only partitions that lag.")] = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the lag of each partition, in records and seconds.

    `held back` counts records behind a transaction that is still open at the source: they cannot be read yet.
    """
    columns = ("topic", "partition", "target", "records", "seconds", "held_back")
    if (there := served(flow)) is not None:
        told = there.get("/mirror/partitions", behind=behind)["partitions"]
    else:
        with opened(flow, dags) as (spec, services):
            sink = mirror_sink(spec)
            found = measure_partitions(spec, services)
        told = [
            {**vars(one), "target": sink.target(one.topic)}
            for one in found
            if one.records or one.held_back or not behind
        ]
    rows = [{name: one[name] for name in columns} for one in told]
    show_rows(rows, columns, output, empty="nothing is behind")


@app.command()
def heartbeat(flow: FlowName, dags: Dags = None, output: Output = Format.TABLE) -> None:
    """Show the newest heartbeat that has arrived, and its age.

    Everything that the source wrote before it is on the target.
    """
    if (there := served(flow)) is not None:
        told = there.get("/mirror/heartbeat")
        at = told["written_at"] and datetime.fromisoformat(told["written_at"])
        show_one({**told, "written_at": at}, output)
        return
    with opened(flow, dags) as (spec, services):
        seen = newest_heartbeat(spec, services)
    show_one({"flow": flow, "written_at": seen.written_at, "age_seconds": seen.age_s}, output)
