"""`databus outbox`: makes and removes outboxes and the trigger logs of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from databus.cli.terminal.options import Execute, Output, connection_source
from databus.cli.terminal.output import ERR, OUT, Format, show_rows

if TYPE_CHECKING:
    from databus.sources.sequence_table.install.target import InstallStage

app = typer.Typer(help="Make tables that programs or triggers write changes to.", no_args_is_help=True)

Conn = Annotated[
    str, typer.Argument(help="Id of a connection of type postgres or mysql, e.g. postgres_shop.", metavar="CONN")
]
TableName = Annotated[
    str,
    typer.Option(
        "--table",
        help="Table whose changes triggers write to a log, e.g. shop.orders.",
        show_default="none: an outbox, which programs write to",
    ),
]
Name = Annotated[
    str,
    typer.Option(
        "--name", help="Name of the outbox or log, with its schema.", show_default="outbox, or the table's and _log"
    ),
]


@app.command()
def install(
    conn: Conn,
    table: TableName = "",
    name: Name = "",
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude", help="Column of --table that is not logged; may be repeated.", show_default="all are logged"
        ),
    ] = None,
    execute: Execute = False,
    output: Output = Format.TABLE,
) -> None:
    """Make an outbox, or a log that triggers write to.

    Without --execute the SQL is printed. Run it again behind a change of the table's columns: what is there stays, a
    trigger that differs is named and made anew. PostgreSQL does all in one transaction; on MySQL nobody writes to the
    table while its triggers are made.
    """
    from databus.ops import outbox  # with SQLAlchemy, which help needs nothing of

    connection = connection_source().get(conn)
    target = outbox.target_of(connection, name, table, exclude or ())
    stages = outbox.install(connection, target, execute=execute)
    _show(stages, output, execute=execute)
    if output is Format.TABLE:
        changes = f', changes_of="{target.changes_of}"' if target.changes_of else ""
        ERR.print(
            f'A flow reads it by SequenceTable(conn_id="{conn}", table="{target.name}"{changes}).',
            markup=False,
            soft_wrap=True,
        )


@app.command()
def remove(
    conn: Conn,
    table: TableName = "",
    name: Name = "",
    with_rows: Annotated[
        bool, typer.Option("--with-rows", help="Drop the table also where it has rows, read or not.")
    ] = False,
    execute: Execute = False,
    output: Output = Format.TABLE,
) -> None:
    """Remove the triggers, and the outbox or log.

    Without --execute the SQL is printed. A table that has rows stays, without --with-rows: a flow may still have to
    read them.
    """
    from databus.ops import outbox  # with SQLAlchemy, which help needs nothing of

    connection = connection_source().get(conn)
    target = outbox.target_of(connection, name, table)
    _show(outbox.remove(connection, target, with_rows=with_rows, execute=execute), output, execute=execute)


def _show(stages: Sequence[InstallStage], output: Format, *, execute: bool) -> None:
    from databus.ops.outbox import steps_of

    steps = steps_of(stages)
    if output is not Format.TABLE:
        show_rows([step.to_json() for step in steps], (), output)
        return
    for step in steps:
        what = f"{step.what}: {step.state}" + (f" ({step.differs})" if step.differs else "")
        OUT.print(f"-- {what}" + (", done" if execute and step.statements else ""), markup=False, soft_wrap=True)
        for statement in step.statements:
            OUT.print(f"{statement};", markup=False, soft_wrap=True)
    if not execute and any(step.statements for step in steps):
        ERR.print("Nothing was done: add --execute.")
