"""`databus quarantine`: rows that failed a check or that a sink refused, and their replay after a fix."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from databus import __version__
from databus.cli.server.choice import served
from databus.cli.server.problems import problem_error
from databus.cli.terminal.exits import exit_code_of_rows
from databus.cli.terminal.option_groups import grouped
from databus.cli.terminal.options import (
    AmendmentOptions,
    ChangeOptions,
    Dags,
    FlowName,
    Shown,
    Spark,
    opened,
    operator,
    spark_session,
)
from databus.cli.terminal.output import ERR, OUT, Format, print_advice, show_one, show_rows
from databus.core.amounts import counted
from databus.core.batches.counts import SinkCounts, by_sink
from databus.core.errors.batch import ReplaysRefusedError
from databus.core.errors.config import ConfigError
from databus.ops.checkpoint.amend import Attribution
from databus.ops.quarantine import show as quarantine
from databus.ops.quarantine.outcome import ReplayResult
from databus.ops.quarantine.replay import replay_rows
from databus.ops.quarantine.replay_entries import refusals
from databus.records.quarantine.held_row import HeldState
from databus.records.quarantine.rows import Selection
from databus.runtime.context import RunIdentity

if TYPE_CHECKING:
    from databus.cli.server.client import ServedFlow

app = typer.Typer(help="List, replay or discard rows in quarantine.", no_args_is_help=True)

Stage = Annotated[
    str | None, typer.Option("--stage", help='Only rows of this stage: "check" or a sink\'s name.', show_default="all")
]
Table = Annotated[
    str | None, typer.Option("--table", help="Only rows of this table, DATABASE.TABLE.", show_default="all")
]
Cause = Annotated[
    str | None,
    typer.Option("--cause", help="Only rows whose cause contains this text, e.g. not_null.", show_default="all"),
]


@dataclass(frozen=True)
class InState:
    """Option group of a look at rows: their state, held ones by default."""

    state: Annotated[HeldState | None, typer.Option("--state", help="Only rows in this state.")] = HeldState.HELD


@dataclass(frozen=True)
class Held:
    """Option group of a decision: held rows that it is about."""

    stage: Stage = None
    table: Table = None
    cause: Cause = None
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event", help="Only the row of this event id; may be repeated.", metavar="EVENT_ID", show_default="all"
        ),
    ] = None

    @property
    def selection(self) -> Selection:
        """The rows, as the records select them."""
        return Selection(HeldState.HELD, self.stage, self.table, tuple(self.event or ()), self.cause)

    @property
    def chosen(self) -> dict[str, Any]:
        """The rows, as the routes take a choice."""
        given = {"stage": self.stage, "table": self.table, "cause": self.cause, "events": self.event or None}
        return {name: value for name, value in given.items() if value is not None}


_PREVIEWED = 20
"""Rows that the table of a preview shows."""
_COLUMNS = ("state", "table", "key", "cause", "stage", "position", "batch", "event_id")


@app.command("list")
@grouped
def list_rows(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    only: InState,
    shown: Shown,
    stage: Stage = None,
    table: Table = None,
    cause: Cause = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of rows to list.", min=1)] = 100,
) -> None:
    """List rows, oldest first, and count them by state and stage.

    Stderr says when more rows match than --limit lets through, whatever the format.
    """
    if (there := served(flow)) is not None:
        rows = _held_there(there, only.state, stage=stage, table=table, cause=cause, limit=limit + 1)
        count = there.get("/quarantine", limit=1)["tally"]
    else:
        with opened(flow, shown.dags) as (spec, services):
            wanted = Selection(only.state, stage, table, (), cause, limit + 1)
            quarantine.require_known(spec, services, wanted)
            rows = [row.to_json() for row in quarantine.select(spec, services, wanted)]
            count = quarantine.tally(spec, services)
    listed = rows[:limit]
    show_rows(listed, _COLUMNS, shown.output, empty="no rows")
    if len(listed) < len(rows):
        ERR.print(f"NOT ALL: the first {counted(limit, 'row')}; more match, raise --limit.", style="yellow")
    ERR.print(", ".join(_counted(name, by_stage) for name, by_stage in sorted(count.items())) or "quarantine is empty")


def _counted(state: str, by_stage: dict[str, int]) -> str:
    """Count the rows in a state, e.g. "61 held (check 2, search 59)"; a row that two sinks refused is two."""
    parts = ", ".join(f"{stage} {rows}" for stage, rows in sorted(by_stage.items()))
    return f"{sum(by_stage.values())} {state} ({parts})"


@app.command()
@grouped
def show(
    flow: FlowName,
    event: Annotated[str, typer.Argument(help="Event id of the row (`quarantine list`).", metavar="EVENT_ID")],
    shown: Shown,
) -> None:
    """Show all that is known of a row, with its payload."""
    if (there := served(flow)) is not None:
        rows = _held_there(there, None, event=[event])
    else:
        with opened(flow, shown.dags) as (spec, services):
            found = quarantine.select(spec, services, Selection(None, event_ids=(event,)))
        rows = [row.to_json() for row in found]
    if not rows:
        raise ConfigError(
            f"flow {flow} has no row {event!r} in quarantine", hint=f"`databus quarantine list {flow}` names them."
        )
    for row in rows:
        show_one(row, shown.output)


@app.command()
@grouped
def export(flow: FlowName, only: InState, stage: Stage = None, table: Table = None, dags: Dags = None) -> None:
    """Print rows as JSON lines, with their payload."""
    if (there := served(flow)) is not None:
        for told in there.lines("/quarantine/held", state=_state(only.state), stage=stage, table=table):
            OUT.print(json.dumps(json.loads(told), ensure_ascii=False), markup=False, soft_wrap=True)
        return
    with opened(flow, dags) as (spec, services):
        wanted = Selection(only.state, stage, table)
        quarantine.require_known(spec, services, wanted)
        rows = quarantine.select(spec, services, wanted)
    for row in rows:
        OUT.print(json.dumps(row.to_json(), ensure_ascii=False), markup=False, soft_wrap=True)


@app.command()
@grouped
def replay(flow: FlowName, held: Held, change: AmendmentOptions, shown: Shown, spark: Spark = "local[2]") -> None:
    """Send held rows through the flow as it is now, each once.

    A row that a check or a sink refuses again stays in quarantine: with --execute exit code 7. It is 1 when rows of
    some batches cannot be replayed as things are; the others are replayed first.
    """
    wanted, what = held.selection, "a replay of rows in quarantine"
    if (there := served(flow)) is not None:
        _replay_there(there, held, change, shown)
        return
    with opened(flow, shown.dags) as (spec, services):
        quarantine.require_known(spec, services, wanted)
        if not change.execute:
            rows = quarantine.select(spec, services, wanted)
            _preview([row.to_json() for row in rows], flow, shown.output)
            _warn_of([one.to_json() for one in refusals(spec, services, rows)])
            return
        said = Attribution(operator(), change.reason, change.accept, what)
        identity = RunIdentity(f"replay:{socket.gethostname()}:{os.getpid()}", "", __version__)
        try:
            done = replay_rows(spec, services, (spark_session(spark), identity), wanted, said)
        except ReplaysRefusedError as error:
            if error.done:
                _show_replays(error.done, shown.output)
            raise
    _show_replays(done, shown.output)
    raise typer.Exit(exit_code_of_rows(missing=sum(r.held for r in done)))


def _replay_there(there: ServedFlow, held: Held, change: AmendmentOptions, shown: Shown) -> None:
    chosen = held.chosen
    seen = there.preview("quarantine", {"action": "replay", **chosen})
    if not change.execute:
        _preview(_chosen_there(there, held), there.name, shown.output)
        _warn_of(seen["refused"])
        if not seen["judged"]:
            ERR.print("So many rows are not judged before they are replayed.", style="dim")
        return
    Attribution(operator(), change.reason, what="a replay of rows in quarantine")  # refused without a reason
    asked = {**chosen, "rows": seen["rows"], "upto": seen["upto"], "accept": change.accept, "reason": change.reason}
    answer = there.act("/quarantine/replay", asked)
    told = [{**one, "sinks": {name: SinkCounts(**of) for name, of in one["sinks"].items()}} for one in answer["result"]]
    done = [ReplayResult(**one) for one in told]
    if (refused := answer["refused"]) is not None:
        _show_replays(done, shown.output)
        raise problem_error(409, {**refused, "detail": refused["why"]})
    _show_replays(done, shown.output)
    raise typer.Exit(exit_code_of_rows(missing=sum(r.held for r in done)))


def _held_there(there: ServedFlow, state: HeldState | None, **wanted: Any) -> list[dict[str, Any]]:
    """Return rows in quarantine as a server shows them."""
    return [json.loads(line) for line in there.lines("/quarantine/held", state=_state(state), **wanted)]


def _chosen_there(there: ServedFlow, held: Held) -> list[dict[str, Any]]:
    wanted = {"stage": held.stage, "table": held.table, "cause": held.cause, "event": held.event}
    return _held_there(there, HeldState.HELD, **wanted)


def _state(state: HeldState | None) -> str:
    return "all" if state is None else str(state)


def _warn_of(refused: Sequence[Mapping[str, Any]]) -> None:
    """Name on stderr the rows of a preview that would be refused as things are."""
    for one in refused:
        rows = f"batch {one['batch']} ({counted(one['rows'], 'row')})"
        ERR.print(f"{rows} would be refused: {one['why']}", style="yellow", markup=False, soft_wrap=True)
    for hint in dict.fromkeys(str(one["hint"]) for one in refused):
        print_advice(hint)


def _show_replays(done: Sequence[ReplayResult], output: Format) -> None:
    columns = ("number", "batch", "replayed", "held", "discarded", "sinks")
    words = output is Format.TABLE
    rows = [{**vars(r), "sinks": by_sink(r.sinks) if words else _plain(r.sinks)} for r in done]
    show_rows(rows, columns, output, empty="nothing to replay")


@app.command()
@grouped
def discard(flow: FlowName, held: Held, change: ChangeOptions, shown: Shown) -> None:
    """Discard held rows: they stay listed, with who and why.

    They are not replayed any more.
    """
    wanted, what = held.selection, "the decision to discard rows in quarantine"
    if (there := served(flow)) is not None:
        seen = there.preview("quarantine", {"action": "discard", **held.chosen})
        if not change.execute:
            _preview(_chosen_there(there, held), there.name, shown.output)
            return
        Attribution(operator(), change.reason, what=what)  # refused without a reason, before anything is asked
        asked = {**held.chosen, "rows": seen["rows"], "upto": seen["upto"], "reason": change.reason}
        show_one({"flow": there.name, **there.act("/quarantine/discard", asked)["result"]}, shown.output)
        return
    with opened(flow, shown.dags) as (spec, services):
        quarantine.require_known(spec, services, wanted)
        if not change.execute:
            _preview([row.to_json() for row in quarantine.select(spec, services, wanted)], flow, shown.output)
            return
        said = Attribution(operator(), change.reason, what=what)
        count = quarantine.discard(spec, services, wanted, said)
    show_one({"flow": flow, "discarded": count}, shown.output)


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
