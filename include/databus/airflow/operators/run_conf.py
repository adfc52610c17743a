"""What a run of a flow's DAG may be given: it moves what is new, whatever range a trigger asks for."""

from __future__ import annotations

from typing import Any

from databus.core.errors.config import RunConfError
from databus.core.flow import Flow
from databus.core.state.backfill import dag_name

_AIRFLOWS = "airflow/"
"""Airflow's own keys begin so, e.g. for the detail of a run's traces."""


def require_known(flow: Flow, context: Any) -> None:
    """Refuse a run that was given what its DAG does not know: it would be passed over, and the run would succeed.

    Known are the params that the DAG file gives the DAG (`flow_dag(…, params=…)`), for tasks and callbacks of its own.

    Raises:
        RunConfError: names the keys, and where a range can be moved.
    """
    given = getattr(context.get("dag_run"), "conf", None) or {}
    known = set(getattr(context.get("dag"), "params", None) or ())
    unknown = sorted(key for key in given if key not in known and not str(key).startswith(_AIRFLOWS))
    if not unknown:
        return
    takes = f"It takes {', '.join(sorted(known))}." if known else "Trigger it without a conf."
    beside = f" Ranges are moved by the DAG {dag_name(flow.name)}, which takes from and to."
    raise RunConfError(
        f"flow {flow.name}: this run was given {', '.join(unknown)}, which its DAG does not know: it moves what is new",
        hint=takes + (beside if flow.source.ranged else ""),
    )
