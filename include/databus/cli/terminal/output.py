"""Print results: a table for people, JSON or YAML for programs; data on stdout, everything else on stderr."""

from __future__ import annotations

import enum
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from databus.cli.terminal.cells import advised, longest, printed, printed_lines, widths, wrapped


class Format(enum.StrEnum):
    """Output format of data."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OUT = Console(highlight=False, emoji=False)
ERR = Console(stderr=True, highlight=False, emoji=False)

_data: TextIO | None = None


def stdout() -> TextIO:
    """Return the stream of data: the process's stdout, also while `stdout_for_data` keeps others away from it."""
    return sys.stdout if _data is None else _data


@contextmanager
def stdout_for_data() -> Iterator[None]:
    """Reserve stdout for data: other prints and logs go to stderr, also those of programs started meanwhile.

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


STATE_STYLES = {"ok": "green", "warn": "yellow", "error": "red", "running": "green", "stopped": "dim", "dead": "red"}


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
    texts = [[printed(record.get(column), column) for column in columns] for record in records]
    titles = [column.replace("_", " ") for column in columns]
    needed = [_needed(title, [row[at] for row in texts]) for at, title in enumerate(titles)]
    room = console.width - 2 * (len(columns) - 1)  # what stands between columns
    if sum(needed) > room:
        for number, record in enumerate(records):
            if number:
                console.print()
            _print_lines(console, {name: record.get(name) for name in columns})
        return
    wanted = [max(cell_len(text) for text in (title, *(row[at] for row in texts))) for at, title in enumerate(titles)]
    table = Table(box=None, pad_edge=False, show_header=head, header_style="bold")
    for column, title, width in zip(columns, titles, widths(needed, wanted, room), strict=True):
        numeric = all(isinstance(r.get(column), int | float) for r in records)
        table.add_column(title, justify="right" if numeric else "left", width=width, no_wrap=True)
    for row in texts:
        cells = zip(row, table.columns, strict=True)
        table.add_row(*(_styled("\n".join(wrapped(text, column.width or 0)), text) for text, column in cells))
    console.print(table)


_NARROW = 20
"""Characters below which a column of longer text is not cut into lines: its table is then shown line by line."""


def _needed(title: str, texts: Sequence[str]) -> int:
    """Return the width in which a column can be read: its name and words whole, longer texts on several lines."""
    return max(len(title), *(max(longest(text), min(cell_len(text), _NARROW)) for text in texts))


def show_one(record: Mapping[str, Any], form: Format, *, to_stderr: bool = False) -> None:
    """Print one record, a line per field, and one per part of a field that has several."""
    if form is not Format.TABLE:
        _dump(dict(record), form, to_stderr=to_stderr)
        return
    _print_lines(ERR if to_stderr else OUT, record)


def _print_lines(console: Console, record: Mapping[str, Any]) -> None:
    """Print a record as a line per field; what is longer than the console is cut between words only."""
    indent = max((len(name) for name in record), default=0)
    for name, value in record.items():
        said = name.replace("_", " ")
        room = max(console.width - indent - 1, _NARROW)
        for line in (cut for part in printed_lines(value, name) for cut in wrapped(part, room)):
            console.print(Text(f"{said:<{indent}} ", style="bold") + _styled(line, line), soft_wrap=True)
            said = ""


def print_advice(text: str) -> None:
    """Print a hint on stderr; each command in it stands on one line, to be copied."""
    for line in advised(text, max(ERR.width - 2, _NARROW)):
        ERR.print(f"  {line}", markup=False, soft_wrap=True)


def _dump(value: Any, form: Format, *, to_stderr: bool) -> None:
    target = sys.stderr if to_stderr else stdout()
    if form is Format.JSON:
        target.write(json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")
    else:
        import yaml

        plain = json.loads(json.dumps(value, default=str))
        yaml.safe_dump(plain, target, sort_keys=False, allow_unicode=True)
    target.flush()  # a program may read what a command that goes on repeats


def _styled(shown: str, value: str) -> Text:
    return Text(shown, style="dim" if value == "-" else STATE_STYLES.get(value, ""))
