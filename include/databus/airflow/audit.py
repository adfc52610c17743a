"""The audit task: do the run's counts reconcile with the committed history, and what does its quality say."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from databus.airflow.connections import AirflowConnections
from databus.airflow.failures import airflow_outcome
from databus.airflow.identity import run_identity
from databus.airflow.links import DataDocsLink
from databus.airflow.task_logs import only_warnings_of_libraries
from databus.core.flow import Flow


class AuditOperator(BaseOperator):
    """Reconciles a run and stores one Great Expectations result over all its batches.

    A failing audit alerts; it neither moves nor blocks the checkpoint. One that passes gives an asset event for each
    output that rows were written to (`output_asset`), so that downstream DAGs start on audited data.
    """

    ui_color = "#fff4d6"
    operator_extra_links = (DataDocsLink(),)

    def __init__(self, *, flow: Flow, **options: Any) -> None:
        from databus.airflow.assets import outputs_alias

        super().__init__(outlets=[outputs_alias(flow), *options.pop("outlets", ())], **options)
        self.flow = flow
        self.data_docs = ""

    def execute(self, context: Any) -> dict[str, Any]:
        """Audit the run and return its figures."""
        from databus.ops.audit import audit_run
        from databus.ops.services import open_services

        only_warnings_of_libraries()
        with airflow_outcome(), open_services(self.flow, AirflowConnections()) as services:
            result = audit_run(self.flow, services, run_identity(context).run_id)
            self.data_docs = result.quality.data_docs
            for line in result.lines():
                self.log.info("%s", line)
            result.require_passed()
            self._emit_assets(context, services.settings.records_url)
        return result.to_json()

    def _emit_assets(self, context: Any, records_url: str) -> None:
        from databus.airflow.assets import emit

        started = getattr(context.get("dag_run"), "start_date", None)
        emit(self.flow, records_url, run_identity(context).run_id, started, context["outlet_events"])
