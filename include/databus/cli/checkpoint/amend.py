"""`databus checkpoint pause|resume|rewind|skip|restore`: a preview, and with --execute the change itself."""

from __future__ import annotations

import getpass
import socket
from typing import Annotated, Any

import typer

from databus.cli.terminal.options import Dags, FlowName, Output, opened
from databus.cli.terminal.output import ERR, Format, show_one, show_rows
from databus.core.state.amendments import Action
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint import giving_up
from databus.ops.checkpoint.preview import CheckpointMove
from databus.ops.checkpoint.targets import Target

Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the history. Needed with --execute.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; without, only say what would be done.")]
Accept = Annotated[bool, typer.Option("--accept", help="Also where a sink would refuse it.")]
Place = Annotated[
    str, typer.Argument(help="A time (ISO 8601), gtid:SET, FILE:POS, earliest, latest, or an offset as JSON.")
]


def operator() -> str:
    """Return who sits at this terminal."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def rewind(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    place: Place = "",
    batches: Annotated[int, typer.Option("--batches", "-n", help="So many committed batches back.", min=0)] = 0,
    reason: Reason = "",
    execute: Execute = False,
    accept: Accept = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Go back: what was moved since is moved again."""
    _move(flow, ("rewind", Target(place, batches)), (reason, execute, accept), dags, output)


def skip(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    place: Place = "",
    past_gap: Annotated[bool, typer.Option("--past-gap", help="Behind what the source's server deleted.")] = False,
    new_log: Annotated[
        bool,
        typer.Option(
            "--new-log", help="Onto the log that replaced the flow's (RESET MASTER): its beginning, or PLACE."
        ),
    ] = False,
    sink: Annotated[
        str,
        typer.Option("--sink", help="Only a sink that is behind, to PLACE or, without one, to where the flow stands."),
    ] = "",
    reason: Reason = "",
    execute: Execute = False,
    accept: Accept = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Go forward: what lies between is never moved, and named as a gap."""
    if sink:
        target = Target(place, past_gap=past_gap, new_log=new_log) if place or past_gap or new_log else None
        _give_up(flow, sink, target, (reason, execute, accept), (dags, output))
        return
    _move(flow, ("skip", Target(place, past_gap=past_gap, new_log=new_log)), (reason, execute, accept), dags, output)


def restore(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    entry: Annotated[int, typer.Argument(help="Number of a history entry.", min=1)],
    reason: Reason = "",
    execute: Execute = False,
    accept: Accept = False,
    dags: Dags = None,
    output: Output = Format.TABLE,
) -> None:
    """Go to where a history entry left the flow."""
    _move(flow, ("restore", Target(entry=entry)), (reason, execute, accept), dags, output)


def pause(
    flow: FlowName, reason: Reason = "", execute: Execute = False, dags: Dags = None, output: Output = Format.TABLE
) -> None:
    """Stop the flow: a running window ends after its batch, runs after it end at once."""
    with opened(flow, dags) as (spec, services):
        if not execute:
            standing = services.store.paused(flow)
            then = "a running window ends after its batch, runs after it are skipped until `resume`"
            show_one({"flow": flow, "paused": str(standing) if standing else None, "pause": then}, output)
            nothing_done()
            return
        made = mediation.pause(spec, services, mediation.Attribution(operator(), reason, what="a pause"))
    show_one({"flow": flow, "paused": str(made)}, output)


def resume(
    flow: FlowName, reason: Reason = "", execute: Execute = False, dags: Dags = None, output: Output = Format.TABLE
) -> None:
    """End a pause."""
    with opened(flow, dags) as (spec, services):
        if not execute:
            standing = services.store.paused(flow)
            show_one({"flow": flow, "paused": str(standing) if standing else None}, output)
            nothing_done()
            return
        former = mediation.resume(spec, services, mediation.Attribution(operator(), reason, what="the end of a pause"))
    show_one({"flow": flow, "was": str(former) if former else "not paused"}, output)


def gaps(flow: FlowName, dags: Dags = None, output: Output = Format.TABLE) -> None:
    """List the ranges of the source's log that the flow never moved, and what was decided about them."""
    with opened(flow, dags) as (_, services):
        found = services.store.gaps(flow)
    if output is not Format.TABLE:
        show_rows([gap.to_json() for gap in found], (), output)
        return
    rows = [
        {
            "n": gap.number, "from": str(gap.start), "to": str(gap.end), "cause": gap.cause, "decision": gap.decision,
            "who": gap.who, "why": gap.why, "at": gap.at.isoformat(timespec="seconds"),
        }
        for gap in found
    ]  # fmt: skip
    show_rows(rows, ("n", "from", "to", "cause", "decision", "who", "why", "at"), output, empty="no gaps")


def _move(flow: str, wanted: tuple[Action, Target], said: tuple[str, bool, bool], dags: Any, output: Format) -> None:
    (action, target), (reason, execute, accept) = wanted, said
    with opened(flow, dags, places={"PLACE": target.place}) as (spec, services):
        if not execute:
            _show(mediation.preview(spec, services, action, target), output, done=False)
            nothing_done()
            return
        who = mediation.Attribution(operator(), reason, accept)
        move, _ = mediation.execute(spec, services, action, target, who)
        _show(move, output, done=True)


def _give_up(
    flow: str, sink: str, target: Target | None, said: tuple[str, bool, bool], how: tuple[Any, Format]
) -> None:
    (reason, execute, accept), (dags, output) = said, how
    with opened(flow, dags, places={"PLACE": target.place if target else ""}) as (spec, services):
        if execute:
            who = mediation.Attribution(operator(), reason, accept)
            found = giving_up.execute(spec, services, sink, target, who)
        else:
            found = giving_up.preview(spec, services, sink, target)
        facts = {**found.to_json(), "done": execute}
        if output is Format.TABLE:
            del facts["to_offset"]
        show_one(facts, output)
        if not execute:
            nothing_done()


def _show(move: CheckpointMove, output: Format, *, done: bool) -> None:
    facts = {**move.to_json(), "done": done}
    if output is Format.TABLE:
        del facts["to_offset"]
        for effect in facts.pop("sinks"):
            facts[f"sink {effect['sink']}"] = effect["effect"] + (
                f" REFUSED: {effect['refused']} (--accept)" if effect["refused"] else ""
            )
    show_one(facts, output)


def nothing_done() -> None:
    """Say on stderr that this was a preview."""
    ERR.print("Nothing was changed. Add --reason and --execute to do it.", style="dim")


def add_to(app: typer.Typer) -> None:
    """Add the commands to `databus checkpoint`."""
    for command in (pause, resume, rewind, skip, restore):
        app.command()(command)
