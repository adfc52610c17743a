"""Entry point of the `databus` command."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from databus import __version__
from databus.cli import (
    adopt,
    alerts,
    amending,
    backfill,
    bench,
    checkpoint,
    claim,
    decode,
    flows,
    ledger,
    mirror,
    moving,
    quality,
    quarantine,
    records,
    sandbox,
    segments,
    trace,
    watch,
    watching,
)
from databus.cli.exits import exit_code
from databus.cli.output import ERR
from databus.core.errors import DatabusError

app = typer.Typer(
    name="databus",
    help="Change data capture with Airflow and Spark: every change, in order, once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(flows.app, name="flows")
app.add_typer(alerts.app, name="alerts")
checkpoint.app.command("adopt")(adopt.adopt)
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(mirror.app, name="mirror")
app.add_typer(records.app, name="records")
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(bench.app, name="bench")
app.command("plan")(moving.plan)
app.command("run")(moving.run)
app.command("decode")(decode.decode)
app.command("ledger")(ledger.ledger)
app.command("backfill")(backfill.backfill)
app.command("quality")(quality.quality)
app.command("peek")(watching.peek)
app.command("lag")(watching.lag)
app.command("gaps")(amending.gaps)
app.command("claim")(claim.claim)
app.command("trace")(trace.trace)
app.command("segments")(segments.segments)
app.command("doctor")(watching.doctor)
app.command("watch")(watch.watch)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"databus {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens, on stderr.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Log everything and show tracebacks.")] = False,
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    level = logging.DEBUG if debug else logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", force=True)
    logging.getLogger("kazoo").setLevel(logging.ERROR if not debug else logging.DEBUG)
    _state["debug"] = debug


_state = {"debug": False}


def main(command: Sequence[str] = ()) -> None:
    """Run the command; errors of ours become one message with a hint and an exit code.

    Args:
        command: words to put before the arguments of this process.
    """
    try:
        app([*command, *sys.argv[1:]])
    except DatabusError as error:
        if _state["debug"]:
            raise
        ERR.print(f"error: {error.message}", style="red", markup=False)
        if error.hint:
            ERR.print(f"  {error.hint}", markup=False)
        ERR.print(f"  ({error.code})", style="dim", markup=False)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
