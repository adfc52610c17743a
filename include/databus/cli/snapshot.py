"""`databus snapshot`: reads tables of a flow as they stand, beside its stream; progress, pause and end of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from databus.cli.checkpoint.amend import nothing_done
from databus.cli.server.choice import served
from databus.cli.terminal.option_groups import grouped
from databus.cli.terminal.options import ChangeOptions, FlowName, Shown, opened, operator
from databus.cli.terminal.output import ERR, Format, show_one, show_rows
from databus.core.amounts import counted
from databus.core.state.snapshot import Snapshot
from databus.core.state.snapshot_progress import progress_of
from databus.ops import snapshots
from databus.ops.checkpoint.amend import Attribution

if TYPE_CHECKING:
    from databus.cli.server.client import ServedFlow

app = typer.Typer(help="Read a flow's tables as they stand, beside its stream.", no_args_is_help=True)

_COLUMNS = ("table", "state", "rows", "superseded", "of about", "chunks", "where")


@app.command()
@grouped
def show(flow: FlowName, shown: Shown) -> None:
    """Show how far the flow's snapshot has come, table by table."""
    if (there := served(flow)) is not None:
        told = there.get("/snapshot", load=True)
        if told["snapshot"] is None:
            ERR.print(f"flow {there.name} has no snapshot: {told['note']}", markup=False)
            return
        _show(_snapshot(told["snapshot"]), shown.output, told["snapshot"]["progress"].get("waits", ""))
        return
    with opened(flow, shown.dags) as (spec, services):
        found = services.store.snapshot(flow)
        if found is None:
            ERR.print(f"flow {flow} has no snapshot: {snapshots.first_words(spec, services)}", markup=False)
            return
        load = snapshots.load_of(spec, services, found)
    _show(found, shown.output, load)


@app.command()
@grouped
def begin(
    flow: FlowName,
    change: ChangeOptions,
    shown: Shown,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", help="Table to read, DATABASE.TABLE; may be repeated.", show_default="all of the flow's"
        ),
    ] = None,
    where: Annotated[
        str,
        typer.Option(
            "--where", help='Condition in SQL for the rows of one table, e.g. "id > 1000".', show_default="all rows"
        ),
    ] = "",
    mends: Annotated[
        list[int] | None,
        typer.Option(
            "--mends",
            help="Number of a gap that was passed over (`databus gaps`) and is mended by it; may be repeated.",
            show_default="none",
        ),
    ] = None,
) -> None:
    """Begin a snapshot: rows of tables come, each once."""
    if (there := served(flow)) is not None:
        asked = {"tables": table or [], "where": where, "mends": mends or []}
        if not change.execute:
            told = there.preview("snapshot", {"action": "begin", **asked})["preview"]
            _show(_snapshot(told), shown.output, proposed=True)
            nothing_done(change.reason)
            return
        _show(_done(there, "begin", asked, change, "a snapshot"), shown.output)
        return
    with opened(flow, shown.dags) as (spec, services):
        wanted = snapshots.proposed(spec, services, table or (), where, mends or ())
        if not change.execute:
            _show(wanted, shown.output, proposed=True)
            nothing_done(change.reason)
            return
        begun = snapshots.begin(spec, services, wanted, Attribution(operator(), change.reason, what="a snapshot"))
    _show(begun, shown.output)


@app.command()
@grouped
def pause(flow: FlowName, change: ChangeOptions, shown: Shown) -> None:
    """Pause the snapshot; the stream goes on."""
    _decide(flow, "pause", change, shown)


@app.command()
@grouped
def resume(flow: FlowName, change: ChangeOptions, shown: Shown) -> None:
    """Resume a paused snapshot where it stands."""
    _decide(flow, "resume", change, shown)


@app.command()
@grouped
def cancel(flow: FlowName, change: ChangeOptions, shown: Shown) -> None:
    """End the snapshot before its last row; what was delivered stays."""
    _decide(flow, "cancel", change, shown)


def _decide(flow: str, what: snapshots.Decision, change: ChangeOptions, shown: Shown) -> None:
    said_of = f"the {what} of a snapshot"
    if (there := served(flow)) is not None:
        if not change.execute:
            told = there.preview("snapshot", {"action": what})
            _show(_snapshot(told["preview"]), shown.output, would=told["would"])
            nothing_done(change.reason)
            return
        _show(_done(there, what, {}, change, said_of), shown.output)
        return
    with opened(flow, shown.dags) as (spec, services):
        if not change.execute:
            found, would = snapshots.foreseen(flow, services.store.snapshot(flow), what)
            _show(found, shown.output, would=would)
            nothing_done(change.reason)
            return
        said = Attribution(operator(), change.reason, what=said_of)
        found = snapshots.decide(spec, services, what, said)
    _show(found, shown.output)


def _done(there: ServedFlow, action: str, asked: Mapping[str, Any], change: ChangeOptions, what: str) -> Snapshot:
    """Have a server do an action on a snapshot."""
    Attribution(operator(), change.reason, what=what)  # refused without a reason, before anything is asked
    return _snapshot(there.act(f"/snapshot/{action}", {**asked, "reason": change.reason})["result"])


def _snapshot(told: Mapping[str, Any]) -> Snapshot:
    return Snapshot.from_json({name: value for name, value in told.items() if name != "progress"})


def _show(snapshot: Snapshot, output: Format, load: str = "", *, proposed: bool = False, would: str = "") -> None:
    seen = progress_of(snapshot, datetime.now(UTC), waits=load)
    if output is not Format.TABLE:
        progress = {} if proposed else {"progress": seen.to_json()}
        show_one({**snapshot.to_json(), **progress, **({"would": would} if would else {})}, output)
        return
    rows = [
        {
            "table": table.table,
            "state": table.state,
            "rows": table.rows,
            "superseded": table.superseded,
            "of about": table.estimate,
            "chunks": table.chunks,
            "where": table.where,
        }
        for table in snapshot.tables
    ]
    show_rows(rows, _COLUMNS, output, empty="no tables")
    if proposed:
        rows_there = sum(table.estimate or 0 for table in snapshot.tables)
        said = f"snapshot {snapshot.number} would read {counted(len(snapshot.tables), 'table')}, about "
        ERR.print(said + counted(rows_there, "row"), markup=False)
        return
    ERR.print(seen.text, markup=False)
    if would:
        ERR.print(would, markup=False, soft_wrap=True)
