"""Entry point of the `databus` command."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from databus.cli.server.choice import TOKEN_FILE, choose
from databus.cli.terminal.exits import MEANINGS, exit_code
from databus.cli.terminal.lazy_commands import LazyCommands
from databus.cli.terminal.output import ERR, print_advice
from databus.core.errors.entries import more_of
from databus.core.errors.root import DatabusError
from databus.core.packages import lacking, naming_packages

PANELS: dict[str, dict[str, str]] = {
    "Run and look at flows": {
        "flows": "flows:app",
        "plan": "run:plan",
        "run": "run:run",
        "lag": "diagnostics:lag",
        "peek": "diagnostics:peek",
        "backfill": "backfill:backfill",
        "snapshot": "snapshot:app",
    },
    "Move the checkpoint, resolve the quarantine": {
        "checkpoint": "checkpoint.show:app",
        "quarantine": "quarantine:app",
    },
    "Prove and trace": {
        "validate": "validate:validate",
        "ledger": "ledger:ledger",
        "gaps": "checkpoint.amend:gaps",
        "trace": "trace:trace",
        "quality": "quality:quality",
        "large-value": "large_value:large_value",
    },
    "Mirror": {"mirror": "mirror:app"},
    "Operate": {
        "doctor": "diagnostics:doctor",
        "explain": "explain:explain",
        "watch": "watch:watch",
        "stream": "stream:stream",
        "alerts": "alerts:app",
        "segments": "segments:app",
        "records": "records:app",
        "outbox": "outbox:app",
    },
    "Try it here": {
        "sandbox": "sandbox:app",
        "decode": "decode:decode",
        "bench": "bench.commands:app",
    },
}
"""Part of help → its commands, by what a person does, each with its place in this package."""


class Commands(LazyCommands):
    """Subcommands, by name."""

    places: ClassVar[dict[str, str]] = {
        name: f"databus.cli.{place}" for commands in PANELS.values() for name, place in commands.items()
    }
    panels: ClassVar[dict[str, str]] = {name: panel for panel, commands in PANELS.items() for name in commands}
    renamed: ClassVar[dict[str, str]] = {"claim": "large-value"}
    extras: ClassVar[dict[str, str]] = {"sandbox": "sandbox", "bench": "sandbox", "stream": "stream"}


_SERVERS = "" if lacking("sandbox") else "`databus sandbox up`, "
EPILOG = "\n".join((
    f"First steps: {_SERVERS}`databus doctor`, `databus flows list`, then `databus run` one of the flows.",
    "",
    *MEANINGS,
))  # fmt: skip


app = typer.Typer(
    name="databus",
    cls=Commands,
    help="Change data capture with Airflow and Spark: every change, in order, once.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from databus import __version__

        typer.echo(f"databus {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log progress at level INFO to stderr.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Log at level DEBUG, and print the traceback of an error.")
    ] = False,
    server: Annotated[
        str,
        typer.Option(
            "--server",
            help="Address of Airflow: verbs ask its API, and need no reach to a flow's servers.",
            envvar="DATABUS_SERVER",
            metavar="URL",
            show_default=False,
        ),
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            help="With --server: file of the login's token, instead of DATABUS_SERVER_TOKEN.",
            envvar=TOKEN_FILE,
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    level = logging.DEBUG if debug else logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", force=True)
    logging.getLogger("kazoo").setLevel(logging.ERROR if not debug else logging.DEBUG)
    # It warns of each request without an answer, with a traceback: our errors say it.
    logging.getLogger("opensearch").setLevel(logging.NOTSET if verbose or debug else logging.ERROR)
    _state["debug"] = debug
    choose(server, token_file)


_state = {"debug": False}


def main(command: Sequence[str] = ()) -> None:
    """Run the command; an error of ours is printed as a message with a hint and an exit code.

    Args:
        command: words to put before the arguments of this process.
    """
    # What is loaded stays: the default, a look at 700 new objects, takes a tenth of a command's start.
    gc.set_threshold(50_000)
    try:
        with naming_packages("this command"):
            app([*command, *sys.argv[1:]])
    except DatabusError as error:
        if _state["debug"]:
            raise
        ERR.print(f"error: {error.message}", style="red", markup=False)
        if error.hint:
            print_advice(error.hint)
        ERR.print(f"  ({error.code})", style="dim", markup=False)
        if more := more_of(error.code):
            ERR.print(f"  more: {more}", style="dim", markup=False, soft_wrap=True)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
