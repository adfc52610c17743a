"""Routes of a flow's quarantine: rows by cause, rows with what the flow shows of them, replay, discard, export."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from databus import __version__
from databus.core.errors.batch import ReplaysRefusedError
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.ops.quarantine import show as quarantine
from databus.ops.quarantine.exact_json import dumps
from databus.ops.quarantine.outcome import ReplayResult
from databus.ops.quarantine.replay import replay_rows
from databus.ops.quarantine.replay_entries import refusals
from databus.ops.quarantine.sample import (
    by_shown_cause,
    hidden_names,
    shown_cause,
    shown_key,
    shown_payload,
    shown_row,
)
from databus.records.quarantine.causes import QuarantineCauses, SampledRow, SampleWanted
from databus.records.quarantine.held_row import HeldState
from databus.records.quarantine.rows import Selection
from databus.records.store import RecordStore
from databus.runtime.context import RunIdentity, Services
from databus.web.actions import ActionBody, ActionCall, IdempotencyKey, act, headers, require_json
from databus.web.installation import Access, DagFlow, Installation
from databus.web.paging import page, place_of

_MOST = 100
"""Rows of a page: each may be long."""

_JUDGED = 10_000
"""Rows of which a preview says what stands in the way: more are only counted."""


class Chosen(BaseModel):
    """Held rows that a decision is about; what is left out does not matter."""

    model_config = ConfigDict(extra="forbid")

    stage: str | None = Field(None, min_length=1, description='"check" or the name of a sink.')
    table: str | None = Field(None, min_length=1, description="database.table")
    cause: str | None = Field(
        None, min_length=1, description="A part of the cause; all of it, or its kind, with `whole_cause`."
    )
    whole_cause: bool = False
    events: list[str] | None = Field(None, min_length=1, max_length=10_000, description="Event ids of rows.")
    upto: int | None = Field(None, ge=0, description="Newest row that was seen, as the preview gave it.")

    def selection(self) -> Selection:
        """Return the rows as the records select them."""
        events, cause, whole = tuple(self.events or ()), self.cause, self.whole_cause
        return Selection(HeldState.HELD, self.stage, self.table, events, cause, whole_cause=whole, upto=self.upto)


class ChosenPreview(Chosen):
    """Body of a preview."""

    action: Literal["replay", "discard"]


class Decision(Chosen, ActionBody):
    """Body of a replay."""

    rows: int | None = Field(None, ge=0, description="How many rows were seen: another number is refused.")
    accept: bool = Field(False, description="replay: also where markers have expired or a topic is compacted.")


class Discard(Decision):
    """Body of a discard, which has no way back: an empty choice is all rows, and their number has to be known."""

    rows: int = Field(ge=0, description="How many rows were seen: another number is refused.")


class SampleQuery(BaseModel):
    """Rows that are asked for; what is left out does not matter."""

    model_config = ConfigDict(extra="forbid")

    state: HeldState | None = HeldState.HELD
    stage: str | None = None
    table: str | None = None
    cause: str | None = Field(None, description="The whole cause, or its kind.")
    event_id: str | None = None

    def wanted(self) -> SampleWanted:
        """Return the rows as the records look for them."""
        return SampleWanted(self.state, self.stage, self.table, self.cause, self.event_id)


class RowsQuery(SampleQuery):
    """A page of these rows."""

    cursor: str = ""
    limit: int = Field(20, ge=1, le=_MOST)


def router(access: Access, installation: Installation) -> APIRouter:
    """Return the routes; values of rows need the right to see them, decisions the right to edit the DAG.

    Args:
        access: rights.
        installation: what they work on.
    """
    made = APIRouter(prefix="/dags/{dag_id}/quarantine", tags=["quarantine"])
    who, changes = Depends(access.who), [Depends(access.changes), Depends(require_json)]

    @made.get("", dependencies=[Depends(access.sees)])
    def causes(
        dag_id: str,
        state: HeldState | None = HeldState.HELD,
        cursor: str = "",
        limit: Annotated[int, Query(ge=1, le=_MOST)] = _MOST,
    ) -> dict[str, Any]:
        """Kinds of causes with the number of their rows, and rows by state and stage."""
        after = place_of(cursor, (int,))
        flow = installation.found(dag_id).flow
        found = quarantine.causes_of(flow, Settings.from_environment(), state, after[0] if after else 0, limit + 1)
        causes = found.causes
        shown = page([cause.to_json() for cause in causes], limit, [(cause.number,) for cause in causes])
        return {"flow": flow.name, "tally": found.tally, **shown}

    @made.get("/rows", dependencies=[Depends(access.values)])
    def rows(dag_id: str, wanted: Annotated[RowsQuery, Query()]) -> dict[str, Any]:
        """Rows with their values, as far as the flow shows them now; very long values are cut."""
        after, limit = place_of(wanted.cursor, (int,)), wanted.limit
        flow = installation.found(dag_id).flow
        with RecordStore(Settings.from_environment().records_url) as store:
            found = QuarantineCauses(store, flow.name).rows(wanted.wanted(), after[0] if after else 0, limit + 1)
        shown = [shown_row(row, hidden_names(flow, row.table, row.stage)) for row in found]
        return page(shown, limit, [(row.number,) for row in found])

    @made.get("/export", dependencies=[Depends(access.values)], response_class=StreamingResponse)
    def export(dag_id: str, wanted: Annotated[SampleQuery, Query()]) -> StreamingResponse:
        """All rows as JSON lines with their whole values, as far as the flow shows them now."""
        flow = installation.found(dag_id).flow
        name = f'attachment; filename="{flow.name}.quarantine.ndjson"'
        held = {"Content-Disposition": name, "X-Content-Type-Options": "nosniff"}
        return StreamingResponse(_lines(flow, wanted.wanted()), media_type="application/x-ndjson", headers=held)

    @made.post("/preview", dependencies=changes)
    def preview(dag_id: str, wanted: ChosenPreview) -> dict[str, Any]:
        """Preview of a decision: its number of rows, and what stands in the way of a replay; nothing is changed."""
        with installation.opened(dag_id) as (flow, services):
            chosen = _chosen(flow, services, wanted)
            count, newest = quarantine.require_number(flow, services, chosen, None)
            found = []
            if wanted.action == "replay" and count <= _JUDGED:
                found = refusals(flow, services, quarantine.select_facts(flow, services, chosen))
        told = [one.to_json() for one in found]
        counted = {"rows": count, "upto": newest, "judged": count <= _JUDGED}
        return {"action": wanted.action, "refused": told, **counted}

    @made.post("/replay", dependencies=changes)
    def replay(
        dag_id: str, wanted: Decision, idempotency_key: IdempotencyKey = None, name_of: str = who
    ) -> JSONResponse:
        """Send held rows through the flow as it is now, each once; answers when that is done."""
        call = ActionCall(dag_id, "quarantine_replay", name_of, headers(None, idempotency_key, versioned=False), wanted)
        of_dag = installation.found(dag_id)
        return act(
            installation, access, call, lambda flow, services: _replayed(flow, services, call, (installation, of_dag))
        )

    @made.post("/discard", dependencies=changes)
    def discard(
        dag_id: str, wanted: Discard, idempotency_key: IdempotencyKey = None, name_of: str = who
    ) -> JSONResponse:
        """Decide that held rows are never replayed; they stay listed, with who and why."""
        asked = headers(None, idempotency_key, versioned=False)
        call = ActionCall(dag_id, "quarantine_discard", name_of, asked, wanted)
        return act(installation, access, call, lambda flow, services: _discarded(flow, services, call))

    return made


def _lines(flow: Flow, wanted: SampleWanted) -> Iterator[str]:
    with RecordStore(Settings.from_environment().records_url) as store:
        for row, payload in QuarantineCauses(store, flow.name).whole(wanted):
            yield f"{dumps(_whole(flow, row, payload))}\n"


def _whole(flow: Flow, row: SampledRow, payload: str) -> dict[str, Any]:
    hidden = hidden_names(flow, row.table, row.stage)
    facts = shown_row(row, hidden)
    return {
        **facts,
        "cause": shown_cause(row, hidden),
        "key": shown_key(row.key, hidden),
        "payload": shown_payload(payload, hidden),
    }


def _chosen(flow: Flow, services: Services, wanted: Chosen) -> Selection:
    chosen = wanted.selection()
    quarantine.require_known(flow, services, chosen)
    with quarantine.held_rows(flow, services) as rows:
        return by_shown_cause(flow, rows, chosen)


def _seen(flow: Flow, services: Services, wanted: Decision) -> Selection:
    """Return the rows that were seen; what is held from now on is not among them."""
    chosen = _chosen(flow, services, wanted)
    _, newest = quarantine.require_number(flow, services, chosen, wanted.rows)
    return replace(chosen, upto=newest)


def _replayed(flow: Flow, services: Services, call: ActionCall, of: tuple[Installation, DagFlow]) -> Mapping[str, Any]:
    installation, found = of
    wanted = call.asked
    assert isinstance(wanted, Decision)  # noqa: S101 - the route's own body
    chosen = _seen(flow, services, wanted)
    said = call.said("a replay of rows in quarantine", consents=wanted.accept)
    identity = RunIdentity(f"replay:{socket.gethostname()}:{os.getpid()}", "", __version__)
    spark = installation.spark(found.spark_conn_id, f"{services.settings.installation}/{flow.name}.replay")
    try:
        done = replay_rows(flow, services, (spark, identity), chosen, said)
    except ReplaysRefusedError as error:
        if not error.done:
            raise
        told = {"code": error.code, "why": error.message, "hint": error.hint}
        return {"result": [_plain(one) for one in error.done], "refused": told}
    return {"result": [_plain(one) for one in done], "refused": None}


def _discarded(flow: Flow, services: Services, call: ActionCall) -> Mapping[str, Any]:
    wanted = call.asked
    assert isinstance(wanted, Decision)  # noqa: S101 - the route's own body
    chosen = _seen(flow, services, wanted)
    said = call.said("the decision to discard rows in quarantine")
    return {"result": {"discarded": quarantine.discard(flow, services, chosen, said)}}


def _plain(one: ReplayResult) -> dict[str, Any]:
    return {**vars(one), "sinks": {name: counts.to_json() for name, counts in sorted(one.sinks.items())}}
