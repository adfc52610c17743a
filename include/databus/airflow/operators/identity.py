"""Who runs, in Airflow's words: run id and the address of the run's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from databus import __version__

if TYPE_CHECKING:
    from databus.runtime.context import RunIdentity


def run_identity(context: Any) -> RunIdentity:
    """Return the identity of the DAG run of a task's context."""
    from databus.runtime.context import RunIdentity

    instance = context["ti"]
    address = str(getattr(instance, "log_url", "") or "").partition("/tasks/")[0]
    return RunIdentity(run_id=context["run_id"], run_url=address, code_version=__version__)
