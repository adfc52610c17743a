"""`databus claim`: fetch a value that was too large for its row."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from databus.cli.terminal.output import ERR, stdout
from databus.core.amounts import counted
from databus.core.settings import Settings


def claim(
    reference: Annotated[
        str, typer.Argument(help="The text that stands in the row, or the URI in it; - reads it from the input.")
    ],
    to: Annotated[Path | None, typer.Option("--to", help="File to write; else the value goes to the output.")] = None,
) -> None:
    """Fetch a value that stands in the segment store because its row was too large; its hash is checked."""
    from databus.ops.large_values import (  # with what reads segments, which help needs nothing of
        save_claim,
        write_claim,
    )

    text, settings = sys.stdin.read() if reference == "-" else reference, Settings.from_environment()
    if to is None:
        write_claim(text, stdout().buffer, settings)
        stdout().flush()
    else:
        ERR.print(f"{counted(save_claim(text, to, settings), 'byte')} written to {to}", highlight=False)
