"""`databus snapshot`: reads tables of a flow as they stand, beside its stream; progress, pause and end of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from databus.cli.checkpoint.amend import nothing_done
from databus.cli.terminal.option_groups import grouped
from databus.cli.terminal.options import ChangeOptions, FlowName, Shown, opened, operator
from databus.cli.terminal.output import ERR, Format, show_one, show_rows
from databus.core.amounts import counted
from databus.core.state.snapshot import Snapshot
from databus.core.state.snapshot_progress import progress_of
from databus.ops import snapshots
from databus.ops.checkpoint.amend import Attribution

app = typer.Typer(help="Read a flow's tables as they stand, beside its stream.", no_args_is_help=True)

_COLUMNS = ("table", "state", "rows", "superseded", "of about", "chunks", "where")


@app.command()
@grouped
def show(flow: FlowName, shown: Shown) -> None:
    """Show how far the flow's snapshot has come, table by table."""
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
    with opened(flow, shown.dags) as (spec, services):
        if not change.execute:
            found, would = snapshots.foreseen(flow, services.store.snapshot(flow), what)
            _show(found, shown.output, would=would)
            nothing_done(change.reason)
            return
        said = Attribution(operator(), change.reason, what=f"the {what} of a snapshot")
        found = snapshots.decide(spec, services, what, said)
    _show(found, shown.output)


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
