"""`databus checkpoint pause|resume|rewind|skip|restore`: a preview, and with --execute the change itself."""

from __future__ import annotations

from typing import Annotated

import typer

from databus.cli.terminal.option_groups import grouped
from databus.cli.terminal.options import (
    AmendmentOptions,
    ChangeOptions,
    Dags,
    FlowName,
    Output,
    Shown,
    opened,
    operator,
)
from databus.cli.terminal.output import ERR, Format, show_one, show_rows
from databus.core.errors.config import ConfigError
from databus.core.state.amendments import Action
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint import giving_up
from databus.ops.checkpoint.preview import CheckpointMove
from databus.ops.checkpoint.targets import Target

Place = Annotated[
    str,
    typer.Argument(
        help="Place in the source's log: a time (ISO 8601, UTC without a zone), gtid:SET, FILE:POS, "
        "offsets:TOPIC:PARTITION:NEXT,…, earliest, latest, or an offset as JSON.",
        metavar="PLACE",
        show_default=False,
    ),
]


@grouped
def rewind(
    flow: FlowName,
    change: AmendmentOptions,
    shown: Shown,
    place: Place = "",
    batches: Annotated[
        int, typer.Option("--batches", "-n", help="Committed batches to go back, instead of PLACE; 0 for none.", min=0)
    ] = 0,
) -> None:
    """Move the checkpoint back: later rows are sent again."""
    _move(flow, ("rewind", Target(place, batches)), change, shown)


@grouped
def skip(  # noqa: PLR0913, PLR0917 - one parameter per option
    flow: FlowName,
    change: AmendmentOptions,
    shown: Shown,
    place: Place = "",
    past_gap: Annotated[
        bool, typer.Option("--past-gap", help="Instead of PLACE: past what the source's server deleted.")
    ] = False,
    new_log: Annotated[
        bool,
        typer.Option(
            "--new-log", help="Onto the log that replaced the flow's (RESET MASTER): its beginning, or PLACE in it."
        ),
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Read the flow's tables anew behind it (MySQL, MariaDB): their rows are sent as they stand.",
        ),
    ] = False,
    sink: Annotated[
        str,
        typer.Option(
            "--sink",
            help="Name of a lagging sink: only it moves, to PLACE or, without one, to the flow's checkpoint.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Move the checkpoint forward: the range between becomes a gap.

    With --repair a snapshot of the flow's tables mends it.
    """
    if sink:
        if repair:
            raise ConfigError(
                "--repair is of the whole flow, and --sink moves one sink alone",
                hint=f"Once the sink is with the others again: `databus snapshot begin {flow} --mends GAP`.",
            )
        target = Target(place, past_gap=past_gap, new_log=new_log) if place or past_gap or new_log else None
        _give_up(flow, sink, target, change, shown)
        return
    _move(flow, ("skip", Target(place, past_gap=past_gap, new_log=new_log)), change, shown, repair=repair)


@grouped
def restore(
    flow: FlowName,
    change: AmendmentOptions,
    shown: Shown,
    entry: Annotated[
        int, typer.Argument(help="Number of a history entry (`checkpoint history`), e.g. 12.", min=1, metavar="ENTRY")
    ],
) -> None:
    """Move the checkpoint to where a history entry left it."""
    _move(flow, ("restore", Target(entry=entry)), change, shown)


@grouped
def pause(flow: FlowName, change: ChangeOptions, shown: Shown) -> None:
    """Pause the flow: its window ends after the batch in flight."""
    with opened(flow, shown.dags) as (spec, services):
        if not change.execute:
            standing = services.store.paused(flow)
            then = "a running window ends after its batch, runs after it are skipped until `resume`"
            show_one({"flow": flow, "paused": str(standing) if standing else None, "pause": then}, shown.output)
            nothing_done(change.reason)
            return
        made = mediation.pause(spec, services, mediation.Attribution(operator(), change.reason, what="a pause"))
    show_one({"flow": flow, "paused": str(made)}, shown.output)


@grouped
def resume(flow: FlowName, change: ChangeOptions, shown: Shown) -> None:
    """Resume a paused flow."""
    with opened(flow, shown.dags) as (spec, services):
        if not change.execute:
            standing = services.store.paused(flow)
            show_one({"flow": flow, "paused": str(standing) if standing else None}, shown.output)
            nothing_done(change.reason)
            return
        former = mediation.resume(
            spec, services, mediation.Attribution(operator(), change.reason, what="the end of a pause")
        )
    show_one({"flow": flow, "was": str(former) if former else "not paused"}, shown.output)


def gaps(flow: FlowName, dags: Dags = None, output: Output = Format.TABLE) -> None:
    """List ranges of the log that the flow never moved, and why."""
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


def _move(
    flow: str, wanted: tuple[Action, Target], change: AmendmentOptions, shown: Shown, *, repair: bool = False
) -> None:
    action, target = wanted
    with opened(flow, shown.dags, places={"PLACE": target.place}) as (spec, services):
        if not change.execute:
            _show(mediation.preview(spec, services, action, target, repair=repair), shown.output, done=False)
            nothing_done(change.reason)
            return
        who = mediation.Attribution(operator(), change.reason, change.accept)
        move, _ = mediation.execute(spec, services, action, target, who, repair=repair)
        _show(move, shown.output, done=True)


def _give_up(flow: str, sink: str, target: Target | None, change: AmendmentOptions, shown: Shown) -> None:
    with opened(flow, shown.dags, places={"PLACE": target.place if target else ""}) as (spec, services):
        if change.execute:
            who = mediation.Attribution(operator(), change.reason, change.accept)
            found = giving_up.execute(spec, services, sink, target, who)
        else:
            found = giving_up.preview(spec, services, sink, target)
        facts = {**found.to_json(), "done": change.execute}
        if shown.output is Format.TABLE:
            del facts["to_offset"]
        show_one(facts, shown.output)
        if not change.execute:
            nothing_done(change.reason)


def _show(move: CheckpointMove, output: Format, *, done: bool) -> None:
    facts = {**move.to_json(), "done": done}
    if output is Format.TABLE:
        del facts["to_offset"]
        for effect in facts.pop("sinks"):
            facts[f"sink {effect['sink']}"] = effect["effect"] + (
                f" REFUSED: {effect['refused']} (--accept)" if effect["refused"] else ""
            )
    show_one(facts, output)


def nothing_done(reason: str = "") -> None:
    """Print on stderr that this was a preview.

    Args:
        reason: the reason that was given already; "" where none was.
    """
    ERR.print(f"Nothing was changed. Add {'' if reason.strip() else '--reason and '}--execute to do it.", style="dim")
