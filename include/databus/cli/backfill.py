"""`databus backfill`: a preview, with --execute the backfill itself, and with --status the state of all."""

from __future__ import annotations

import os
import socket
from functools import cache
from typing import Annotated, Any

import typer

from databus import __version__
from databus.cli.terminal.cells import printed
from databus.cli.terminal.exits import exit_code_of_rows
from databus.cli.terminal.options import Accept, Dags, Execute, FlowName, Output, Spark, opened, operator, spark_session
from databus.cli.terminal.output import ERR, Format, show_one, show_rows
from databus.core.amounts import counted
from databus.core.errors.config import BackfillRangeError
from databus.core.state.backfill import Mode, aim_of
from databus.ops.backfill.run import BackfillRequest, BackfillRun, preview, run_backfill
from databus.ops.backfill.status import BackfillState, delivered_in, state_of, status
from databus.runtime.context import RunIdentity
from databus.runtime.drain import Drain, drain_on_signals

_PLACE = (
    "a time (ISO 8601, UTC without a zone), earliest, latest, an offset as JSON; of a MySQL log gtid:SET or FILE:POS, "
    "of Kafka topics offsets:TOPIC:PARTITION:NEXT,… or group:NAME"
)
_COLUMNS = ("id", "from", "to", "done", "rows", "refused", "pieces", "asked_by", "left")


def backfill(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    start: Annotated[
        str, typer.Option("--from", help=f"Start of the range, inclusive: {_PLACE}.", show_default=False)
    ] = "",
    end: Annotated[
        str, typer.Option("--to", help="End of the range, exclusive for times; written as --from.", show_default=False)
    ] = "",
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode", help="missing: only what the ledger does not show as moved. replay: the whole range again."
        ),
    ] = Mode.MISSING,
    suffix: Annotated[
        str, typer.Option("--suffix", help="Suffix of the topics and indices that a replay writes to.")
    ] = ".replay",
    into_live: Annotated[
        bool, typer.Option("--into-live", help="Replay into the live topics and indices, without a suffix.")
    ] = False,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            help="Name that distinguishes replays of one range, e.g. second: each moves once.",
            show_default=False,
        ),
    ] = "",
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Wait for backfills of earlier ranges; one moves at a time.")
    ] = False,
    accept: Accept = False,
    past_statements: Annotated[
        bool,
        typer.Option("--past-statements", help="Skip transactions that are logged by statement, and name them."),
    ] = False,
    execute: Execute = False,
    show: Annotated[
        bool, typer.Option("--status", help="List all backfills of the flow instead, by their ledgers.")
    ] = False,
    spark: Spark = "local[2]",
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Move a range of the log again, beside the live flow.

    The live flow runs on, and its checkpoint is not touched. With --execute exit code 7 when a check sent rows of it to
    quarantine, or a sink refused some.
    """
    with opened(flow, dags, places={"--from": start, "--to": end}) as (spec, services):
        if show:
            found = [state.to_json() for state in status(spec, services)]
            listed = [_row(f) for f in found] if output is Format.TABLE else found
            show_rows(listed, _COLUMNS, output, empty="no backfills")
            return
        if not start or not end:
            raise BackfillRangeError(f"flow {flow}: a backfill needs --from and --to", hint=f"Each is {_PLACE}.")
        aim = aim_of(mode, suffix, name, into_live=into_live)
        wanted = BackfillRequest(start, end, aim, in_order, accept, past_statements)
        if not execute:
            planned = preview(spec, services, wanted, operator())
            show_one(_shown(state_of(spec, services, planned).to_json(), output), output)
            topics = [sink.sink_name for sink in spec.sinks if sink.kind == "kafka"]
            if planned.aim.mode is Mode.REPLAY and not planned.aim.suffix and topics:
                rows = delivered_in(spec, services, planned.range)
                again = f"up to {counted(rows, 'row')} of this range again, behind newer ones"
                ERR.print(f"The live topics of sink {', '.join(topics)} get {again}.", style="yellow", soft_wrap=True)
            ERR.print("Nothing was done: add --execute.", style="dim")
            return

        @cache
        def session() -> Any:
            return spark_session(spark)

        identity = RunIdentity(f"local:{socket.gethostname()}:{os.getpid()}", "", __version__)
        drain = Drain()
        with drain_on_signals(drain):
            moved = run_backfill(spec, services, wanted, BackfillRun(session, identity, drain))
        show_one(_shown(moved.to_json(), output), output)
        raise typer.Exit(exit_code_of_rows(missing=_missing(moved)))


def _missing(moved: BackfillState) -> int:
    """Return how many rows of a backfill, over all its runs, a check sent to quarantine or a sink refused."""
    return moved.rows.quarantined + sum(counts.rejected for counts in moved.sinks.values())


def _shown(found: dict[str, Any], output: Format) -> dict[str, Any]:
    """Return a backfill as it is printed: for people a line shows a piece."""
    return found if output is not Format.TABLE else {**found, "pieces": [_piece(p) for p in found["pieces"]]}


def _piece(found: dict[str, Any]) -> str:
    stands = f"stands at {printed(found['stands'], 'stands')}" if found["stands"] else "not begun"
    rows = f", {counted(found['rows']['read'], 'row')} read" if found["stands"] else ""
    passed = "".join(f"; passed over, logged by statement: {printed(gap)}" for gap in found.get("passed", ()))
    problems = "".join(f"; {problem}" for problem in found["problems"])
    return f"{printed(found['range'])}: {'done' if found['done'] else stands}{rows}{passed}{problems}"


def _row(found: dict[str, Any]) -> dict[str, Any]:
    ends = [(p["stands"] or "its start", printed(p["range"]["end"])) for p in found["pieces"] if not p["done"]]
    left = [f"{printed(stands, 'stands')} of {end}" for stands, end in ends]
    rows, pieces = found["rows"]["read"], len(found["pieces"])
    refused = [f"{sink} {counts['rejected']}" for sink, counts in found["sinks"].items() if counts["rejected"]]
    return {
        **found,
        "rows": rows,
        "refused": ", ".join(refused) or None,
        "pieces": pieces,
        "left": "; ".join(left) or None,
    }
