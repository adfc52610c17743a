"""The transfer task as a Spark application of its own, for clusters without Connect and for large catch-ups."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from databus.airflow.connections import AirflowConnections
from databus.airflow.moved import AirflowException, AirflowFailException, AirflowSkipException
from databus.airflow.operators.submit_hook import DrainingSubmitHook
from databus.airflow.operators.task import airflow_outcome, run_identity
from databus.airflow.reporting.lineage import LineageOfRun, window_lineage
from databus.connections.environment import environment_of
from databus.core.flow import Flow
from databus.core.former_names import seconds_of_former

SPARK_CONF = {
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
}
"""Settings the path relies on: a second copy of a writer task would only be fenced, and times are UTC. Spark's own
INFO lines would bury those that say what moved."""


class SubmitTransferOperator(LineageOfRun, SparkSubmitOperator):
    """Runs `jobs/micro_batch.py` with spark-submit: the same path as TransferOperator, cold started.

    Connections and settings travel in the environment of spark-submit, never on its command line. So a driver in
    cluster deploy mode finds them in its own environment (AIRFLOW_CONN_ and DATABUS_ variables of the cluster).
    A cancel drains the driver; the driver outlives a killed task, and ends when the next run waits for the lease.

    The job file is `$DATABUS_JOBS/micro_batch.py` where that is set (a URI that the cluster reads, in cluster mode),
    else the one of the source tree, else, where databus is installed as a wheel, a file written for the run.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        window: how long it moves rows at most, e.g. timedelta(minutes=5); default one minute.
        conn_id: the Spark connection, e.g. "spark_yarn"; default "spark_default".
        conf: further settings of Spark, e.g. {"spark.executor.memory": "4g"}; default none.
        window_s: former name of `window`, in seconds; default None.
        **options: further arguments of SparkSubmitOperator, e.g. task_id="transfer".
    """

    ui_color = "#d7f5dd"

    def __init__(
        self,
        *,
        flow: Flow,
        window: timedelta = timedelta(minutes=1),
        conn_id: str = "spark_default",
        conf: dict[str, str] | None = None,
        window_s: float | None = None,
        **options: Any,
    ) -> None:
        if window_s is not None:
            window = seconds_of_former(type(self).__name__, "window_s", "window", window_s)
        super().__init__(conn_id=conn_id, name=f"databus-{flow.name}", conf={**SPARK_CONF, **(conf or {})}, **options)
        self.flow = flow
        self.window_s = window.total_seconds()

    def execute(self, context: Any) -> None:
        """Start the application and wait for it; its log lines become the task's.

        Raises:
            AirflowException: the application ended so that a retry may help.
            AirflowSkipException: a person has paused the flow.
        AirflowFailException: it ended with an error that only a person can mend.
        """
        from databus.ops.runs.submit import EXIT_PAUSED, EXIT_REFUSED

        identity = run_identity(context)
        self.application_args = [
            "--flow",
            json.dumps(self.flow.to_json()),
            "--run-id",
            identity.run_id,
            "--run-url",
            identity.run_url,
            "--window-seconds",
            str(self.window_s),
        ]
        with airflow_outcome():
            environment = self._environment()
        self.env_vars = None  # the provider would put them on the command line of YARN and Kubernetes
        self._hook = hook = DrainingSubmitHook.of(self._get_hook(), environment)
        with window_lineage(self.flow, context), _job_file() as file:
            self.application = file
            try:
                super().execute(context)
            except AirflowException as error:
                if hook.exit_code == EXIT_PAUSED:
                    raise AirflowSkipException(f"flow {self.flow.name} is paused: see the log above") from error
                if hook.exit_code == EXIT_REFUSED:
                    raise AirflowFailException(f"flow {self.flow.name}: see the ERROR line above") from error
                raise

    def on_kill(self) -> None:
        """Drain the driver; what runs in a cluster is stopped as the provider does it."""
        self.log.warning("asked to stop: the driver finishes the batch in hand, then releases the lease")
        if not isinstance(self._hook, DrainingSubmitHook) or not self._hook.drain():
            super().on_kill()

    def _environment(self) -> dict[str, str]:
        """Return what the driver needs beside this process's environment."""
        from databus.core.settings import Settings

        source, settings = AirflowConnections(), Settings.from_environment()
        pairs = (*self.flow.source.conn_ids(), *(pair for sink in self.flow.sinks for pair in sink.conn_ids()))
        conn_ids = {conn_id for conn_id, _ in pairs} | {self.flow.zookeeper_conn_id}
        given: Mapping[str, Any] = self.env_vars or {}
        return {
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            "PYSPARK_DRIVER_PYTHON": os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable),
            "DATABUS_INSTALLATION": settings.installation,
            "DATABUS_SEGMENT_STORE": settings.segment_store,
            "DATABUS_RECORDS_URL": settings.records_url,
            **environment_of(source.get(conn_id) for conn_id in sorted(conn_ids)),
            **{name: str(value) for name, value in given.items()},
        }


@contextmanager
def _job_file() -> Iterator[str]:
    """Give the path of the job file while the block runs."""
    if folder := os.environ.get("DATABUS_JOBS"):
        yield f"{folder.rstrip('/')}/micro_batch.py"
        return
    checkout = Path(__file__).resolve().parents[4] / "jobs" / "micro_batch.py"
    if checkout.is_file():
        yield str(checkout)
        return
    with TemporaryDirectory(prefix="databus-job-") as temporary:
        file = Path(temporary) / "micro_batch.py"
        file.write_text("import sys\n\nfrom databus.ops.runs.submit import main\n\nsys.exit(main(sys.argv[1:]))\n")
        yield str(file)
