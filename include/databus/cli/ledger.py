"""`databus ledger`: account of every row and byte of a flow's log, and its verification."""

from __future__ import annotations

from typing import Annotated

import typer

from databus.cli.server.choice import served
from databus.cli.terminal.exits import ERROR
from databus.cli.terminal.options import Dags, FlowName, Output, opened
from databus.cli.terminal.output import ERR, OUT, Format, show_one, show_rows
from databus.cli.terminal.places import place
from databus.core.positions.gaps import Gap
from databus.ops.ledger.show import problems_of, read_ledger, summary
from databus.ops.ledger.verify import verify

_SPAN = ("from", "to", "kind", "batches", "bytes", "read", "filtered", "quarantined", "dispatched")


def ledger(
    flow: FlowName,
    check: Annotated[
        bool,
        typer.Option(
            "--verify", help="Derive it again from ZooKeeper, SQL, sinks and the log; exit code 1 unless it adds up."
        ),
    ] = False,
    last: Annotated[
        int | None,
        typer.Option(
            "--last", "-n", help="With --verify: number of newest batches to read again.", min=0, show_default="all"
        ),
    ] = None,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Account for every row and byte since the first checkpoint.

    The log's ranges are dispatched, filtered, in quarantine, pending, or gaps.

    A row that one of several sinks refused counts as quarantined; what each sink took and refused stands beside.
    Statements (TRUNCATE, DDL) are rows of the log as well: a table of their own, and at a search sink no documents.
    """
    if (there := served(flow)) is not None:
        shown = there.get("/ledger/verification", last=last) if check else there.get("/ledger")
    else:
        with opened(flow, dags) as (spec, services):
            verification = verify(spec, services, last) if check else None
            state = verification.state if verification else read_ledger(spec, services)
        told = verification.to_json() if verification else {"problems": problems_of(state)}
        shown = {**summary(state), **told}
    problems = shown["problems"]
    if output is Format.TABLE:
        spans = shown.pop("spans")
        tables, sinks = shown.pop("tables"), shown.pop("sinks")
        del shown["problems"]
        looked_at, _ = shown.pop("looked_at", ()), shown.pop("sound", None)
        shown["gaps"] = [_gap(Gap.from_json(gap)) for gap in shown["gaps"]]
        shown["pending"] = [f"{xid}, prepared at {file}:{start}" for xid, file, start, _ in shown["pending"]]
        later = tuple(name for name in ("superseded", "snapshot") if any(name in row for row in tables.values()))
        show_one(shown, output)
        OUT.print()
        show_rows(spans, (*_SPAN, *later), output, empty="nothing read yet")
        by_table = [{"table": name, **counts} for name, counts in tables.items()]
        OUT.print()
        show_rows(by_table, ("table", *_SPAN[5:], *later), output, empty="no rows")
        by_sink = [{"sink": name, **counts} for name, counts in sinks.items()]
        applied = ("statements",) if any("statements" in row for row in by_sink) else ()
        columns = ("sink", "dispatched", *applied, "rejected")
        OUT.print()
        show_rows(by_sink, columns, output, empty="no sink has taken or refused a row")
        for looked in looked_at:
            ERR.print(f"looked at {looked['subject']}: {looked['what']}", style="dim", markup=False)
        for found in problems:
            ERR.print(f"DOES NOT ADD UP  {found['subject']}: {found['problem']}", style="red", markup=False)
        if check and not problems:
            ERR.print("sound: everything that was looked at adds up", style="green")
    else:
        show_one(shown, output)
    if problems:
        raise typer.Exit(ERROR)


def _gap(gap: Gap) -> str:
    return f"{place(gap.start)} → {place(gap.end)}: {gap.cause}, {gap.decision}"
