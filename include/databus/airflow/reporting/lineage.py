"""OpenLineage facets of a transfer, for the provider's listener: inputs and outputs of the run's batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError

from databus.airflow.backfills.params import asked_of
from databus.airflow.connections import AirflowConnections
from databus.airflow.moved import AirflowFailException, AirflowSkipException
from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.packages import install_command, lacking
from databus.core.settings import Settings
from databus.core.state.backfill import dag_name

if TYPE_CHECKING:
    from databus.ops.runs.lineage_events import LineageTeller


log = logging.getLogger(__name__)

COMPLETE, FAIL = "COMPLETE", "FAIL"


@contextmanager
def window_lineage(flow: Flow, context: Any) -> Iterator[None]:
    """Send OpenLineage events of a window over all attempts of its task: one START, one end.

    An attempt that Airflow will repeat ends nothing. One that is killed cannot; see `end_failed` and `close_left_open`.
    """
    teller = _teller(flow)
    if teller is None:
        yield
        return
    dag_run, instance = context["dag_run"], context["ti"]
    clear = int(getattr(dag_run, "clear_number", 0) or 0)
    teller.started(context["run_id"], clear, _parent(flow, dag_run, clear))
    try:
        yield
    except AirflowSkipException:
        teller.ended(context["run_id"], clear, COMPLETE)
        raise
    except Exception as error:
        if isinstance(error, AirflowFailException) or instance.try_number > instance.max_tries:
            teller.ended(context["run_id"], clear, FAIL)
        raise
    teller.ended(context["run_id"], clear, COMPLETE)


def end_failed(flow: Flow, context: Any) -> None:
    """End the lineage of a run that has failed for good; a callback of the DAG, for a last attempt that was killed."""
    teller = _teller(flow)
    if teller is not None:
        clear = int(getattr(context.get("dag_run"), "clear_number", 0) or 0)
        teller.ended(context["run_id"], clear, FAIL)


def close_left_open(flow: Flow, context: Any) -> None:
    """End the lineage of windows whose last attempt was killed and whose runs are over."""
    teller = _teller(flow)
    if teller is None:
        return
    instance = context["ti"]

    def state_of(run_id: str) -> str:
        try:
            state = instance.get_dagrun_state(instance.dag_id, run_id)
        except AirflowRuntimeError as error:
            # Of an api-server that is away or fails, Airflow's supervisor says so by the same error (handle_requests).
            if (error.error.detail or {}).get("status_code") == HTTPStatus.NOT_FOUND:
                return ""  # the run was deleted
            log.warning("flow %s: Airflow does not report the state of run %s: %s", flow.name, run_id, error)
            return "running"
        return str(getattr(state, "value", state))  # an enum whose str() is not its value

    teller.close_left_open(context["run_id"], state_of)


def _teller(flow: Flow) -> LineageTeller | None:
    """Return what sends a flow's events; None where the provider is not there, switched off or cannot be set up."""
    if lacking("lineage"):
        log.info("flow %s: lineage is not sent: %s", flow.name, install_command("lineage"))
        return None
    try:
        return _configured(flow)
    except Exception:  # the configuration is the user's; what it lacks must not fail a window
        log.warning("flow %s: lineage is not sent: OpenLineage cannot be set up", flow.name, exc_info=True)
        return None


def _configured(flow: Flow) -> LineageTeller | None:
    from airflow.providers.openlineage import conf
    from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter

    from databus.ops.runs.lineage_events import LineageTeller

    if conf.is_disabled():
        return None
    # The adapter's own `emit` only logs what the transport refuses: then an event would count as sent.
    client = OpenLineageAdapter().get_or_create_openlineage_client()
    return LineageTeller(flow, AirflowConnections(), Settings.from_environment(), conf.namespace(), client.emit)


def _parent(flow: Flow, dag_run: Any, clear: int) -> str:
    from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter

    date = dag_run.logical_date or dag_run.run_after
    return str(OpenLineageAdapter.build_dag_run_id(dag_run.dag_id or flow.name, date, clear))


class LineageOfRun:
    """Mixin of the transfer operators: the provider emits START and one terminal event with these datasets."""

    flow: Flow

    def get_openlineage_facets_on_start(self) -> Any:
        """Return what the flow is declared to read and write."""
        from databus.ops.runs.lineage_events import declared_lineage

        return _operator_lineage(declared_lineage(self.flow, AirflowConnections()))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what the run's batches really read and wrote, with ranges and counts."""
        from databus.ops.runs.lineage_events import recorded_lineage

        return _operator_lineage(recorded_lineage(self.flow, AirflowConnections(), task_instance.run_id))

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        """Return what was committed before the failure."""
        return self.get_openlineage_facets_on_complete(task_instance)


def _operator_lineage(lineage: Any) -> Any:
    from airflow.providers.openlineage.extractors import OperatorLineage

    return OperatorLineage(
        inputs=list(lineage.inputs), outputs=list(lineage.outputs), run_facets=dict(lineage.run_facets)
    )


@contextmanager
def backfill_lineage(flow: Flow, context: Any) -> Iterator[None]:
    """Send lineage of a run that moves rows, under the name of its DAG; a scheduled one moves none, and has none."""
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
