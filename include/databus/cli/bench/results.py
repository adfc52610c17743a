"""Options that all of `databus bench` take, and the report of a result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from databus.bench.results import Result, results_folder
from databus.cli.terminal.exits import ERROR, OK
from databus.cli.terminal.options import Output
from databus.cli.terminal.output import ERR, OUT, Format, show_one, show_rows

Minutes = Annotated[float | None, typer.Option(help="The same as --seconds, in minutes.", min=0.1, show_default=False)]
Plugins = Annotated[Path, typer.Option(help="Folder of Airflow's plugins, used where it is there.")]


@dataclass(frozen=True)
class Report:
    """Option group of every benchmark: where its result goes."""

    results: Annotated[
        Path | None,
        typer.Option(
            "--results", help="Folder of the result file.", show_default="tests/bench/results, or ./bench-results"
        ),
    ] = None
    output: Output = Format.TABLE

    def show(self, result: Result) -> None:
        """Write the result file, print the table and the line that states the figure; exit code 1 below a bar."""
        path = result.write(self.results or results_folder())
        if self.output is Format.TABLE:
            show_rows(result.rows(), ("figure", "value", "bar", "state"), self.output)
            settings = ", ".join(f"{key} {value}" for key, value in result.settings.items())
            ERR.print(f"settings: {settings}", style="dim", markup=False, soft_wrap=True)
            ERR.print(f"written: {path}", style="dim", markup=False, soft_wrap=True)
            OUT.print(result.line(), markup=False, soft_wrap=True)
        else:
            show_one(result.to_json(), self.output)
        raise typer.Exit(OK if result.passed else ERROR)


@dataclass(frozen=True)
class Servers:
    """Option group of a benchmark that starts servers."""

    ports_from: Annotated[int, typer.Option("--ports-from", help="Take free ports from this number on.", min=1024)] = (
        22_000
    )


@dataclass(frozen=True)
class AirflowOptions:
    """Option group of a benchmark that runs a real Airflow."""

    window: Annotated[
        int, typer.Option(help="With Airflow: seconds from one run to the next, each of which takes over.", min=5)
    ] = 65
    plugins: Plugins = Path("plugins")


def seconds_of(seconds: int | None, minutes: float | None) -> int | None:
    """Return the length that one of the two options gives.

    Raises:
        BadParameter: both do.
    """
    if seconds is not None and minutes is not None:
        raise typer.BadParameter("--seconds and --minutes are the same: give one of them")
    return round(60 * minutes) if minutes is not None else seconds


def folder_of(plugins: Path) -> Path | None:
    """Return the folder of plugins where it is there."""
    return plugins.absolute() if plugins.is_dir() else None


def say(what: str) -> None:
    """Print progress on stderr."""
    ERR.print(f"{what} …", style="dim", markup=False)
