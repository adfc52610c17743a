"""`databus validate`: compares what a flow's sinks hold with the source's tables, row by row."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from databus import __version__
from databus.cli.checkpoint.amend import nothing_done
from databus.cli.terminal.exits import DIFFERS
from databus.cli.terminal.option_groups import grouped
from databus.cli.terminal.options import ChangeOptions, FlowName, Shown, Spark, opened, operator, spark_session
from databus.cli.terminal.output import ERR, Format, show_one, show_rows
from databus.core.amounts import counted
from databus.core.errors.config import ConfigError

if TYPE_CHECKING:
    from databus.ops.validation.result import SinkComparison, Validation

_TABLES = ("sink", "table", "rows", "missing", "extra", "different", "moving", "held back", "without key")
_KEYS = ("kind", "table", "output", "key", "columns", "source", "sink")


@grouped
def validate(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    change: ChangeOptions,
    shown: Shown,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", help="Table to compare, DATABASE.TABLE; may be repeated.", show_default="all of the flow's"
        ),
    ] = None,
    sink: Annotated[
        str, typer.Option("--sink", help="Name of the sink to compare.", show_default="all that hold state")
    ] = "",
    sample: Annotated[
        int | None,
        typer.Option("--sample", help="Compare about so many rows of each table.", min=1, show_default="all rows"),
    ] = None,
    most: Annotated[
        int, typer.Option("--show", help="Show so many of the keys that differ, with both values.", min=0)
    ] = 20,
    wait: Annotated[
        float, typer.Option("--wait", help="Wait so many seconds for the flow to reach a place.", min=0.0)
    ] = 60.0,
    spark: Spark = "local[2]",
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Send missing and different rows once more, by a snapshot; extra ones stay."),
    ] = False,
    delete_extra: Annotated[
        bool,
        typer.Option(
            "--delete-extra",
            help="With --repair: delete extra rows as well, of which a record or an id says that they are the flow's.",
        ),
    ] = False,
) -> None:
    """Compare source and sinks row by row, while the flow goes on.

    Nothing changes. The tables are read once, and again where keys differ; writes meanwhile are told from differences.
    With --repair and --execute a snapshot of exactly these keys begins: missing and different rows are sent once more.
    Extra ones stay, but with --delete-extra: then those are deleted that are told to be the flow's, unless the source
    has such a row by then.

    Exit code 0 when each row that was judged is equal, 8 when a row is missing, extra or different.
    """
    from databus.ops.checkpoint.amend import Attribution
    from databus.ops.validation.repair import repair as send_again
    from databus.ops.validation.repair import repair_of
    from databus.ops.validation.validate import ValidationRequest
    from databus.ops.validation.validate import validate as compare
    from databus.runtime.context import RunIdentity

    if change.execute and not repair:
        raise ConfigError("--execute changes nothing without --repair", hint="Give --repair as well, or leave it out.")
    if delete_extra and not repair:
        raise ConfigError("--delete-extra deletes nothing without --repair", hint="Give --repair as well.")
    said = Attribution(operator(), change.reason, what="a repair") if change.execute else None
    identity = RunIdentity(f"local:{socket.gethostname()}:{os.getpid()}", "", __version__)
    request = ValidationRequest(tuple(table or ()), sink, sample or 0, wait, most=most)
    with opened(flow, shown.dags, records=False) as (spec, services):
        result = compare(spec, services, identity, request, lambda: spark_session(spark))
        _show(result, most, shown.output)  # a repair may fail, and the comparison took long
        wanted = repair_of(result, delete_extra=delete_extra) if repair else None
        begun = send_again(spec, services, wanted, said, wait) if wanted is not None and said is not None else []
    if wanted is not None:
        said_of = [f"snapshot {each.number} of the repair begins" for each in begun]
        gone = wanted.left_out(begun) if change.execute else []
        said_of += [f"{table} is gone from the source: nothing of it is repaired" for table in gone]
        for line in [*wanted.lines(), *said_of]:
            ERR.print(line, markup=False, soft_wrap=True)
        if wanted.snapshots and not change.execute:
            nothing_done()
    if not result.equal:
        raise typer.Exit(DIFFERS)


def _show(result: Validation, most: int, output: Format) -> None:
    if output is not Format.TABLE:
        show_one(result.to_json(most), output)
        return
    rows = [
        {"sink": sink.sink, "table": table, **{name.replace("_", " "): value for name, value in figures.items()}}
        for sink in result.sinks
        for table, figures in sink.tables.items()
    ]
    show_rows(rows, _TABLES, output, empty="no tables")
    for sink in result.sinks:
        keys = [each.to_json() for each in sink.differences[:most]]
        if keys:
            show_rows(keys, _KEYS, output)
        for line in _words(sink, most):
            ERR.print(line, markup=False, soft_wrap=True)
    read = f"{counted(result.rows_read, 'row')} read from the source in {result.seconds_read:.1f} s"
    ERR.print(f"{_verdict(result)}; {read}", markup=False, soft_wrap=True)


def _verdict(result: Validation) -> str:
    """Return the result in a word or two: rows that were not judged are not told as equal."""
    if not result.equal:
        return "DIFFERENT"
    figures = [each for sink in result.sinks for each in sink.tables.values()]
    if not any(each["moving"] or each["without_key"] for each in figures):
        return "equal"
    return "equal as far as rows were judged"


def _words(sink: SinkComparison, most: int) -> list[str]:
    """Return what is to be said of a sink beside its figures."""
    said = [f"sink {sink.sink}: {note}" for note in sink.notes]
    if (left := len(sink.differences) - most) > 0:
        said.append(f"sink {sink.sink}: {counted(left, 'more key')} not shown (--show)")
    if sink.beyond:
        said.append(f"sink {sink.sink}: {counted(sink.beyond, 'more key')} differed at the first look and was left")
    if moving := sum(figures["moving"] for figures in sink.tables.values()):
        said.append(f"sink {sink.sink}: {counted(moving, 'key')} changed in every round, and was not judged")
    if without := sum(figures["without_key"] for figures in sink.tables.values()):
        said.append(f"sink {sink.sink}: {counted(without, 'row')} of tables without a key, not judged")
    return said
