"""Routes of a flow's checkpoint: where it stands, its history, and its moves by hand: previewed, then done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from databus import __version__
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.state.amendments import Action
from databus.ops.checkpoint import accept as accepting
from databus.ops.checkpoint import adopt as adoption
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint import giving_up
from databus.ops.checkpoint import show as checkpoints
from databus.ops.checkpoint.place_words import require_place
from databus.ops.checkpoint.targets import ALL_HISTORY, Target
from databus.ops.checkpoint.version import entry_facts, version_of
from databus.runtime.context import RunIdentity, Services
from databus.web.actions import ActionBody, ActionCall, IdempotencyKey, IfMatch, act, headers, require_json
from databus.web.installation import Access, Installation
from databus.web.paging import MOST, page, place_of

_PLACE = (
    "Place in the source's log: a time (ISO 8601, UTC without a zone), gtid:SET, FILE:POS, "
    "offsets:TOPIC:PARTITION:NEXT,…, earliest, latest, or an offset as JSON."
)


class TargetBody(BaseModel):
    """Target of a checkpoint: what one action takes, the others leave out."""

    model_config = ConfigDict(extra="forbid")

    place: str = Field("", max_length=1_000_000, description=_PLACE)
    batches: int = Field(0, ge=0, description="rewind: committed batches to go back, instead of `place`.")
    entry: int = Field(0, ge=0, description="restore: number of an entry of the history.")
    past_gap: bool = Field(False, description="skip: past what the source's server deleted, instead of `place`.")
    new_log: bool = Field(False, description="skip: onto the log that replaced the flow's.")
    repair: bool = Field(False, description="skip: a snapshot of the flow's tables mends what is passed over.")
    sink: str = Field("", description="skip: a lagging sink that moves alone, to `place` or to the flow's checkpoint.")
    allow_repeats: bool = Field(False, description="adopt: also where a sink's slots are at different batches.")
    topics: list[str] = Field([], max_length=10_000, description="accept: topics to forget.")

    def target(self) -> Target:
        """Return the target; raises ConfigError unless exactly one is named."""
        return Target(self.place, self.batches, self.entry, self.past_gap, self.new_log)

    def sink_target(self) -> Target | None:
        """Return the target of a lagging sink; None for where the flow stands."""
        return self.target() if self.place or self.past_gap or self.new_log else None


class PreviewWanted(TargetBody):
    """Body of a preview."""

    action: Literal["pause", "resume", "rewind", "skip", "restore", "adopt", "accept"]


class Move(TargetBody, ActionBody):
    """Body of a move."""

    accept: bool = Field(False, description="Do it also where a sink would refuse it.")


def router(access: Access, installation: Installation) -> APIRouter:
    """Return the routes; those that change something need the right to edit the DAG.

    Args:
        access: rights.
        installation: what they work on.
    """
    made = APIRouter(prefix="/dags/{dag_id}/checkpoint", tags=["checkpoint"])
    who = Depends(access.who)

    @made.get("", dependencies=[Depends(access.sees)])
    def state(dag_id: str, response: Response) -> dict[str, Any]:
        """Checkpoint of the flow; ETag is the version that an action gives as If-Match."""
        with installation.opened(dag_id) as (flow, services):
            version = version_of(flow.name, services.store)
            view = checkpoints.show(flow, services)
        response.headers["ETag"] = f'"{version}"'
        gaps = [gap.to_json() for gap in view.gaps]
        place = str(view.checkpoint.offset) if view.checkpoint is not None else None
        return {**view.to_json(), "dag_id": dag_id, "version": version, "place": place, "gaps": gaps}

    @made.get("/history", dependencies=[Depends(access.sees)])
    def history(
        dag_id: str,
        cursor: str = "",
        limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
        amendments: Annotated[bool, Query(description="Leave commits of batches out.")] = False,
        stored: Annotated[bool, Query(description="Also each entry as it is stored, as `entry`.")] = False,
    ) -> dict[str, Any]:
        """Commits and amendments that ZooKeeper keeps, newest first; `audit` reaches further back."""
        after = place_of(cursor, (int,))
        with installation.opened(dag_id) as (flow, services):
            newest = services.store.history(flow.name, 1)
            last = newest[0].number if newest else 0
            further = last - after[0] + 1 if after else 0
            most = ALL_HISTORY if amendments else further + limit + 1
            entries = checkpoints.history(flow, services, most) if last else []
        found = [
            {
                **entry_facts(entry),
                "why": checkpoints.why_of(entry),
                **({"entry": entry.to_json()} if stored else {}),
            }
            for entry in entries
            if (after is None or entry.number < after[0]) and not (amendments and entry.action == "commit")
        ][: limit + 1]
        return page(found, limit, [(entry["number"],) for entry in found])

    @made.post("/preview", dependencies=[Depends(access.changes), Depends(require_json)])
    def preview(dag_id: str, wanted: PreviewWanted, response: Response) -> dict[str, Any]:
        """Preview of an action; nothing is changed. `version` is what the action gives as If-Match."""
        _require_place(installation, dag_id, wanted)
        with installation.opened(dag_id) as (flow, services):
            version = version_of(flow.name, services.store)
            found = _previewed(flow, services, wanted)
        response.headers["ETag"] = f'"{version}"'
        return {"action": wanted.action, "version": version, "preview": found}

    def add(name: str, what: str, do: _Do, doc: str, body: type[ActionBody], *, versioned: bool) -> None:
        def action(
            dag_id: str,
            wanted: ActionBody,
            if_match: IfMatch = None,
            idempotency_key: IdempotencyKey = None,
            name_of: str = who,
        ) -> JSONResponse:
            if isinstance(wanted, TargetBody):
                _require_place(installation, dag_id, wanted)
            call = ActionCall(dag_id, name, name_of, headers(if_match, idempotency_key, versioned=versioned), wanted)
            return act(installation, access, call, lambda flow, services: do(flow, services, call, what))

        action.__annotations__["wanted"] = body
        path, depends = f"/{name}", [Depends(access.changes), Depends(require_json)]
        made.add_api_route(path, action, methods=["POST"], dependencies=depends, name=name, description=doc)

    add(
        "pause",
        "a pause",
        _pause,
        "A running window ends after its batch; runs are skipped.",
        ActionBody,
        versioned=False,
    )
    add("resume", "the end of a pause", _resume, "Let a paused flow go on.", ActionBody, versioned=False)
    moved = "a change of a checkpoint"
    add("rewind", moved, _moved("rewind"), "Move back: later rows are sent again.", Move, versioned=True)
    add("skip", moved, _skipped, "Move forward: the range between becomes a gap.", Move, versioned=True)
    add("restore", moved, _moved("restore"), "Move to where an entry of the history left it.", Move, versioned=True)
    add("adopt", moved, _adopted, "Move to the sinks' markers, after ZooKeeper was restored.", Move, versioned=True)
    add("accept", "accepting outputs", _accepted, "Go on with outputs as they are now.", Move, versioned=True)
    return made


_Do = Callable[[Flow, Services, ActionCall, str], Mapping[str, Any]]


def _require_place(installation: Installation, dag_id: str, wanted: TargetBody) -> None:
    """Refuse what is no place, before any server is asked."""
    if wanted.place:
        require_place(installation.found(dag_id).flow, wanted.place, "place")


def _previewed(flow: Flow, services: Services, wanted: PreviewWanted) -> Any:
    match wanted.action:
        case "pause" | "resume":
            standing = services.store.paused(flow.name)
            return {"flow": flow.name, "paused": str(standing) if standing else None}
        case "adopt":
            return adoption.preview(flow, services, allow_repeats=wanted.allow_repeats).to_json()
        case "accept":
            return accepting.facts_of(accepting.preview(flow, services, wanted.topics))
        case "skip" if wanted.sink:
            return giving_up.preview(flow, services, wanted.sink, wanted.sink_target()).to_json()
        case "rewind" | "skip" | "restore":
            return mediation.preview(flow, services, wanted.action, wanted.target(), repair=wanted.repair).to_json()


def _pause(flow: Flow, services: Services, call: ActionCall, what: str) -> dict[str, Any]:
    made = mediation.pause(flow, services, call.said(what))
    return {"result": {"paused": str(made)}, **_stands(flow, services)}


def _resume(flow: Flow, services: Services, call: ActionCall, what: str) -> dict[str, Any]:
    former = mediation.resume(flow, services, call.said(what))
    return {"result": {"was": str(former) if former else "not paused"}, **_stands(flow, services)}


def _moved(action: Action) -> _Do:
    def do(flow: Flow, services: Services, call: ActionCall, what: str) -> dict[str, Any]:
        wanted = call.asked
        assert isinstance(wanted, Move)  # noqa: S101 - the route's own body
        said = call.said(what, consents=wanted.accept)
        move, _ = mediation.execute(flow, services, action, wanted.target(), said, repair=wanted.repair)
        stands = _stands(flow, services)
        return {"result": move.to_json(), "way_back": _way_back(flow, services), **stands}

    return do


def _skipped(flow: Flow, services: Services, call: ActionCall, what: str) -> Mapping[str, Any]:
    wanted = call.asked
    assert isinstance(wanted, Move)  # noqa: S101 - the route's own body
    if not wanted.sink:
        return _moved("skip")(flow, services, call, what)
    said = call.said(what, consents=wanted.accept)
    found = giving_up.execute(flow, services, wanted.sink, wanted.sink_target(), said)
    return {"result": found.to_json(), **_stands(flow, services)}


def _adopted(flow: Flow, services: Services, call: ActionCall, what: str) -> dict[str, Any]:
    wanted = call.asked
    assert isinstance(wanted, Move)  # noqa: S101 - the route's own body
    said = call.said(what)
    who = RunIdentity(said.who, "", __version__)
    found = adoption.execute(flow, services, who, said.why, allow_repeats=wanted.allow_repeats, seen=said.seen)
    return {"result": found.to_json(), **_stands(flow, services)}


def _accepted(flow: Flow, services: Services, call: ActionCall, what: str) -> dict[str, Any]:
    wanted = call.asked
    assert isinstance(wanted, Move)  # noqa: S101 - the route's own body
    found = accepting.execute(flow, services, call.said(what), wanted.topics)
    return {"result": accepting.facts_of(found), **_stands(flow, services)}


def _stands(flow: Flow, services: Services) -> dict[str, Any]:
    """Return the version now; None where the store went away: the action is done, and its answer must not fail."""
    with suppress(DatabusError):
        return {"version": version_of(flow.name, services.store)}
    return {"version": None}


def _way_back(flow: Flow, services: Services) -> dict[str, Any] | None:
    """Return the entry to restore for the flow to stand where it stood; None where the history cannot say it."""
    with suppress(DatabusError):
        newest = services.store.history(flow.name, 2)
        return {"action": "restore", "entry": newest[1].number} if len(newest) > 1 else None
    return None
