"""`databus quarantine`: rows that checks and sinks hold back, and replaying them once after a fix."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from typing import Annotated

import typer

from databus import __version__
from databus.cli.checkpoint.amend import Accept, Execute, Reason, operator
from databus.cli.terminal.exits import exit_code_of_rows
from databus.cli.terminal.options import Dags, FlowName, Output, opened
from databus.cli.terminal.output import ERR, OUT, Format, print_advice, show_one, show_rows
from databus.core.amounts import counted
from databus.core.batches.counts import SinkCounts, by_sink
from databus.core.errors.config import ConfigError
from databus.core.errors.records import ReplaysRefusedError
from databus.ops.checkpoint.amend import Attribution
from databus.ops.quarantine import show as quarantine
from databus.ops.quarantine.outcome import ReplayResult
from databus.ops.quarantine.replay import replay_rows
from databus.ops.quarantine.replay_preview import refusals
from databus.ops.quarantine.replay_refusals import ReplayRefusal
from databus.records.quarantine import HeldState, Selection
from databus.runtime.context import RunIdentity
from databus.runtime.spark.session import classic_session, connect_session

app = typer.Typer(help="Rows held back: list, show, export, replay once, discard.", no_args_is_help=True)

Stage = Annotated[str | None, typer.Option("--stage", help='Only of this stage: "check" or a sink\'s name.')]
Table = Annotated[str | None, typer.Option("--table", help="Only of this table, DATABASE.TABLE.")]
Cause = Annotated[str | None, typer.Option("--cause", help="Only where the cause contains this.")]
Event = Annotated[list[str] | None, typer.Option("--event", help="Only this event id; may be repeated.")]
State = Annotated[HeldState | None, typer.Option("--state", help="Only in this state; all by default.")]
_PREVIEWED = 20
"""Rows that the table of a preview shows."""
_COLUMNS = ("state", "table", "key", "cause", "stage", "position", "batch", "event_id")


@app.command("list")
def list_rows(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    state: State = HeldState.HELD,
    stage: Stage = None,
    table: Table = None,
    cause: Cause = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1)] = 100,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """List rows in quarantine, oldest first, and the number of rows by state and by who holds them: check or sink."""
    with opened(flow, dags) as (spec, services):
        wanted = Selection(state, stage, table, (), cause, limit)
        quarantine.require_known(spec, services, wanted)
        rows = quarantine.select(spec, services, wanted)
        count = quarantine.tally(spec, services)
    show_rows([row.to_json() for row in rows], _COLUMNS, output, empty="no rows")
    ERR.print(", ".join(_counted(name, by_stage) for name, by_stage in sorted(count.items())) or "quarantine is empty")


def _counted(state: str, by_stage: dict[str, int]) -> str:
    """Say how many rows are in a state, e.g. "61 held (check 2, search 59)"; a row that two sinks refused is two."""
    parts = ", ".join(f"{stage} {rows}" for stage, rows in sorted(by_stage.items()))
    return f"{sum(by_stage.values())} {state} ({parts})"


@app.command()
def show(
    flow: FlowName,
    event: Annotated[str, typer.Argument(help="Event id.")],
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Show all that is known of a row, with its payload."""
    with opened(flow, dags) as (spec, services):
        rows = quarantine.select(spec, services, Selection(None, event_ids=(event,)))
    if not rows:
        raise ConfigError(f"flow {flow} holds no row {event!r}", hint=f"`databus quarantine list {flow}` names them.")
    for row in rows:
        show_one(row.to_json(), output)


@app.command()
def export(
    flow: FlowName, state: State = HeldState.HELD, stage: Stage = None, table: Table = None, dags: Dags = None
) -> None:
    """Print rows as JSON lines, with their payload."""
    with opened(flow, dags) as (spec, services):
        wanted = Selection(state, stage, table)
        quarantine.require_known(spec, services, wanted)
        rows = quarantine.select(spec, services, wanted)
    for row in rows:
        OUT.print(json.dumps(row.to_json(), ensure_ascii=False), markup=False, soft_wrap=True)


