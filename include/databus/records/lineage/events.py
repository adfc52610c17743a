"""OpenLineage events of a window: START, and one of COMPLETE, FAIL, ABORT under the same run id."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from databus.records.lineage.datasets import Lineage
from databus.records.lineage.windows import WindowRun

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

PRODUCER = "urn:databus"
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
    from openlineage.client.facet_v2 import job_type_job, parent_run

    installation, namespace = where
    facets: dict[str, Any] = dict(lineage.run_facets)
    if run.parent:
        facets["parent"] = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=run.parent), job=parent_run.Job(namespace=namespace, name=run.flow)
        )
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
