"""The transfer task on a warm Spark Connect server: one window of micro-batches."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.sdk import BaseOperator

from databus.airflow.connections import AirflowConnections
from databus.airflow.operators.drain_deadline import DrainDeadline
from databus.airflow.operators.failures import airflow_outcome
from databus.airflow.operators.identity import run_identity
from databus.airflow.operators.task_logs import only_warnings_of_libraries
from databus.airflow.reporting.lineage import LineageOfRun, window_lineage
from databus.airflow.reporting.metrics import emit, emit_batch
from databus.core.flow import Flow
from databus.core.former_names import seconds_of_former
from databus.runtime.drain import Drain


class TransferOperator(LineageOfRun, BaseOperator):
    """Takes the flow's lease and moves micro-batches through Spark Connect until the window ends.

    SIGTERM, a cancel or a cleared task drains: the batch in hand is finished, the lease and the dump are released.
    Airflow kills a cancelled task after 5 seconds: a batch that needs longer is given up before that, its plan stays.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        window: how long it moves rows at most, e.g. timedelta(minutes=5); default one minute.
        conn_id: the Spark Connect connection, e.g. "spark_east"; default "spark_connect_default".
        **options: further arguments of an operator, e.g. task_id="transfer".
    """

    ui_color = "#d7f5dd"

    def __init__(
        self,
        *,
        flow: Flow,
        window: timedelta = timedelta(minutes=1),
        conn_id: str = "spark_connect_default",
        **options: Any,
    ) -> None:
        if "window_s" in options:
            window = seconds_of_former(type(self).__name__, "window_s", "window", options.pop("window_s"))
        super().__init__(**options)
        self.flow = flow
        self.window_s = window.total_seconds()
        self.conn_id = conn_id
        self._drain = Drain()
        self._deadline = DrainDeadline()

    def execute(self, context: Any) -> dict[str, Any]:
        """Run the window and return what moved; the same figures are in the log."""
        return self.moved(context)

    def moved(self, context: Any) -> dict[str, Any]:
        """Do what `execute` does, for an operator that does more than this."""
        from databus.observe.batch_points import of_window
        from databus.ops.runs.run import run_flow
        from databus.ops.services import open_services
        from databus.runtime.spark.session import connect_session
        from databus.runtime.window_limits import WindowControl, WindowLimits

        only_warnings_of_libraries()
        limits = WindowLimits.of_a_run(self.window_s, self.flow.mode)
        control = WindowControl(limits, self._drain, emit_batch)
        with (
            window_lineage(self.flow, context),
            airflow_outcome(),
            self._deadline,
            open_services(self.flow, AirflowConnections()) as services,
        ):
            spark = connect_session(
                SparkConnectHook(self.conn_id).get_connection_url(),
                f"{services.settings.installation}/{self.flow.name}",
            )
            result = run_flow(self.flow, services, spark, run_identity(context), control)
        emit(of_window(result.summary()))
        return result.summary()

    def on_kill(self) -> None:
        """Drain; Airflow calls this from its SIGTERM handler."""
        self.log.warning("asked to stop: finishing the batch in hand, then releasing the lease")
        self._drain.request()
        self._deadline.start()
