"""Print results: a table for people, JSON or YAML for programs; data on stdout, everything else on stderr."""

from __future__ import annotations

import enum
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text


class Format(enum.StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)

_data: TextIO | None = None


def stdout() -> TextIO:
    """Return the stream of data: the process's stdout, also while `stdout_for_data` keeps others away from it."""
    return sys.stdout if _data is None else _data


@contextmanager
def stdout_for_data() -> Iterator[None]:
    """Keep stdout for data: what others print or log there goes to stderr, also that of programs started meanwhile.

    DAG files print what they like, and Airflow logs to stdout once it is imported.
    """
    global _data
    if _data is not None or sys.stdout is None or sys.stderr is None:  # None: closed by who started the program
        yield
        return
    shown = sys.stdout
    own = shown is sys.__stdout__
    stream = _taken_over(shown) if own else shown
    _data, OUT.file, sys.stdout = stream, stream, sys.stderr
    try:
        yield
    finally:
        _data, OUT.file, sys.stdout = None, cast("TextIO", None), shown  # None: rich asks for sys.stdout each time
        if own:
            os.dup2(stream.fileno(), shown.fileno())
            stream.close()


def _taken_over(shown: TextIO) -> TextIO:
    """Return a stream to where stdout leads, and let its descriptor lead to stderr."""
    shown.flush()
    kept = os.dup(shown.fileno())
    os.dup2(sys.stderr.fileno(), shown.fileno())
    return os.fdopen(kept, "w", encoding=shown.encoding, errors=shown.errors, buffering=1 if os.isatty(kept) else -1)


_COLOURS = {"ok": "green", "warn": "yellow", "error": "red", "running": "green", "stopped": "dim", "dead": "red"}


def show_rows(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    form: Format,
    empty: str = "nothing",
    *,
    to_stderr: bool = False,
    head: bool = True,
) -> None:
    """Print a list of records; where a table would not be readable in the console's width, a line per field.

    Args:
        rows: the records.
        columns: names of the columns shown in a table, in order; JSON and YAML show all.
        form: how.
        empty: what a table says when there is no record.
        to_stderr: print beside data that stands on stdout.
        head: whether a table begins with the names of its columns.
    """
    records = [dict(row) for row in rows]
    if form is not Format.TABLE:
        _dump(records, form, to_stderr=to_stderr)
        return
    if not records:
        ERR.print(empty, style="dim")
        return
    console = ERR if to_stderr else OUT
    if not _fits(records, columns, console.width):
        for number, record in enumerate(records):
            if number:
                console.print()
            console.print(_lines({name: record.get(name) for name in columns}))
        return
    table = Table(box=None, pad_edge=False, show_header=head, header_style="bold")
    for column in columns:
        numeric = all(isinstance(r.get(column), int | float) for r in records)
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for record in records:
        table.add_row(*(_cell(record.get(column)) for column in columns))
    console.print(table)


_NARROW = 20
"""Characters below which a column of longer text is no longer folded: its table is then shown line by line."""


def _fits(records: Sequence[Mapping[str, Any]], columns: Sequence[str], width: int) -> bool:
    """Tell whether a table can be read in so many characters: numbers and short texts whole, long ones folded."""
    needed = [
        max(len(column), *(min(_cell(record.get(column)).cell_len, _NARROW) for record in records))
        for column in columns
    ]
    return sum(needed) + len(columns) - 1 <= width


def show_one(record: Mapping[str, Any], form: Format, *, to_stderr: bool = False) -> None:
    """Print one record, a line per field."""
    if form is not Format.TABLE:
        _dump(dict(record), form, to_stderr=to_stderr)
        return
    (ERR if to_stderr else OUT).print(_lines(record))


def _lines(record: Mapping[str, Any]) -> Table:
    """Return a record as a line per field."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in record.items():
        table.add_row(name.replace("_", " "), _cell(value))
    return table


def _dump(value: Any, form: Format, *, to_stderr: bool) -> None:
    target = sys.stderr if to_stderr else stdout()
    if form is Format.JSON:
        target.write(json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")
    else:
        import yaml

        plain = json.loads(json.dumps(value, default=str))
        yaml.safe_dump(plain, target, sort_keys=False, allow_unicode=True)
    target.flush()  # a program may read what a command that goes on repeats


def _cell(value: Any) -> Text:
    if value is None:
        return Text("-", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float):
        return Text(f"{value:,.1f}" if abs(value) >= 10 or not value else f"{value:.3g}")
    if isinstance(value, list | tuple | dict):
        return Text(json.dumps(value, ensure_ascii=False, default=str))
    text = str(value)
    return Text(text, style=_COLOURS.get(text, ""))
