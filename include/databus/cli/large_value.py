"""`databus large-value`: fetches a value that is stored outside its row."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from databus.cli.terminal.output import ERR, stdout
from databus.core.amounts import counted
from databus.core.settings import Settings


def large_value(
    reference: Annotated[
        str,
        typer.Argument(
            help="Reference that stands in the row in place of the value, or the URI in it; - reads it from stdin.",
            metavar="REFERENCE",
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option("--to", help="File to write, whole or not at all, e.g. photo.jpg.", show_default="stdout"),
    ] = None,
) -> None:
    """Fetch a value that was too large for its row.

    It is read from the segment store (DATABUS_SEGMENT_STORE), and its SHA-256 is verified.
    """
    from databus.ops.large_values import (  # with what reads segments, which help needs nothing of
        save_large_value,
        write_large_value,
    )

    text, settings = sys.stdin.read() if reference == "-" else reference, Settings.from_environment()
    if to is None:
        write_large_value(text, stdout().buffer, settings)
        stdout().flush()
    else:
        ERR.print(f"{counted(save_large_value(text, to, settings), 'byte')} written to {to}", highlight=False)
