"""The audit task: do the run's counts reconcile with the committed history, and what does its quality say."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from databus.airflow.connections import AirflowConnections
from databus.airflow.links import DataDocsLink, served_docs
from databus.airflow.operators.process import only_warnings_of_libraries
from databus.airflow.operators.task import airflow_outcome, run_identity
from databus.core.flow import Flow


class AuditOfRun:
    """Mixin of the operators that audit a run once its rows have moved; the alias of outputs is among their outlets."""

    flow: Flow
    log: Any
    data_docs = ""
    operator_extra_links = (DataDocsLink(),)

    def audited(self, context: Any) -> dict[str, Any]:
        """Audit the run, give way meanwhile to flows that move rows, and return the run's figures.

        Raises:
            AirflowFailException: counts do not reconcile, or the quality result fails the run.
        """
        from databus.airflow.operators.process import giving_way

        only_warnings_of_libraries()
        with giving_way():
            return self._audit(context)

    def _audit(self, context: Any) -> dict[str, Any]:
        from databus.airflow.assets import emit
        from databus.ops.runs.audit import audit_run
        from databus.ops.services import open_services

        with airflow_outcome(), open_services(self.flow, AirflowConnections()) as services:
            who = run_identity(context)
            started = getattr(context.get("dag_run"), "start_date", None)
            result = audit_run(self.flow, services, who.run_id, started, who.run_url)
            self.data_docs = served_docs(result.quality.data_docs, who.run_url)
            for line in result.lines():
                self.log.info("%s", line)
            result.require_passed()
            emit(self.flow, services.settings.records_url, who.run_id, started, context["outlet_events"])
        return result.to_json()


class AuditOperator(AuditOfRun, BaseOperator):
    """Reconciles a run and stores one Great Expectations result over all its batches.

    A failing audit alerts; it neither moves nor blocks the checkpoint, and it gives way to flows that move rows on the
    same machine: Great Expectations alone takes seconds of CPU to import. One that passes gives an asset event for each
    output that rows were written to (`output_asset`), so that downstream DAGs start on audited data.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        **options: further arguments of an operator, e.g. task_id="audit".
    """

    ui_color = "#fff4d6"

    def __init__(self, *, flow: Flow, **options: Any) -> None:
        super().__init__(outlets=with_outputs(flow, options), **options)
        self.flow = flow

    def execute(self, context: Any) -> dict[str, Any]:
        """Audit the run and return its figures."""
        return self.audited(context)


def with_outputs(flow: Flow, options: dict[str, Any]) -> list[Any]:
    """Take the outlets out of an operator's options and return them with those of the flow."""
    from databus.airflow.assets import outputs_alias

    return [outputs_alias(flow), *options.pop("outlets", ())]
