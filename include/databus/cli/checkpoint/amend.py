"""`databus checkpoint pause|resume|rewind|skip|restore`: a preview, and with --execute the change itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from databus.cli.server.choice import served
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
from databus.core.positions.gaps import Gap
from databus.core.state.amendments import Action, Pause
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint import giving_up
from databus.ops.checkpoint.targets import Target

if TYPE_CHECKING:
    from databus.cli.server.client import ServedFlow

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
    what = "a pause"
    if (there := served(flow)) is not None:
        if change.execute:
            show_one({"flow": there.name, **done(there, "pause", {}, change, what)}, shown.output)
            return
        standing = preview(there, "pause", {})["paused"]
    else:
        with opened(flow, shown.dags) as (spec, services):
            if change.execute:
                said = mediation.Attribution(operator(), change.reason, what=what)
                show_one({"flow": flow, "paused": str(mediation.pause(spec, services, said))}, shown.output)
                return
            standing = _standing(services.store.paused(flow))
    then = "a running window ends after its batch, runs after it are skipped until `resume`"
    show_one({"flow": there.name if there else flow, "paused": standing, "pause": then}, shown.output)
    nothing_done(change.reason)


@grouped
def resume(flow: FlowName, change: ChangeOptions, shown: Shown) -> None:
    """Resume a paused flow."""
    what = "the end of a pause"
    if (there := served(flow)) is not None:
        if change.execute:
            show_one({"flow": there.name, **done(there, "resume", {}, change, what)}, shown.output)
            return
        standing = preview(there, "resume", {})["paused"]
    else:
        with opened(flow, shown.dags) as (spec, services):
            if change.execute:
                former = mediation.resume(spec, services, mediation.Attribution(operator(), change.reason, what=what))
                show_one({"flow": flow, "was": str(former) if former else "not paused"}, shown.output)
                return
            standing = _standing(services.store.paused(flow))
    show_one({"flow": there.name if there else flow, "paused": standing}, shown.output)
    nothing_done(change.reason)


def gaps(flow: FlowName, dags: Dags = None, output: Output = Format.TABLE) -> None:
    """List ranges of the log that the flow never moved, and why."""
    found: Sequence[Gap]
    if (there := served(flow)) is not None:
        found = [Gap.from_json(gap) for gap in there.get("/gaps")["gaps"]]
    else:
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
    if (there := served(flow)) is not None:
        asked = {**_asked(target), **({"repair": True} if repair else {})}
        found = done(there, action, asked, change) if change.execute else preview(there, action, asked)
        _show(found, shown.output, done=change.execute)
        if not change.execute:
            nothing_done(change.reason)
        return
    with opened(flow, shown.dags, places={"PLACE": target.place}) as (spec, services):
        if not change.execute:
            move = mediation.preview(spec, services, action, target, repair=repair)
            _show(move.to_json(), shown.output, done=False)
            nothing_done(change.reason)
            return
        who = mediation.Attribution(operator(), change.reason, change.accept)
        move, _ = mediation.execute(spec, services, action, target, who, repair=repair)
        _show(move.to_json(), shown.output, done=True)


def _give_up(flow: str, sink: str, target: Target | None, change: AmendmentOptions, shown: Shown) -> None:
    if (there := served(flow)) is not None:
        asked = {"sink": sink, **(_asked(target) if target else {})}
        told = done(there, "skip", asked, change) if change.execute else preview(there, "skip", asked)
    else:
        with opened(flow, shown.dags, places={"PLACE": target.place if target else ""}) as (spec, services):
            if change.execute:
                who = mediation.Attribution(operator(), change.reason, change.accept)
                found = giving_up.execute(spec, services, sink, target, who)
            else:
                found = giving_up.preview(spec, services, sink, target)
            told = found.to_json()
    facts = {**told, "done": change.execute}
    if shown.output is Format.TABLE:
        del facts["to_offset"]
    show_one(facts, shown.output)
    if not change.execute:
        nothing_done(change.reason)


_MOVED = "a change of a checkpoint"


def _asked(target: Target) -> dict[str, Any]:
    """Return a target as the routes take it."""
    return {name: value for name, value in vars(target).items() if value}


def preview(there: ServedFlow, action: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a server says that an action would do."""
    found: dict[str, Any] = there.preview("checkpoint", {"action": action, **asked})["preview"]
    return found


def done(
    there: ServedFlow, action: str, asked: Mapping[str, Any], change: ChangeOptions, what: str = _MOVED
) -> dict[str, Any]:
    """Have a server do an action, from where the flow stands now."""
    mediation.Attribution(operator(), change.reason, what=what)  # refused without a reason, before anything is asked
    consents = {"accept": True} if getattr(change, "accept", False) else {}
    version = "" if action in ("pause", "resume") else there.version()
    found: dict[str, Any] = there.act(f"/checkpoint/{action}", {**asked, **consents, "reason": change.reason}, version)[
        "result"
    ]
    return found


def _standing(pause: Pause | None) -> str | None:
    return str(pause) if pause else None


def _show(move: Mapping[str, Any], output: Format, *, done: bool) -> None:
    facts = {**move, "done": done}
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
