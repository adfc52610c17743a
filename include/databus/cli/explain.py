"""`databus explain`: cause and way out of an error code, in the terminal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from databus.cli.terminal.exits import MEANINGS
from databus.cli.terminal.options import Output
from databus.cli.terminal.output import Format, show_one, show_rows
from databus.core.errors.config import ConfigError
from databus.core.errors.entries import ErrorEntry, all_entries, nearest, page_of

_WARNING = "none: a warning, which stops nothing"


def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            help="Code of an error, as it stands behind its message, e.g. sink_setting.",
            metavar="CODE",
            show_default="a list of all",
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Explain an error code: its cause, the way out, its exit code.

    Without a code all of them are listed.
    """
    entries = all_entries()
    if code is None:
        rows = [{"code": name, "cause": entry.cause} for name, entry in entries.items()]
        show_rows(
            rows if output is Format.TABLE else [_plain(*each) for each in entries.items()], ("code", "cause"), output
        )
        return
    if code not in entries:
        near = nearest(code)
        guess = f"Spelled alike: {', '.join(near)}. " if near else ""
        raise ConfigError(
            f"no error has the code {code!r}", hint=f"{guess}`databus explain` lists all codes.", code="error_unknown"
        )
    entry = entries[code]
    if output is not Format.TABLE:
        show_one(_plain(code, entry), output)
        return
    exits = ", ".join(f"{number} ({_meaning(number)})" for number in entry.exits) or _WARNING
    again = "yes, without a person" if entry.retried else "not before something is changed"
    told = {"code": code, "cause": entry.cause, "way_out": entry.way_out, "exit_code": exits}
    page = page_of(code)
    show_one({**told, "retried": again, **({"page": page} if page else {})}, output)


def _plain(code: str, entry: ErrorEntry) -> dict[str, Any]:
    return {
        "code": code,
        "cause": entry.cause,
        "way_out": entry.way_out,
        "exit_codes": list(entry.exits),
        "retried": entry.retried,
        "page": page_of(code) or None,
    }


def _meaning(number: int) -> str:
    """Return the meaning of an exit code, as the help of the command says it."""
    return next(line[1:].strip() for line in MEANINGS if line.startswith(f"{number} "))
