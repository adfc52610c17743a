"""OpenLineage of backfills: a run of the backfill DAG tells one START and one end, over all its attempts and pieces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from databus.airflow.backfills.params import asked_of
from databus.airflow.reporting.lineage import close_left_open, end_failed, window_lineage
from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.state.backfill import dag_name


@contextmanager
def backfill_lineage(flow: Flow, context: Any) -> Iterator[None]:
    """Tell of a run that moves rows, under the name of its DAG; a scheduled one moves none, and is not told of."""
    asked = asked_of(context)
    if asked.scheduled:
        yield
        return
    told = _as_run(flow, asked.suffix)
    close_left_open(told, context)
    with window_lineage(told, context):
        yield


def end_failed_backfill(flow: Flow, context: Any) -> None:
    """End the lineage of a run that has failed for good; a callback of the DAG, for a last attempt that was killed."""
    end_failed(_as_run(flow, asked_of(context).suffix), context)


def _as_run(flow: Flow, suffix: str) -> Flow:
    """Return the flow as lineage sees its backfill: the DAG's name, and the outputs that the run writes to."""
    try:
        sinks = tuple(spec.beside(flow.name, suffix) for spec in flow.sinks)
    except ConfigError:  # the run says so itself, and moves nothing
        sinks = ()
    return flow.model_copy(update={"name": dag_name(flow.name), "sinks": sinks})
