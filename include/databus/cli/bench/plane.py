"""`databus bench`: what Airflow does with the flows."""

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
from databus.cli.bench.results import Plugins, PortsFrom, Results, folder_of, say, seconds_of, show
from databus.cli.terminal.options import Output
from databus.cli.terminal.output import Format

_FILES = DagFilesOptions()
_IDLE = IdleOptions()
_IDLE_AIRFLOW = AirflowIdleOptions()
_METADATA = MetadataOptions()
_PLANE = PlaneOptions()


def idle(  # noqa: PLR0913, PLR0917 - one parameter per option
    seconds: Annotated[
        int | None,
        typer.Option(
            help="Time a live run is watched; 60, with --airflow 300, and 3 times.", min=1, show_default=False
        ),
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="The same in minutes.", min=0.1, show_default=False)] = None,
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
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """CPU seconds of a live and of an economy flow while nothing is written."""
    asked = seconds_of(seconds, minutes)
    if airflow:
        from databus.bench.airflow import idle as airflow_idle

        wanted = AirflowIdleOptions(asked or _IDLE_AIRFLOW.seconds, every, folder_of(plugins))
        show(airflow_idle.run(wanted, say, ports_from), results, output)
    from databus.bench.idle import run

    show(run(IdleOptions(asked or _IDLE.seconds, runs), say, ports_from), results, output)


def dag_files(
    files: Annotated[int, typer.Option(help="DAG files, one flow each.", min=1)] = _FILES.files,
    processes: Annotated[int, typer.Option(help="Files that Airflow parses at a time.", min=1)] = _FILES.processes,
    results: Results = None,
    output: Output = Format.TABLE,
) -> None:
    """Seconds that Airflow's DAG processor takes over the DAG files of many flows; exit code 1 beyond a bar."""
    options = DagFilesOptions(files, processes)
    from databus.bench.airflow.dag_files import run

    show(run(options, say), results, output)


def metadata(  # noqa: PLR0913, PLR0917 - one parameter per option
    flows: Annotated[int, typer.Option(help="Flows whose DAGs are scheduled.", min=1)] = _METADATA.flows,
    every_seconds: Annotated[int, typer.Option(help="Between two runs of a flow.", min=5)] = _METADATA.every_seconds,
    days: Annotated[float, typer.Option(help="Age of the oldest run.", min=0.01)] = _METADATA.days,
    keep_days: Annotated[float, typer.Option(help="What retention leaves.", min=0)] = _METADATA.keep_days,
    seconds: Annotated[int, typer.Option(help="Time the scheduler is watched, three times.", min=5)] = (
        _METADATA.seconds
    ),
    database: Annotated[
        str | None, typer.Option(help="SQLAlchemy URL of an empty database.", show_default="a PostgreSQL of its own")
    ] = None,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """A loop of Airflow's scheduler on a month of runs, before and after retention; exit code 1 beyond a bar."""
    from databus.bench.airflow.metadata import run

    show(
        run(MetadataOptions(flows, every_seconds, days, keep_days, seconds, database), say, ports_from),
        results,
        output,
    )


def plane(  # noqa: PLR0913, PLR0917 - one parameter per option
    live: Annotated[int, typer.Option(help="Live flows.", min=0)] = _PLANE.live,
    economy: Annotated[int, typer.Option(help="Economy flows.", min=0)] = _PLANE.economy,
    minutes: Annotated[float, typer.Option(help="How long rows are written.", min=0.1)] = _PLANE.minutes,
    live_row_seconds: Annotated[float, typer.Option(help="Between two rows of a live flow.", min=0.01)] = (
        _PLANE.live_row_seconds
    ),
    economy_row_seconds: Annotated[float, typer.Option(help="Between two rows of an economy flow.", min=0.01)] = (
        _PLANE.economy_row_seconds
    ),
    wake_seconds: Annotated[float, typer.Option(help="Between two wakes of an economy flow, at least.", min=0)] = (
        _PLANE.wake_seconds
    ),
    parallelism: Annotated[int, typer.Option(help="Tasks that Airflow runs at a time.", min=1)] = _PLANE.parallelism,
    plugins: Annotated[Path, typer.Option("--plugins", help="Folder of Airflow's plugins.", exists=True)] = Path(
        "plugins"
    ),
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """How fresh live and economy flows are side by side under a real Airflow, and their CPU and memory."""
    options = PlaneOptions(live, economy, minutes, live_row_seconds, economy_row_seconds, wake_seconds, parallelism)
    from databus.bench.airflow.plane import run

    show(run(options, say, plugins, ports_from), results, output)
