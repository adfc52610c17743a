"""Routes of a flow's pages Quality and Ledger: checks over runs from the records, and the log as a band."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import JSONResponse, Response

from databus.core.settings import Settings
from databus.ops.ledger.band import band_view
from databus.ops.ledger.show import read_ledger
from databus.records.quality.trend import newest_runs, over_runs
from databus.records.store import RecordStore
from databus.web.installation import Access, Installation

IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="ETag of an answer that is known: 304 where it is the same.")
]


def router(access: Access, installation: Installation) -> APIRouter:
    """Return the routes; none of them changes anything.

    Args:
        access: rights.
        installation: what they work on.
    """
    made = APIRouter(prefix="/dags/{dag_id}", tags=["accounts"])
    sees: dict[str, Any] = {"dependencies": [Depends(access.sees)], "response_class": Response}

    @made.get("/quality/checks", **sees)
    def checks(
        dag_id: str, last: Annotated[int, Query(ge=1, le=200)] = 30, if_none_match: IfNoneMatch = None
    ) -> Response:
        """Checks and expectations of the newest runs, each with what every one of these runs found, oldest first."""
        flow = installation.found(dag_id).flow
        with RecordStore(Settings.from_environment().records_url) as store:
            runs = newest_runs(store, flow.name, last)
        shown = [run.to_json() for run in runs]
        return _told({"flow": flow.name, "runs": shown, "checks": over_runs(runs)}, if_none_match)

    @made.get("/ledger/band", **sees)
    def band(
        dag_id: str,
        columns: Annotated[int, Query(ge=1, le=400, description="Columns of what was read.")] = 120,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """The log as a band: by column what was dispatched, filtered and held back, and each gap; the sums beside."""
        with installation.opened(dag_id) as (flow, services):
            state = read_ledger(flow, services)
        return _told(band_view(state, columns), if_none_match)

    return made


def _told(facts: Mapping[str, Any], known: str | None) -> Response:
    """Return facts as JSON with their ETag; 304 where who asks has them.

    Args:
        facts: plain JSON, without the time at which it was asked.
        known: If-None-Match as it was sent; None without.
    """
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
    headers = {"ETag": f'"{digest}"', "Cache-Control": "private, no-cache"}
    if known is not None and digest in {tag.strip().removeprefix("W/").strip('"') for tag in known.split(",")}:
        return Response(status_code=304, headers=headers)
    return JSONResponse(dict(facts), headers=headers)
