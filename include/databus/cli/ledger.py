"""`databus ledger`: account of every row and byte of a flow's log, and its verification."""

from __future__ import annotations

from typing import Annotated

import typer

from databus.cli.terminal.exits import ERROR
from databus.cli.terminal.options import Dags, FlowName, Output, opened
from databus.cli.terminal.output import ERR, OUT, Format, show_one, show_rows
from databus.cli.terminal.places import place
from databus.ops.ledger.show import read_ledger, summary
from databus.ops.ledger.verify import Verification, verify

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
    with opened(flow, dags) as (spec, services):
        verification = verify(spec, services, last) if check else None
        state = verification.state if verification else read_ledger(spec, services)
    shown = summary(state)
    if output is Format.TABLE:
        spans = shown.pop("spans")
        tables, sinks = shown.pop("tables"), shown.pop("sinks")
        shown["gaps"] = [f"{place(g.start)} → {place(g.end)}: {g.cause}, {g.decision}" for g in state.gaps]
        shown["pending"] = [f"{p.xid}, prepared at {p.file}:{p.start_pos}" for p in state.ledger.pending]
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
        _tell(verification, [str(problem) for problem in state.ledger.problems])
    else:
        problems = [{"subject": p.subject, "problem": p.problem} for p in state.ledger.problems]
        show_one({**shown, **(verification.to_json() if verification else {"problems": problems})}, output)
    if verification.problems if verification else state.ledger.problems:
        raise typer.Exit(ERROR)


def _tell(verification: Verification | None, problems: list[str]) -> None:
    if verification is not None:
        for subject, what in verification.looked_at:
            ERR.print(f"looked at {subject}: {what}", style="dim", markup=False)
        problems = [str(problem) for problem in verification.problems]
    for problem in problems:
        ERR.print(f"DOES NOT ADD UP  {problem}", style="red", markup=False)
    if verification is not None and not problems:
        ERR.print("sound: everything that was looked at adds up", style="green")
