"""The transfer task on a warm Spark Connect server: one window of micro-batches."""

from __future__ import annotations

import signal
import threading
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.sdk import BaseOperator

from databus.airflow.connections import AirflowConnections
from databus.airflow.operators.process import only_warnings_of_libraries
from databus.airflow.operators.task import airflow_outcome, run_identity
from databus.airflow.reporting.lineage import LineageOfRun, window_lineage
from databus.airflow.reporting.metrics import emit, emit_batch
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.former_names import seconds_of_former
from databus.runtime.drain import Drain

GRACE_S = 3.5
"""Airflow's supervisor sends SIGKILL 5 s after SIGTERM (`ActivitySubprocess.kill`); the rest is for closing."""


class DrainDeadlineError(DatabusError):
    """The batch in hand was given up; it is taken up again from its plan."""

    code = "drain_deadline"
    retryable = True


class DrainDeadline:
    """Raises DrainDeadlineError in the main thread, some time after `start`, if its block still runs then."""

    def __init__(self) -> None:
        self._inside = False

    def start(self) -> None:
        """Start the clock; nothing outside the block, where there is nothing to give up."""
        if self._inside and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, self._give_up)
            signal.setitimer(signal.ITIMER_REAL, GRACE_S)

    def __enter__(self) -> DrainDeadline:
        self._inside = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside = False

    def _give_up(self, _number: int, _frame: FrameType | None) -> None:
        if self._inside:
            raise DrainDeadlineError(
                f"the batch in hand was not finished {GRACE_S:g} s after the cancel and is given up",
                hint="The next run takes its plan up again; nothing is lost or repeated.",
            )


class TransferOperator(LineageOfRun, BaseOperator):
    """Takes the flow's lease and moves micro-batches through Spark Connect until the window ends.

    SIGTERM, a cancel or a cleared task drains: the batch in hand is finished, the lease and the dump are released.
    Airflow kills a cancelled task after 5 seconds: a batch that needs longer is given up before that, its plan stays.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        window: how long it moves rows at most, e.g. timedelta(minutes=5); default one minute.
        conn_id: the Spark Connect connection, e.g. "spark_east"; default "spark_connect_default".
        window_s: former name of `window`, in seconds; default None.
        **options: further arguments of an operator, e.g. task_id="transfer".
    """

    ui_color = "#d7f5dd"

    def __init__(
        self,
        *,
        flow: Flow,
        window: timedelta = timedelta(minutes=1),
        conn_id: str = "spark_connect_default",
        window_s: float | None = None,
        **options: Any,
    ) -> None:
        if window_s is not None:
            window = seconds_of_former(type(self).__name__, "window_s", "window", window_s)
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
