"""`databus decode`: row changes of local binlog files, without any server."""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from databus.cli.terminal.exits import OK
from databus.cli.terminal.output import ERR, Format, show_one, show_rows, stdout
from databus.core.amounts import counted
from databus.core.errors.config import ConfigError
from databus.ops.decode.files import ArrowStreams, DecodedFile, DecodedFiles, JsonLines, NoOutput, Output, decode_files


class RowFormat(enum.StrEnum):
    """Row output format."""

    NDJSON = "ndjson"
    ARROW = "arrow"
    NONE = "none"


class PreparedRows(enum.StrEnum):
    """Row placement for XA transactions: at the prepare or at the commit."""

    INSIDE = "inside"
    ELSEWHERE = "elsewhere"


_NAMED = 20
"""Tables that an error names."""
_OPS = {"c": "inserts", "u": "updates", "d": "deletes", "t": "truncates", "m": "definitions"}


def decode(
    files: Annotated[
        list[Path],
        typer.Argument(help="Binlog files, raw copies or segments, e.g. mysql-bin.000007.", metavar="FILE"),
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--tables",
            "-t",
            help="Tables: DATABASE.TABLE with * and ?, or re:EXPRESSION, e.g. 'shop.*'; may be repeated.",
            show_default="all",
        ),
    ] = None,
    output: Annotated[
        RowFormat,
        typer.Option(
            "--output", "-o", help="Format of rows: JSON lines, Arrow IPC streams (one per table and run), or none."
        ),
    ] = RowFormat.NDJSON,
    prepared: Annotated[
        PreparedRows,
        typer.Option(
            "--prepared",
            help="Place of each XA PREPARE. inside: one before the files is an error. elsewhere: the rows of its XA "
            "COMMIT are left out.",
        ),
    ] = PreparedRows.INSIDE,
    definitions: Annotated[
        Path | None,
        typer.Option(
            "--definitions",
            "-d",
            help="File of CREATE TABLE statements that hold where the files begin (mysqldump --no-data).",
            show_default="none",
        ),
    ] = None,
    summary: Annotated[Format, typer.Option("--summary", help="Format of the summary at the end.")] = Format.TABLE,
) -> None:
    """Print the row changes of local binlog files, without a server.

    Rows go to stdout and the summary to stderr; without rows (--output none) the summary goes to stdout. Exit code 2
    where one of --tables matches no change in the files.
    """
    rows = stdout()
    if output is RowFormat.ARROW and rows.isatty():
        raise typer.BadParameter("Arrow is binary: send stdout to a file or a program", param_hint="--output")
    target: Output = NoOutput()
    if output is not RowFormat.NONE:
        target = (JsonLines if output is RowFormat.NDJSON else ArrowStreams)(rows.buffer)
    try:
        with _progress(drawn=output is RowFormat.NONE or not rows.isatty()) as progress:
            decoded = decode_files(
                files, tables or (), target, progress, prepared=prepared.value, definitions=_read(definitions)
            )
        rows.buffer.flush()
    except BrokenPipeError:
        # The reader has seen enough. Nothing may be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), rows.fileno())
        raise typer.Exit(OK) from None
    _show(decoded, summary, to_stdout=output is RowFormat.NONE)
    if decoded.unmatched:
        seen = sorted({name for file in decoded.files for name in file.changes})
        others = f"Others matched {', '.join(seen[:_NAMED])}{', …' if len(seen) > _NAMED else ''}. " if seen else ""
        raise ConfigError(
            f"--tables {', '.join(decoded.unmatched)}: no change of such a table is in {_named(files)}",
            hint=f"{others}Case matters; `databus decode --output none` with the files alone lists their tables.",
            code="table_unmatched",
        )


def _named(files: list[Path]) -> str:
    return files[0].name if len(files) == 1 else counted(len(files), "file")


def _read(script: Path | None) -> dict[str, str]:
    if script is None:
        return {}
    from databus.binlog.schema_history.given import definitions_of

    try:
        return definitions_of(script.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{script} cannot be read: {error}", param_hint="--definitions") from None


def _show(decoded: DecodedFiles, form: Format, *, to_stdout: bool) -> None:
    if form is not Format.TABLE:
        show_one(decoded.to_json(), form, to_stderr=not to_stdout)
        return
    rows = [
        {"file": file.path.name, "table": table, **{name: ops.get(op, 0) for op, name in _OPS.items()}}
        for file in decoded.files
        for table, ops in sorted(file.changes.items())
    ]
    show_rows(rows, ("file", "table", *_OPS.values()), form, empty="no rows", to_stderr=not to_stdout)
    for file in decoded.files:
        events = ", ".join(f"{name} {count:,}" for name, count in file.events.items())
        read = f"{counted(file.transactions, 'transaction')} up to {file.position}"
        reached = f"{file.path.name}: server {file.server_version}, {read}"
        ERR.print(reached, markup=False, soft_wrap=True)
        ERR.print(f"  {events}", style="dim", markup=False, soft_wrap=True)
    if decoded.files and (pending := decoded.files[-1].prepared):
        text = f"prepared and not resolved, rows held back: {', '.join(pending)}"
        ERR.print(text, style="yellow", markup=False, soft_wrap=True)
    seconds = max(decoded.seconds, 1e-9)
    ERR.print(
        f"{counted(decoded.rows, 'row')} in {decoded.seconds:.2f} s: {decoded.rows / seconds:,.0f} rows/s, "
        f"{decoded.bytes / seconds / 1e6:,.1f} MB/s",
        style="bold",
    )


@contextmanager
def _progress(*, drawn: bool) -> Iterator[Callable[[DecodedFile], None]]:
    """A bar with rows and bytes per second on a terminal; nothing elsewhere, nor where rows are drawn on it."""
    if not drawn or not ERR.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeElapsedColumn())
    with Progress(*columns, console=ERR, transient=True) as bars:
        task = bars.add_task("", total=None, rate="")
        began, done_rows, done_bytes, current = time.perf_counter(), 0, 0, None

        def draw(file: DecodedFile) -> None:
            nonlocal done_rows, done_bytes, current
            if current is not None and current is not file:
                done_rows, done_bytes = done_rows + current.rows, done_bytes + current.bytes
            current = file
            seconds = max(time.perf_counter() - began, 1e-9)
            rows, read = done_rows + file.rows, done_bytes + file.bytes
            rate = f"{rows:,} rows  {rows / seconds:,.0f} rows/s  {read / seconds / 1e6:,.0f} MB/s"
            bars.update(task, description=file.path.name, completed=file.bytes, total=file.size_bytes, rate=rate)

        yield draw
