"""`databus bench`: mirrors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from databus.bench.options import (
    MirrorDelayOptions,
    MirrorLinkOptions,
    MirrorOptions,
    PlanOptions,
)
from databus.cli.bench.results import Plugins, PortsFrom, Results, Window, folder_of, say, seconds_of, show
from databus.cli.terminal.options import Output
from databus.cli.terminal.output import Format

_MIRROR = MirrorOptions()
_LIVE_MIRROR = MirrorDelayOptions()
_PLAN = PlanOptions()
_LINK = MirrorLinkOptions()


def mirror(  # noqa: PLR0913, PLR0917 - one parameter per option
    records: Annotated[int, typer.Option(help="Records to mirror.", min=1_000)] = _MIRROR.records,
    warm_up: Annotated[int, typer.Option(help="Records that come before the time is taken.", min=0)] = _MIRROR.warm_up,
    record_bytes: Annotated[int, typer.Option(help="Key and value of a record.", min=32)] = _MIRROR.record_bytes,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.", min=1)] = _MIRROR.partitions,
    slots: Annotated[int, typer.Option(help="Parallel writers of ours.", min=1, max=64)] = _MIRROR.slots,
    batch_rows: Annotated[int, typer.Option(help="Records in a batch of ours.", min=1_000)] = _MIRROR.batch_rows,
    tasks: Annotated[int, typer.Option(help="tasks.max of MirrorMaker 2.", min=1)] = _MIRROR.tasks,
    compression: Annotated[str, typer.Option(help="Of the source's records and both sides' producers.")] = (
        _MIRROR.compression
    ),
    rounds: Annotated[int, typer.Option(help="Runs of each side, in turns.", min=1)] = _MIRROR.rounds,
    mirror_maker: Annotated[bool, typer.Option(help="Run MirrorMaker 2 in turns with our mirror.")] = True,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """One Kafka to another, exactly once, beside MirrorMaker 2; exit code 1 below a bar."""
    peers = _MIRROR.peers if mirror_maker else ()
    options = MirrorOptions(
        records, warm_up, record_bytes, partitions, slots, batch_rows, tasks, compression, rounds, peers
    )
    from databus.bench.mirror.throughput import run

    show(run(options, say, ports_from), results, output)


def mirror_delay(  # noqa: PLR0913, PLR0917 - one parameter per option
    records_per_second: Annotated[int, typer.Option(help="Records written per second.", min=1)] = (
        _LIVE_MIRROR.records_per_second
    ),
    seconds: Annotated[
        int | None, typer.Option(help="Length of a turn of ours; 1800.", min=1, show_default=False)
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="The same in minutes.", min=0.1, show_default=False)] = None,
    turns: Annotated[int, typer.Option(help="Turns of each side.", min=1)] = _LIVE_MIRROR.turns,
    together: Annotated[int, typer.Option(help="Records written at one time.", min=1)] = _LIVE_MIRROR.together,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.", min=1)] = _LIVE_MIRROR.partitions,
    window: Window = _LIVE_MIRROR.window,
    peer_seconds: Annotated[int, typer.Option(help="Length of a turn of MirrorMaker 2.", min=1)] = (
        _LIVE_MIRROR.peer_seconds
    ),
    mirror_maker: Annotated[bool, typer.Option(help="Run MirrorMaker 2 in turns with our mirror.")] = (
        _LIVE_MIRROR.mirror_maker
    ),
    plugins: Plugins = Path("plugins"),
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """Written to one Kafka to readable in another, by a live mirror that a real Airflow runs, beside MirrorMaker 2.

    Exit code 1 beyond a bar.
    """
    options = MirrorDelayOptions(
        records_per_second=records_per_second,
        seconds=seconds_of(seconds, minutes) or _LIVE_MIRROR.seconds,
        turns=turns,
        together=together,
        partitions=partitions,
        window=window,
        peer_seconds=peer_seconds,
        mirror_maker=mirror_maker,
        plugins=folder_of(plugins),
    )
    from databus.bench.mirror.delay import run

    show(run(options, say, ports_from), results, output)


def mirror_link(  # noqa: PLR0913, PLR0917 - one parameter per option
    minutes: Annotated[float, typer.Option(help="How long the link is down.", min=0.05)] = _LINK.down_s / 60,
    records_per_second: Annotated[int, typer.Option(help="Written to the source.", min=10)] = _LINK.records_per_second,
    record_bytes: Annotated[int, typer.Option(help="Key and value of a record.", min=32)] = _LINK.record_bytes,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.", min=1)] = _LINK.partitions,
    slots: Annotated[int, typer.Option(help="Parallel writers.", min=1, max=64)] = _LINK.slots,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """Cut the link of a mirror for minutes, and time how it catches up; exit code 1 beyond a bar."""
    options = MirrorLinkOptions(records_per_second, record_bytes, partitions, _LINK.before_s, minutes * 60, slots)
    from databus.bench.mirror.link import run

    show(run(options, say, ports_from), results, output)


def plan(
    partitions: Annotated[int, typer.Option(help="Topic-partitions, of five topics.", min=5)] = _PLAN.partitions,
    rounds: Annotated[int, typer.Option(help="Plans that are timed; the dearest counts.", min=1)] = _PLAN.rounds,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """CPU seconds and requests of a mirror's plan over thousands of partitions; exit code 1 beyond a bar."""
    from databus.bench.plan import run

    show(run(PlanOptions(partitions, rounds), say, ports_from), results, output)
