"""`databus plan` and `databus run`: the range of the next batch, and a run without Airflow."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from databus import __version__
from databus.cli.server.choice import served
from databus.cli.terminal.exits import exit_code_of_rows
from databus.cli.terminal.options import Dags, FlowName, Output, Spark, opened, spark_session
from databus.cli.terminal.output import ERR, Format, show_one
from databus.cli.terminal.places import place
from databus.core.amounts import counted
from databus.core.errors.checkpoint import FlowPausedError
from databus.ops.health.preflight import refuse_purged, refuse_what_is_not_there, require_passed
from databus.ops.mirror.loops import findings_beside

if TYPE_CHECKING:
    from databus.core.batches.report import BatchReport
    from databus.runtime.window_result import WindowResult


def plan(flow: FlowName, dags: Dags = None, output: Output = Format.TABLE) -> None:
    """Show the range of the next batch; nothing is written."""
    from databus.ops.runs.preview import preview

    if (there := served(flow)) is not None:
        show_one(there.get("/plan"), output)
        return
    with opened(flow, dags, records=False) as (spec, services):
        seen = preview(spec, services)
    show_one(seen.to_json(), output)


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    batches: Annotated[
        int | None,
        typer.Option("--batches", "-n", help="Stop after so many batches, e.g. 1.", min=1, show_default="no limit"),
    ] = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop when the source has nothing new.")
    ] = False,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Count rows by where they would go, and write nothing.")
    ] = False,
    spark: Spark = "local[2]",
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Run a flow without Airflow, under its lease and checkpoint.

    It goes on until a signal stops it, unless --batches or --until-caught-up end it.

    Exit code 7 when a check sent rows to quarantine (state "quarantined"), a sink refused some ("rejected"), or a gap
    that on_gap passes over lost some ("lost"); 4 when a sink is behind; 0 when every row is where it belongs, or the
    flow is paused.
    """
    from databus.ops.runs.dry_run import dry_run
    from databus.ops.runs.preview import snapshot_text
    from databus.ops.runs.run import run_flow
    from databus.runtime.context import RunIdentity
    from databus.runtime.drain import Drain, drain_on_signals
    from databus.runtime.window_limits import WindowControl, WindowLimits

    identity = RunIdentity(f"local:{socket.gethostname()}:{os.getpid()}", "", __version__)
    with opened(flow, dags) as (spec, services):
        require_passed(spec, findings_beside(spec, dags))
        refuse_what_is_not_there(spec, services)
        if not dry:
            refuse_purged(spec, services, identity.run_id)
        session = spark_session(spark)
        if dry:
            show_one(dry_run(spec, services, session, identity).to_json(), output)
            return
        limits = WindowLimits(float("inf"), batches, until_caught_up or batches is not None, lease_wait_s=5.0)
        drain = Drain()
        with drain_on_signals(drain), _progress(flow) as (bar, task):

            def moved(report: BatchReport) -> None:
                rate = report.rows / max(sum(report.durations_ms.values()), 1) * 1000
                bar.update(task, advance=report.rows, what=f"{place(report.plan.range.end)}  {rate:,.0f} rows/s")

            try:
                result = run_flow(spec, services, session, identity, WindowControl(limits, drain, moved))
            except FlowPausedError as paused:  # what a person wanted is no failure
                ERR.print(f"{paused.message}. {paused.hint}", markup=False, soft_wrap=True)
                show_one({"flow": flow, "batches": 0, "paused": paused.message}, output)
                return
        show_one(result.summary(), output)
        if unread := snapshot_text(spec, services, begun=True):
            ERR.print(f"{flow}: {unread}", markup=False, soft_wrap=True)
        raise typer.Exit(_told(result))


def _told(result: WindowResult) -> int:
    """Print on stderr why a window did not go well; return the exit code."""
    refused = sum(counts.rejected for counts in result.sinks.values())
    told = [f"sink {sink} refused {counted(of.rejected, 'row')}" for sink, of in result.sinks.items() if of.rejected]
    held = result.quarantined
    told += [f"{counted(held, 'row')} {'is' if held == 1 else 'are'} in quarantine"] if held else []
    if told:
        told.append(f"`databus quarantine list {result.flow}` shows them")
    told += [f"a gap was passed over: {lost.why}" for lost in result.lost]
    told += [f"`databus gaps {result.flow}` names what is lost"] if result.lost else []
    told += [f"sink {sink} is behind, at {offset}" for sink, offset in result.behind.items()]
    if told:
        ERR.print(f"NOT WELL: {'; '.join(told)}", style="yellow", markup=False, soft_wrap=True)
    return exit_code_of_rows(missing=refused + result.quarantined + len(result.lost), behind=len(result.behind))


def _progress(flow: str) -> _FlowProgress:
    return _FlowProgress(flow)


class _FlowProgress:
    """Progress bar on a terminal; nothing elsewhere, where log lines stand."""

    def __init__(self, flow: str):
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(pulse_style="green"),
            TaskProgressColumn("{task.completed:,.0f} rows"),
            TextColumn("{task.fields[what]}"),
            TimeElapsedColumn(),
            console=ERR,
            disable=not ERR.is_terminal,
        )
        self._flow = flow

    def __enter__(self) -> tuple[Progress, TaskID]:
        self._bar.start()
        return self._bar, self._bar.add_task(self._flow, total=None, what="")

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
