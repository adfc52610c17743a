"""OpenLineage events of a window: START, and one of COMPLETE, FAIL, ABORT under the same run id."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

from databus.records.lineage import Lineage
from databus.records.lineage_runs import WindowRun

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

PRODUCER = "urn:databus"
TRANSFER = "transfer"
"""Task that moves a window; Airflow's provider tells of its attempts as the job "<flow>.transfer"."""
_IDS = uuid.UUID("6f0c1f3e-64c6-5a0c-9f0e-6b0d7f1d7a11")


def run_uuid(installation: str, run: WindowRun) -> str:
    """Return the run id: the same for every attempt, another after a clear."""
    return str(uuid.uuid5(_IDS, "\n".join((installation, run.flow, run.run_id, str(run.clear)))))


def job_name(flow: str) -> str:
    """Return the name of the job whose runs are a flow's windows."""
    return f"{flow}.window"


def window_event(kind: str, run: WindowRun, where: tuple[str, str], lineage: Lineage) -> RunEvent:
    """Return an event.

    Args:
        kind: START, COMPLETE, FAIL or ABORT.
        run: the window.
        where: name of the installation, and OpenLineage's job namespace.
        lineage: datasets and facets.
    """
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import job_type_job

    installation, namespace = where
    facets: dict[str, Any] = {**lineage.run_facets, **_parent(run, namespace)}
    job_type = job_type_job.JobTypeJobFacet(processingType="BATCH", integration="DATABUS", jobType="WINDOW")
    at = run.started_at if kind == "START" else run.ended_at or run.started_at
    return RunEvent(
        eventTime=at.isoformat(),
        eventType=RunState[kind],
        run=Run(runId=run_uuid(installation, run), facets=facets),
        job=Job(namespace=namespace, name=job_name(run.flow), facets={"jobType": job_type}),
        inputs=list(lineage.inputs),
        outputs=list(lineage.outputs),
        producer=PRODUCER,
    )


def killed_attempt_event(run: WindowRun, namespace: str, at: datetime) -> RunEvent:
    """Return the FAIL that Airflow's provider could not tell of an attempt, because its process was killed.

    Args:
        run: the window, with the attempt.
        namespace: OpenLineage's job namespace.
        at: when that was noticed, aware UTC.
    """
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import error_message_run

    message = "the process of this attempt was killed; noticed by a later one"
    error = error_message_run.ErrorMessageRunFacet(message=message, programmingLanguage="python")
    return RunEvent(
        eventTime=at.isoformat(),
        eventType=RunState.FAIL,
        run=Run(runId=run.attempt, facets={**_parent(run, namespace), "errorMessage": error}),
        job=Job(namespace=namespace, name=f"{run.flow}.{TRANSFER}"),
        producer=PRODUCER,
    )


def _parent(run: WindowRun, namespace: str) -> dict[str, Any]:
    from openlineage.client.facet_v2 import parent_run

    if not run.parent:
        return {}
    job = parent_run.Job(namespace=namespace, name=run.flow)
    return {"parent": parent_run.ParentRunFacet(run=parent_run.Run(runId=run.parent), job=job)}
