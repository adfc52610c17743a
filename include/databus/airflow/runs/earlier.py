"""Query of earlier runs of a DAG that have not ended, as a task may ask Airflow."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

log = logging.getLogger(__name__)

_QUEUED_FOR = timedelta(minutes=2)
"""Airflow begins the runs of a backfill by their order, within seconds where there is a place. An earlier one that is
queued for longer has none as long as this one has: the backfill runs backwards, or the earlier run was cleared."""


@dataclass(frozen=True)
class EarlierRun:
    """A run of the same DAG whose logical date lies earlier.

    Attributes:
        run_id: which one.
        queued_since: when it was first seen to be queued; None for one that runs.
    """

    run_id: str
    queued_since: datetime | None

    def __str__(self) -> str:
        return f"{self.run_id} ({'queued' if self.queued_since else 'running'})"


def earlier_run(instance: Any, queued_since: datetime | None = None) -> EarlierRun | None:
    """Return the earlier run that a task's run waits for where runs go one after the other; None to go on.

    One that runs is waited for until it is over, also between its attempts and while it waits for a yet earlier one.
    One that is queued is waited for two minutes: it may need the place that this one has, and then neither would end.

    Args:
        instance: the task instance of the run, as in its context.
        queued_since: what the last look returned.

    Raises:
        AirflowRuntimeError: Airflow does not report.
    """
    # In this order: a run that begins between the two questions is seen by the second.
    queued = instance.get_previous_dagrun(state="queued")
    running = instance.get_previous_dagrun(state="running")
    if running is not None:
        return EarlierRun(running.run_id, None)
    if queued is None:
        return None
    now = datetime.now(UTC)
    since = queued_since or now
    if now - since < _QUEUED_FOR:
        return EarlierRun(queued.run_id, since)
    log.warning(
        "%s is earlier and queued since %s: Airflow does not begin it while this run has its place, which goes on",
        queued.run_id,
        since.isoformat(timespec="seconds"),
    )
    return None
