"""`databus bench`: flows under a real Airflow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from databus.bench.options import (
    AirflowIdleOptions,
    DagFilesOptions,
    IdleOptions,
    MetadataOptions,
    PlaneOptions,
)
from databus.cli.bench.results import Minutes, Plugins, Report, Servers, folder_of, say, seconds_of
from databus.cli.terminal.option_groups import grouped

_IDLE = IdleOptions()
_IDLE_AIRFLOW = AirflowIdleOptions()


@grouped
def idle(  # noqa: PLR0913, PLR0917 - one parameter per option
    report: Report,
    servers: Servers,
    seconds: Annotated[
        int | None,
        typer.Option(
            help="Time a live run is watched, in seconds; 60, with --airflow 300, and 3 times.",
            min=1,
            show_default=False,
        ),
    ] = None,
    minutes: Minutes = None,
    runs: Annotated[int, typer.Option(help="Without --airflow: economy runs; the cheapest counts.", min=1)] = (
        _IDLE.runs
    ),
    airflow: Annotated[
        bool, typer.Option("--airflow", help="A real Airflow runs the flows: every process of it and of theirs counts.")
    ] = False,
    every: Annotated[int, typer.Option(help="With --airflow: seconds from one run of a flow to the next.", min=5)] = (
        _IDLE_AIRFLOW.every_seconds
    ),
    plugins: Plugins = Path("plugins"),
) -> None:
    """CPU seconds of an idle live and economy flow."""
    asked = seconds_of(seconds, minutes)
    if airflow:
        from databus.bench.airflow import idle as airflow_idle

        wanted = AirflowIdleOptions(asked or _IDLE_AIRFLOW.seconds, every, folder_of(plugins))
        report.show(airflow_idle.run(wanted, say, servers.ports_from))
    from databus.bench.idle import run

    report.show(run(IdleOptions(asked or _IDLE.seconds, runs), say, servers.ports_from))


@grouped
def dag_files(sizes: DagFilesOptions, report: Report) -> None:
    """Time to parse the DAG files of many flows.

    Seconds of Airflow's DAG processor; exit code 1 beyond a bar.
    """
    from databus.bench.airflow.dag_files import run

    report.show(run(sizes, say))


@grouped
def metadata(sizes: MetadataOptions, report: Report, servers: Servers) -> None:
    """Scheduler loop on a month of runs.

    Of a real Airflow, before and after retention; exit code 1 beyond a bar.
    """
    from databus.bench.airflow.metadata import run

    report.show(run(sizes, say, servers.ports_from))


@grouped
def plane(
    sizes: PlaneOptions,
    report: Report,
    servers: Servers,
    plugins: Annotated[Path, typer.Option(help="Folder of Airflow's plugins.", exists=True)] = Path("plugins"),
) -> None:
    """Delay of many live and economy flows side by side.

    Under a real Airflow, with their CPU and memory.
    """
    from databus.bench.airflow.plane import run

    report.show(run(sizes, say, plugins, servers.ports_from))
