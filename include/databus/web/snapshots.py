"""Routes of a flow's snapshot: how far it is; begun, paused, resumed and cancelled by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from databus.core.flow import Flow
from databus.core.state.snapshot import Snapshot
from databus.core.state.snapshot_progress import progress_of
from databus.ops import snapshots
from databus.runtime.context import Services
from databus.web.actions import ActionBody, ActionCall, IdempotencyKey, act, headers, require_json
from databus.web.installation import Access, Installation


class Tables(BaseModel):
    """Tables that a snapshot reads."""

    model_config = ConfigDict(extra="forbid")

    tables: list[str] = Field([], max_length=10_000, description="DATABASE.TABLE; all of the flow's when empty.")
    where: str = Field("", max_length=10_000, description="Condition in SQL for the rows of one table.")
    mends: list[int] = Field([], max_length=1_000, description="Numbers of gaps that it mends.")


class SnapshotPreview(Tables):
    """Body of a preview."""

    action: Literal["begin", "pause", "resume", "cancel"]


class Begun(Tables, ActionBody):
    """Body of the beginning of a snapshot."""


def router(access: Access, installation: Installation) -> APIRouter:
    """Return the routes; those that change something need the right to edit the DAG.

    Args:
        access: rights.
        installation: what they work on.
    """
    made = APIRouter(prefix="/dags/{dag_id}/snapshot", tags=["snapshot"])
    who, changes = Depends(access.who), [Depends(access.changes), Depends(require_json)]

    @made.get("", dependencies=[Depends(access.sees)])
    def shown(
        dag_id: str,
        load: Annotated[bool, Query(description="Ask the source whether its load holds the snapshot up.")] = False,
    ) -> dict[str, Any]:
        """The flow's unfinished snapshot, or its last; null before the first, and how that would come about."""
        with installation.opened(dag_id) as (flow, services):
            found = services.store.snapshot(flow.name)
            if found is None:
                return {"flow": flow.name, "snapshot": None, "note": snapshots.first_words(flow, services)}
            waits = snapshots.load_of(flow, services, found) if load else ""
            return {"flow": flow.name, "snapshot": _facts(found, services, waits)}

    @made.post("/preview", dependencies=changes)
    def preview(dag_id: str, wanted: SnapshotPreview) -> dict[str, Any]:
        """Preview of an action; nothing is changed."""
        with installation.opened(dag_id) as (flow, services):
            if wanted.action == "begin":
                found = snapshots.proposed(flow, services, wanted.tables, wanted.where, wanted.mends)
                return {"action": "begin", "preview": found.to_json()}
            standing, would = snapshots.foreseen(flow.name, services.store.snapshot(flow.name), wanted.action)
            return {"action": wanted.action, "preview": standing.to_json(), "would": would}

    def add(name: str, do: _Do, doc: str, body: type[ActionBody]) -> None:
        def action(
            dag_id: str, wanted: ActionBody, idempotency_key: IdempotencyKey = None, name_of: str = who
        ) -> JSONResponse:
            asked = headers(None, idempotency_key, versioned=False)
            call = ActionCall(dag_id, f"snapshot_{name}", name_of, asked, wanted)
            return act(installation, access, call, lambda flow, services: do(flow, services, call))

        action.__annotations__["wanted"] = body
        made.add_api_route(f"/{name}", action, methods=["POST"], dependencies=changes, name=name, description=doc)

    add("begin", _begun, "Read tables as they stand, beside the stream.", Begun)
    add("pause", _decided("pause"), "Hold the snapshot; the stream goes on.", ActionBody)
    add("resume", _decided("resume"), "Let a held snapshot go on.", ActionBody)
    add("cancel", _decided("cancel"), "End the snapshot; what was delivered stays.", ActionBody)
    return made


_Do = Callable[[Flow, Services, ActionCall], Mapping[str, Any]]


def _begun(flow: Flow, services: Services, call: ActionCall) -> dict[str, Any]:
    wanted = call.asked
    assert isinstance(wanted, Begun)  # noqa: S101 - the route's own body
    said = call.said("a snapshot")
    proposed = snapshots.proposed(flow, services, wanted.tables, wanted.where, wanted.mends)
    return {"result": _facts(snapshots.begin(flow, services, proposed, said), services)}


def _decided(action: snapshots.Decision) -> _Do:
    def do(flow: Flow, services: Services, call: ActionCall) -> dict[str, Any]:
        said = call.said(f"the {action} of a snapshot")
        return {"result": _facts(snapshots.decide(flow, services, action, said), services)}

    return do


def _facts(found: Snapshot, services: Services, waits: str = "") -> dict[str, Any]:
    return {**found.to_json(), "progress": progress_of(found, services.clock.now(), waits=waits).to_json()}