@app.command()
def replay(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    stage: Stage = None,
    table: Table = None,
    cause: Cause = None,
    event: Event = None,
    reason: Reason = "",
    execute: Execute = False,
    accept: Accept = False,
    spark: Annotated[str, typer.Option("--spark", help="Spark master or sc:// address.")] = "local[2]",
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Send held rows through the flow as it is now, each once; what is held back again stays here.

    With --execute exit code 7 when rows were held back again, or refused by a sink, and 1 when rows of some batches
    cannot be replayed as things are; the others are replayed first.
    """
    wanted = Selection(HeldState.HELD, stage, table, tuple(event or ()), cause)
    with opened(flow, dags) as (spec, services):
        quarantine.require_known(spec, services, wanted)
        if not execute:
            held = quarantine.select(spec, services, wanted)
            _preview([row.to_json() for row in held], flow, output)
            _warn_of(refusals(spec, services, held))
            return
        said = Attribution(operator(), reason, accept, "a replay of rows held back")
        identity = RunIdentity(f"replay:{socket.gethostname()}:{os.getpid()}", "", __version__)
        session = connect_session(spark, f"cli/{os.getpid()}") if spark.startswith("sc://") else classic_session(spark)
        try:
            done = replay_rows(spec, services, (session, identity), wanted, said)
        except ReplaysRefusedError as error:
            if error.done:
                _show_replays(error.done, output)
            raise
    _show_replays(done, output)
    raise typer.Exit(exit_code_of_rows(missing=sum(r.held for r in done)))


def _warn_of(refused: Sequence[ReplayRefusal]) -> None:
    """Say on stderr which rows of a preview would be refused as things are."""
    for one in refused:
        rows = f"batch {one.batch} ({counted(one.rows, 'row')})"
        ERR.print(f"{rows} would be refused: {one.error.message}", style="yellow", markup=False, soft_wrap=True)
    for hint in dict.fromkeys(one.error.hint for one in refused):
        print_advice(hint)


def _show_replays(done: Sequence[ReplayResult], output: Format) -> None:
    columns = ("number", "batch", "replayed", "held", "discarded", "sinks")
    words = output is Format.TABLE
    rows = [{**vars(r), "sinks": by_sink(r.sinks) if words else _plain(r.sinks)} for r in done]
    show_rows(rows, columns, output, empty="nothing to replay")


@app.command()
def discard(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    stage: Stage = None,
    table: Table = None,
    cause: Cause = None,
    event: Event = None,
    reason: Reason = "",
    execute: Execute = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Decide that held rows will not be replayed; they stay listed, with who and why."""
    wanted = Selection(HeldState.HELD, stage, table, tuple(event or ()), cause)
    with opened(flow, dags) as (spec, services):
        quarantine.require_known(spec, services, wanted)
        if not execute:
            _preview([row.to_json() for row in quarantine.select(spec, services, wanted)], flow, output)
            return
        said = Attribution(operator(), reason, what="the decision that rows held back are discarded")
        count = quarantine.discard(spec, services, wanted, said)
    show_one({"flow": flow, "discarded": count}, output)


def _plain(sinks: dict[str, SinkCounts]) -> dict[str, dict[str, int]]:
    return {name: counts.to_json() for name, counts in sorted(sinks.items())}


def _preview(rows: list[dict[str, object]], flow: str, output: Format) -> None:
    shown = rows if output is not Format.TABLE else rows[:_PREVIEWED]
    show_rows(shown, _COLUMNS, output, empty="no rows are held")
    if len(shown) < len(rows):
        more = f"`databus quarantine list {flow} --limit {len(rows)}` shows all"
        ERR.print(f"The first {len(shown)} of {len(rows)}; {more}.", style="dim")
    meant = f"{counted(len(rows), 'row')} {'is' if len(rows) == 1 else 'are'} meant"
    ERR.print(f"{meant}. Nothing was done: add --reason and --execute.", style="dim")
