"""Routes that look further than a flow's records: next range, rows, findings, alerts, held rows, the verified ledger.

Most of them open the flow's servers, and need the right to edit the DAG, as previews of actions do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from databus.core.batches.refusals import kind_of_cause
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.ops.checkpoint.place_words import require_place
from databus.ops.health.doctor import examine_environment, examine_flow, worst
from databus.ops.health.raised_alerts import raised_alerts
from databus.ops.ledger.show import summary
from databus.ops.ledger.verify import verify
from databus.ops.quarantine import show as quarantine
from databus.ops.quarantine.exact_json import dumps
from databus.ops.quarantine.sample import by_shown_cause, hidden_names, shown_key, shown_payload
from databus.ops.runs.preview import preview
from databus.ops.runs.shown_rows import MOST_ROWS, shown_rows
from databus.records.quarantine.held_row import HeldRow, HeldState
from databus.records.quarantine.rows import HeldRows, Selection
from databus.records.store import RecordStore
from databus.web.installation import Access, Installation, waiting_for_servers

LINES = "application/x-ndjson"


class HeldQuery(BaseModel):
    """Rows in quarantine that are asked for; what is left out does not matter."""

    model_config = ConfigDict(extra="forbid")

    state: HeldState | Literal["all"] = HeldState.HELD
    stage: str | None = Field(None, description='"check" or the name of a sink.')
    table: str | None = Field(None, description="database.table")
    cause: str | None = Field(None, description="A part of the cause.")
    event: list[str] = Field([], max_length=1_000, description="Event ids of rows.")
    limit: int | None = Field(None, ge=1, le=2**31 - 1, description="How many at most, the oldest first.")

    def selection(self) -> Selection:
        """Return the rows as the records select them."""
        state = None if self.state == "all" else HeldState(self.state)
        return Selection(state, self.stage, self.table, tuple(self.event), self.cause, self.limit)


def router(access: Access, installation: Installation) -> APIRouter:
    """Return the routes; none of them changes anything.

    Args:
        access: rights.
        installation: what they work on.
    """
    made = APIRouter(prefix="/dags/{dag_id}", tags=["looks"])
    sees, edits, values = [Depends(access.sees)], [Depends(access.changes)], [Depends(access.values)]

    @made.get("/plan", dependencies=edits)
    def plan(dag_id: str) -> dict[str, Any]:
        """Range of the next batch, the lanes and outputs of its tables; nothing is written."""
        with installation.opened(dag_id) as (flow, services):
            return preview(flow, services).to_json()

    @made.get("/peek", dependencies=values, response_class=Response)
    def peek(
        dag_id: str,
        start: Annotated[
            str, Query(alias="from", max_length=1_000_000, description="A place of the source's log, or a time.")
        ] = "",
        rows: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 10,
    ) -> Response:
        """Row changes of the source as JSON lines, without what the flow hides; by default from the checkpoint on."""
        if start:
            require_place(installation.found(dag_id).flow, start, "from")
        with installation.opened(dag_id) as (flow, services):
            lines = shown_rows(flow, services, start or None, rows)
        return Response("".join(f"{line}\n" for line in lines), media_type=LINES, headers=_AS_DATA)

    @made.get("/doctor", dependencies=edits)
    def doctor(dag_id: str) -> dict[str, Any]:
        """Missing settings, grants and connections of the flow, as the API server sees them, and what to do."""
        flow = installation.found(dag_id).flow
        with waiting_for_servers():
            findings = [*examine_environment(), *examine_flow(flow, installation.connections)]
        told = [finding.to_json() for finding in findings]
        return {"flow": flow.name, "worst": str(worst(findings)), "findings": told}

    @made.get("/alerts", dependencies=sees)
    def alerts(
        dag_id: str, every: Annotated[bool, Query(alias="all", description="Resolved ones too.")] = False
    ) -> dict[str, Any]:
        """Raised alerts, and channels still to be notified."""
        flow = installation.found(dag_id).flow
        with waiting_for_servers():
            found = raised_alerts(flow, installation.connections, Settings.from_environment(), every=every)
        return {"flow": flow.name, "alerts": found}

    @made.get("/ledger/verification", dependencies=edits)
    def verification(
        dag_id: str,
        last: Annotated[int | None, Query(ge=0, description="Newest batches to read again; all by default.")] = None,
    ) -> dict[str, Any]:
        """The ledger, derived again from ZooKeeper, SQL, sinks and the log; `sound` where it adds up."""
        with installation.opened(dag_id) as (flow, services):
            found = verify(flow, services, last)
        return {**summary(found.state), **found.to_json()}

    @made.get("/quarantine/held", dependencies=values, response_class=StreamingResponse)
    def held(dag_id: str, wanted: Annotated[HeldQuery, Query()]) -> StreamingResponse:
        """Rows in quarantine as JSON lines with all that is known of them, without what the flow hides."""
        with installation.opened(dag_id) as (flow, services):
            quarantine.require_known(flow, services, replace(wanted.selection(), event_ids=()))
        lines = _held(flow, wanted.selection())
        begun = chain([next(lines, "")], lines)  # what cannot be read is a problem, not half of an answer
        return StreamingResponse(begun, media_type=LINES, headers=_AS_DATA)

    return made


_AS_DATA = {"X-Content-Type-Options": "nosniff"}


def _held(flow: Flow, wanted: Selection) -> Iterator[str]:
    with RecordStore(Settings.from_environment().records_url) as store:
        rows = HeldRows(store, flow.name)
        for page in rows.pages(by_shown_cause(flow, rows, wanted)):
            yield "".join(f"{dumps(_shown(flow, row).to_json())}\n" for row in page)


def _shown(flow: Flow, row: HeldRow) -> HeldRow:
    hidden = hidden_names(flow, row.table, row.stage)
    if not hidden:
        return row
    return replace(
        row,
        key=shown_key(row.key, hidden),
        cause=kind_of_cause(row.stage, row.cause),
        payload=dumps(shown_payload(row.payload, hidden)),
    )
