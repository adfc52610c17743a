"""Routes that account for a flow: ledger, gaps, audit, quality, lag, and a mirror's partitions and heartbeat."""

from __future__ import annotations

import csv
import io
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from databus.core.settings import Settings
from databus.ops.audit import AuditEntry, audit
from databus.ops.health.lag import lag_facts, measure, measure_partitions
from databus.ops.ledger.show import problems_of, read_ledger, summary
from databus.ops.mirror.heartbeats import newest_heartbeat
from databus.ops.mirror.translate import mirror_sink, translate
from databus.records.quality.trend import newest_runs, trends
from databus.records.store import RecordStore
from databus.web.installation import Access, Installation
from databus.web.paging import MOST, page, place_of

LAST_PARTITION = 2**31 - 1
"""Largest number that a partition may have."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters that a spreadsheet takes for a formula at the beginning of a cell."""


class AuditFilter(BaseModel):
    """Entries of an audit; what is left out does not matter."""

    model_config = ConfigDict(extra="forbid")

    who: str = Field("", max_length=250, description="A part of the name of a user or run, in any case.")
    action: str = Field("", max_length=50, description='What was done, e.g. "rewind".')

    def takes(self, entry: AuditEntry) -> bool:
        """Return whether an entry is one of them."""
        return self.who.casefold() in entry.who.casefold() and self.action in ("", entry.action)


class AuditQuery(AuditFilter):
    """Page of an audit."""

    cursor: str = ""
    limit: int = Field(50, ge=1, le=MOST)


def router(access: Access, installation: Installation) -> APIRouter:
    """Return the routes; none of them changes anything.

    Args:
        access: rights.
        installation: what they work on.
    """
    made = APIRouter(prefix="/dags/{dag_id}", tags=["accounts"])
    sees, audits = [Depends(access.sees)], [Depends(access.audits)]

    @made.get("/ledger", dependencies=sees)
    def ledger(dag_id: str) -> dict[str, Any]:
        """Account of every byte and row of the flow's log; `problems` names what does not add up."""
        with installation.opened(dag_id) as (flow, services):
            state = read_ledger(flow, services)
        return {**summary(state), "problems": problems_of(state)}

    @made.get("/gaps", dependencies=sees)
    def gaps(dag_id: str) -> dict[str, Any]:
        """Ranges of the log that the flow never moved, and why."""
        with installation.opened(dag_id) as (flow, services):
            found = services.store.gaps(flow.name)
        return {"flow": flow.name, "gaps": [gap.to_json() for gap in found]}

    @made.get("/audit", dependencies=audits)
    def audited(dag_id: str, wanted: Annotated[AuditQuery, Query()]) -> dict[str, Any]:
        """Audit: who did what and why, by page, command or run, newest first; commits of batches are left out.

        `actions` are all that the audit has, whatever was asked for.
        """
        after = place_of(wanted.cursor, (str, int, str, str))
        found, limit = _audit(installation, dag_id), wanted.limit
        left = [entry for entry in found if wanted.takes(entry) and (after is None or _place(entry) < tuple(after))]
        shown = left[: limit + 1]
        actions = sorted({entry.action for entry in found})
        return {**page([e.to_json() for e in shown], limit, [_place(e) for e in shown]), "actions": actions}

    @made.get("/audit.csv", dependencies=audits, response_class=Response)
    def audited_csv(dag_id: str, wanted: Annotated[AuditFilter, Query()]) -> Response:
        """All of the audit as CSV, or what was asked for of it."""
        text = io.StringIO()
        rows = csv.writer(text)
        rows.writerow(("at", "subject", "number", "action", "who", "why", "facts"))
        for e in filter(wanted.takes, _audit(installation, dag_id)):
            told = (e.at.isoformat(), e.subject, str(e.number), e.action, e.who, e.why, e.facts)
            rows.writerow([f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in told])
        held = {"Content-Disposition": 'attachment; filename="audit.csv"', "X-Content-Type-Options": "nosniff"}
        return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=held)

    @made.get("/quality", dependencies=sees)
    def quality(dag_id: str, last: Annotated[int, Query(ge=1, le=200)] = 30) -> dict[str, Any]:
        """Newest results of checks and expectations, each with its share of violations over the last runs."""
        flow = installation.found(dag_id).flow
        with RecordStore(Settings.from_environment().records_url) as store:
            runs = newest_runs(store, flow.name, last)
        return {"flow": flow.name, "runs": [run.to_json() for run in runs], "latest": trends(runs)}

    @made.get("/lag", dependencies=sees)
    def lag(dag_id: str) -> dict[str, Any]:
        """Lag of the flow behind its source now; asks the source."""
        with installation.opened(dag_id) as (flow, services):
            return lag_facts(measure(flow, services))

    @made.get("/mirror/partitions", dependencies=sees)
    def partitions(
        dag_id: str, behind: Annotated[bool, Query(description="Only partitions that lag.")] = False
    ) -> dict[str, Any]:
        """Lag of each partition of a mirror, in records and seconds."""
        with installation.opened(dag_id) as (flow, services):
            sink = mirror_sink(flow)
            found = measure_partitions(flow, services)
        rows = [
            {**vars(one), "target": sink.target(one.topic)}
            for one in found
            if one.records or one.held_back or not behind
        ]
        return {"flow": flow.name, "partitions": rows}

    @made.get("/mirror/heartbeat", dependencies=sees)
    def heartbeat(dag_id: str) -> dict[str, Any]:
        """Newest heartbeat of a mirror that has arrived, and its age."""
        with installation.opened(dag_id) as (flow, services):
            seen = newest_heartbeat(flow, services)
        return {"flow": flow.name, "written_at": seen.written_at, "age_seconds": seen.age_s}

    @made.get("/mirror/translate", dependencies=sees)
    def translated(
        dag_id: str,
        topic: Annotated[str, Query(max_length=1_000)],
        partition: Annotated[int, Query(ge=0, le=LAST_PARTITION)],
        offset: Annotated[int, Query(ge=0, le=2**63 - 1, description="What a consumer would read next.")],
        back: Annotated[bool, Query(description="From the target to the source.")] = False,
    ) -> dict[str, Any]:
        """A consumer's offset of a mirrored topic on the other side."""
        with installation.opened(dag_id) as (flow, services):
            (to, to_partition), found = translate(flow, services, (topic, partition), offset, back=back)
        return {"topic": to, "partition": to_partition, "offset": found}

    return made


def _audit(installation: Installation, dag_id: str) -> list[AuditEntry]:
    with installation.opened(dag_id) as (flow, services):
        return sorted(audit(flow, services), key=_place, reverse=True)


def _place(entry: AuditEntry) -> tuple[str, int, str, str]:
    return entry.at.isoformat(), entry.number, entry.subject, f"{entry.action} {entry.who} {entry.why}"
