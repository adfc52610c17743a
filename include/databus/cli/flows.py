"""`databus flows`: list, show, validate and draw the flows of the DAG folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Annotated, Any

import typer

from databus.cli.server.choice import served, served_flows, server
from databus.cli.terminal.exits import OK, UNREACHABLE, USAGE
from databus.cli.terminal.options import Dags, FlowName, Output, connection_source, tell_unreadable
from databus.cli.terminal.output import ERR, OUT, STATE_STYLES, Format, show_one, show_rows
from databus.core.amounts import counted
from databus.core.errors.entries import more_of
from databus.core.errors.root import DatabusError
from databus.core.findings import Finding, Level
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.settings import Settings
from databus.core.tables.hidden_columns import RememberedHidden
from databus.ops.flows.discovery import builds_dags, discover, find_flow
from databus.ops.flows.graph import graph_of, mermaid
from databus.ops.flows.shared_topics import shared_transaction_topics
from databus.ops.flows.written import as_written_by_people, listed
from databus.ops.health.packages import missing_packages
from databus.ops.mirror.loops import problems

_NONE = "no flows: no Python file of the DAG folder makes one"
_NO_DAGS = "Airflow is not installed here: flows are validated without their DAGs"
_NONE_READABLE = "no flow is readable"
_WORST = ("ok", "warn", "error")
app = typer.Typer(help="List, show, validate and draw flows.", no_args_is_help=True)


@app.command("list")
def list_flows(dags: Dags = None, output: Output = Format.TABLE) -> None:
    """List the flows of the DAG folder."""
    columns = ("flow", "source", "sinks", "file")
    if (there := server()) is not None:
        known, unread = served_flows(there)
        rows = [{name: item[name] for name in columns} for item in known]
        show_rows(rows, columns, output, empty="no flows that you may see")
        if unread:
            raise typer.Exit(USAGE)
        return
    found, broken = discover(dags, dags=False)
    rows = [listed(f.flow, str(f.file)) for f in found]
    show_rows(rows, columns, output, empty=_NONE_READABLE if broken else _NONE)
    tell_unreadable(broken)
    if broken:
        ERR.print("`databus flows validate` says what to do.", style="dim")
        raise typer.Exit(USAGE)


@app.command()
def show(
    flow: FlowName,
    dags: Dags = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also show the lane of each table, as its source has it now.")
    ] = False,
    output: Output = Format.YAML,
) -> None:
    """Show the definition of a flow, and its lane.

    The lane is "direct" or "Spark, because …". Where transforms look at values or checks at columns, the types of a
    table's columns decide: with --connect the source is asked for them; one that does not answer gives exit code 4.
    """
    from databus.ops.flows.lanes import lane_of, lanes_now

    if (there := served(flow)) is not None:
        told = there.get("/definition")
        lane = there.get("/lanes")["lanes"] if connect else told["lane_taken"]
        show_one({"file": told["file"], **told["options"], "lane_taken": lane}, output)
        return
    found = find_flow(flow, dags, dags=False)
    shown: dict[str, Any] = {"file": str(found.file), **as_written_by_people(found.flow)}
    shown["lane_taken"] = lanes_now(found.flow, connection_source()) if connect else lane_of(found.flow)
    show_one(shown, output)


@app.command()
def validate(
    dags: Dags = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also compare flows with the tables and columns of their sources.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Validate every DAG file, flow and ring of mirrors.

    A valid flow has one line. A file that Python or an option's check stops has its first fault only: all wrong options
    of one object, not those of the next. A package that one of a flow's kinds needs and that is not installed here is a
    fault. Where Airflow is not installed, flows are validated without their DAGs. Exit code 2 when anything is wrong.

    With --connect flows are compared with their tables; a source that does not answer gives exit code 4.
    """
    found, broken = discover(dags)
    if not builds_dags():
        ERR.print(_NO_DAGS, style="yellow", markup=False, soft_wrap=True)
    settings = Settings.from_environment()
    unpacked = [(f, [*missing_packages(f.flow, settings), *_of_lane(f.flow)]) for f in found]
    findings = [(f, told or list(_of_tables(f.flow) if connect else ())) for f, told in unpacked]
    rows: list[dict[str, Any]] = [
        {"file": str(f.file), "flow": f.flow.name, "state": "ok", "problem": None, "hint": None, "code": None}
        for f, told in findings
        if not told
    ]
    rows += [
        {"file": str(f.file), "flow": f.flow.name, "state": str(t.level), "problem": f"{t.subject}: {t.message}",
         "hint": t.hint, "code": t.code}
        for f, told in findings
        for t in told
    ]  # fmt: skip
    rows += [
        {"file": str(b.file), "flow": None, "state": "error", "problem": b.error.message, "hint": b.error.hint,
         "code": b.error.code}
        for b in broken
    ]  # fmt: skip
    flows = [f.flow for f in found]
    together = [*problems(flows), *shared_transaction_topics(flows)]
    rows += [
        {"file": None, "flow": ", ".join(p.mirrors), "state": "error", "problem": p.message, "hint": p.hint,
         "code": p.code}
        for p in together
    ]  # fmt: skip
    if output is Format.TABLE and rows:
        _show_judged(rows)
        wrong_flows = {f.flow.name for f, told in findings if any(t.level is Level.ERROR for t in told)}
        wrong_flows |= {name for p in together for name in p.mirrors}
        parts = [f"{len(found) - len(wrong_flows)} well", f"{len(wrong_flows)} with faults"]
        parts += [f"{counted(len(broken), 'file')} not readable"] if broken else []
        style = "red" if wrong_flows or broken else "green"
        ERR.print(f"{counted(len(found), 'flow')}: {', '.join(parts)}", style=style)
        if codes := [code for code in dict.fromkeys(row["code"] for row in rows) if code and more_of(code)]:
            ERR.print(f"more: databus explain {' | '.join(codes)}", style="dim", markup=False, soft_wrap=True)
    else:
        show_rows(rows, (), output, empty=_NONE)
    errors = [t for _, told in findings for t in told if t.level is Level.ERROR]
    unanswered = bool(errors) and all(t.retryable for t in errors)
    wrong = USAGE if broken or together or (errors and not unanswered) else OK
    raise typer.Exit(wrong or (UNREACHABLE if unanswered else OK))


