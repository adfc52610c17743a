"""`databus bench`: mirrors."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from databus.bench.options import (
    MirrorDelayOptions,
    MirrorLinkOptions,
    MirrorOptions,
    PlanOptions,
)
from databus.cli.bench.results import AirflowOptions, Minutes, Report, Servers, folder_of, say, seconds_of
from databus.cli.terminal.option_groups import grouped

_LIVE_MIRROR = MirrorDelayOptions()


@grouped
def mirror(
    sizes: MirrorOptions,
    report: Report,
    servers: Servers,
    mirror_maker: Annotated[bool, typer.Option(help="Run MirrorMaker 2 in turns with our mirror.")] = True,
) -> None:
    """One Kafka to another, beside MirrorMaker 2.

    Exactly once; exit code 1 below a bar.
    """
    from databus.bench.mirror.throughput import run

    peers = sizes.peers if mirror_maker else ()
    report.show(run(replace(sizes, peers=peers), say, servers.ports_from))


@grouped
def mirror_delay(  # noqa: PLR0913, PLR0917 - one parameter per option
    report: Report,
    servers: Servers,
    under: AirflowOptions,
    records_per_second: Annotated[int, typer.Option(help="Records written per second.", min=1)] = (
        _LIVE_MIRROR.records_per_second
    ),
    seconds: Annotated[
        int | None, typer.Option(help="Length of a turn of ours, in seconds; 1800.", min=1, show_default=False)
    ] = None,
    minutes: Minutes = None,
    turns: Annotated[int, typer.Option(help="Turns of each side.", min=1)] = _LIVE_MIRROR.turns,
    together: Annotated[int, typer.Option(help="Records written at one time.", min=1)] = _LIVE_MIRROR.together,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.", min=1)] = _LIVE_MIRROR.partitions,
    peer_seconds: Annotated[int, typer.Option(help="Length of a turn of MirrorMaker 2, in seconds.", min=1)] = (
        _LIVE_MIRROR.peer_seconds
    ),
    mirror_maker: Annotated[bool, typer.Option(help="Run MirrorMaker 2 in turns with our mirror.")] = (
        _LIVE_MIRROR.mirror_maker
    ),
) -> None:
    """Delay of a live mirror, beside MirrorMaker 2.

    From written to one Kafka to readable in another, by a mirror that a real Airflow runs; exit code 1 beyond a bar.
    """
    options = MirrorDelayOptions(
        records_per_second=records_per_second,
        seconds=seconds_of(seconds, minutes) or _LIVE_MIRROR.seconds,
        turns=turns,
        together=together,
        partitions=partitions,
        window=under.window,
        peer_seconds=peer_seconds,
        mirror_maker=mirror_maker,
        plugins=folder_of(under.plugins),
    )
    from databus.bench.mirror.delay import run

    report.show(run(options, say, servers.ports_from))


@grouped
def mirror_link(
    sizes: MirrorLinkOptions,
    report: Report,
    servers: Servers,
    minutes: Annotated[
        float, typer.Option(help="Time that the link is down, in minutes.", min=0.05)
    ] = MirrorLinkOptions.down_s / 60,
) -> None:
    """Time to catch up after the link of a mirror was cut.

    Exit code 1 beyond a bar.
    """
    from databus.bench.mirror.link import run

    report.show(run(replace(sizes, down_s=minutes * 60), say, servers.ports_from))


@grouped
def plan(sizes: PlanOptions, report: Report, servers: Servers) -> None:
    """CPU seconds and requests of a mirror's plan.

    Over thousands of partitions; exit code 1 beyond a bar.
    """
    from databus.bench.plan import run

    report.show(run(sizes, say, servers.ports_from))