def _show_judged(rows: list[dict[str, Any]]) -> None:
    """Print a line per flow or file, and its faults below it."""
    by_subject: dict[tuple[str | None, str | None], list[dict[str, Any]]] = {}
    for row in rows:
        by_subject.setdefault((row["flow"], row["file"]), []).append(row)
    for (flow, file), told in by_subject.items():
        state = "ok" if told[0]["problem"] is None else max((row["state"] for row in told), key=_WORST.index)
        subject = "  ".join(part for part in (flow, file) if part)
        OUT.print(f"{state:<5}  {subject}", style=STATE_STYLES[state], markup=False, soft_wrap=True)
        for row in told:
            if row["problem"]:
                code = f"  ({row['code']})" if row["code"] else ""
                OUT.print(f"  {row['problem']}{code}", markup=False, soft_wrap=True)
            if row["hint"]:
                OUT.print(f"    {row['hint']}", style="dim", markup=False, soft_wrap=True)


def _of_lane(flow: Flow) -> list[Finding]:
    """Return what the definition says against a sink's lane: a transform of raw records, rows through Spark."""
    if not any(spec.takes_raw_records or spec.needs_direct_lane() for spec in flow.sinks):
        return []
    from databus.runtime.direct.required import lane_findings

    return lane_findings(flow)


def _of_tables(flow: Flow) -> Iterator[Finding]:
    """Yield faults between a flow and its tables as they are now, judged as its next run judges them."""
    from databus.ops.tables.compare import compare

    try:
        source = flow.source.open(connection_source(), FlowContext(flow.name, Settings.from_environment()))
        with closing(source):
            compared = compare(flow, source)
            found = compared.findings
            hides = compared.hidden or any(compared.hidden_of.values())
            if hides or any(f.level is Level.ERROR for f in found):
                found = compare(flow, source, *_before(flow)).findings
            yield from (f for f in found if f.level is not Level.OK)
    except DatabusError as error:
        yield Finding.of(flow.source.label(), error)


def _before(flow: Flow) -> tuple[frozenset[str], RememberedHidden, Mapping[str, RememberedHidden]]:
    """Return the flow's accepted and hidden columns, and those that its sinks hide.

    Nothing where its ZooKeeper does not answer.
    """
    from databus.ops.services import open_services
    from databus.ops.tables.wants import accepted_of, remembered_of, remembered_of_sinks

    try:
        with open_services(flow, connection_source(), records=False) as services:
            known = remembered_of(flow, services), remembered_of_sinks(flow, services)
            return accepted_of(flow, services), *known
    except DatabusError as error:
        ERR.print(f"{flow.name}: judged as a flow that never ran: {error.message}", style="yellow", markup=False)
        return frozenset(), RememberedHidden(), {}


@app.command()
def graph(
    flow: FlowName,
    form: Annotated[str, typer.Option("--format", help="Format of the drawing: mermaid or json.")] = "mermaid",
    dags: Dags = None,
) -> None:
    """Draw a flow as a Mermaid graph."""
    if form not in ("json", "mermaid"):
        raise typer.BadParameter("known formats: mermaid, json", param_hint="--format")
    if (there := served(flow)) is not None:
        told = there.get("/graph")
        facts, text = told["graph"], told["mermaid"]
    else:
        drawn = graph_of(find_flow(flow, dags, dags=False).flow)
        facts, text = asdict(drawn), mermaid(drawn)
    if form == "json":
        show_one(facts, Format.JSON)
    else:
        OUT.print(text, markup=False, soft_wrap=True)
