"""Flows that a real Airflow runs, window after window, on a sandbox's servers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from databus import Flow
from databus.bench.processes import CpuMeter
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.connections.environment import EnvironmentConnections
from databus.core.errors.config import SandboxError
from databus.core.times import SystemClock
from databus.demo.airflow_api import AirflowApi
from databus.sandbox import Sandbox, SandboxOptions
from databus.sandbox.connections import airflow_connections

_WITHIN_S = 600.0
_AT_WORK = frozenset({"queued", "running", "restarting"})
_LOOK_S = 1.0
_LOGGED = 3_000
_FILE = '''"""A flow of a benchmark."""

from datetime import timedelta

from databus.airflow import {dag}
from databus.registry import flow_from_json

flow = flow_from_json({flow!r})
dag = {dag}(flow, every=timedelta(seconds={window_s}), backfill_every=None, is_paused_upon_creation=True{wake})
'''


def airflow_options(home: Path, flows: int, plugins: Path | None) -> SandboxOptions:
    """Return the options of a sandbox whose Airflow and Spark have room for so many live flows.

    Around a hand-over a flow has two transfers, each of which holds a Spark task slot, and a preflight or an audit.

    Args:
        home: of the sandbox; the DAG files lie in it.
        flows: live flows.
        plugins: Airflow's plugins; None for none.
    """
    environment = {
        "DATABUS_INSTALLATION": "bench",
        "DATABUS_SEGMENT_STORE": str(home / "segments"),
        "AIRFLOW__CORE__PARALLELISM": str(4 * flows + 4),
        # The sandbox reads all files every 5 seconds, which takes much of a core.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
    }
    return SandboxOptions(
        spark_master=f"local[{2 * flows}]", dags_folder=home / "dags", plugins_folder=plugins, airflow_env=environment
    )


class AirflowFlows:
    """The flows of one sandbox; made by `airflow_flows`."""

    def __init__(self, sandbox: Sandbox, api: AirflowApi, names: Sequence[str]) -> None:
        self._sandbox, self._api, self._names = sandbox, api, names

    def meters(self) -> Mapping[str, CpuMeter]:
        """Return meters of Spark's and of Airflow's processes; tasks are the scheduler's."""
        airflow = self._sandbox.status_of("airflow").processes
        spark = self._sandbox.status_of("spark").pid or 0
        return {"spark": CpuMeter([spark]), **{name: CpuMeter([pid]) for name, pid in airflow.items()}}

    def require_well(self) -> None:
        """Look at the newest runs.

        Raises:
            SandboxError: a task failed; the message holds the end of its log.
        """
        for name in self._names:
            for run in self._api.runs(name):
                if run["state"] == "failed":
                    raise SandboxError(f"{name}: run {run['dag_run_id']} failed: {self._log(name, run['dag_run_id'])}")

    @contextmanager
    def going(self) -> Iterator[None]:
        """Let Airflow run the flows; at the end pause flows and DAGs, and wait until nothing moves any more.

        A window ends with the batch in hand when its flow is paused. Airflow starts no task of a paused DAG: the audits
        of the last runs stay for the next turn.
        """
        self._pause(paused=False)
        try:
            yield
        finally:
            self._pause(paused=True)
        deadline = time.monotonic() + _WITHIN_S
        while any(self._moving(name) for name in self._names):
            if time.monotonic() > deadline:
                raise SandboxError(f"runs of {', '.join(self._names)} do not end")
            time.sleep(_LOOK_S)
        self.require_well()

    def _pause(self, *, paused: bool) -> None:
        connections = EnvironmentConnections(airflow_connections(self._sandbox.status()))
        with ZooKeeperCheckpoints.open(connections.get("zookeeper_default"), SystemClock()) as store:
            for name in self._names:
                self._api.pause(name, paused=paused)
                if store.load(name) is None:  # there is nothing to pause before its first run
                    continue
                (store.pause if paused else store.resume)(name, "bench", "a turn ends" if paused else "a turn begins")

    def _moving(self, name: str) -> bool:
        runs = [run["dag_run_id"] for run in self._api.runs(name) if run["state"] in {"queued", "running"}]
        return any(task["state"] in _AT_WORK for run in runs for task in self._api.tasks(name, run).values())

    def _log(self, dag: str, run: str) -> str:
        tasks = self._api.tasks(dag, run)
        failed = [name for name, task in tasks.items() if task["state"] == "failed"]
        return "; ".join(
            f"{name}: {self._api.log(dag, run, name, tasks[name]['try_number'])[-_LOGGED:]}" for name in failed
        )


def write_dag_file(folder: Path, flow: Flow, window_s: int, dag: str = "flow_dag", wake_s: float | None = None) -> None:
    """Write the DAG file of a flow, paused; see `airflow_flows`. With `wake_s`, changes begin runs so far apart."""
    wake = "" if wake_s is None else f", wake=timedelta(seconds={wake_s:g})"
    text = _FILE.format(dag=dag, flow=flow.to_json(), window_s=window_s, wake=wake)
    (folder / f"{flow.name}.py").write_text(text, encoding="utf-8")


@contextmanager
def airflow_flows(
    sandbox: Sandbox, flows: Sequence[Flow], window_s: int, dag: str = "flow_dag"
) -> Iterator[AirflowFlows]:
    """Write DAG files of flows and start Airflow, with connections to all servers of the sandbox; the flows are paused.

    Args:
        sandbox: made with `airflow_options`.
        flows: live flows.
        window_s: seconds from one run of a flow to the next.
        dag: what makes the DAG of a flow: "flow_dag" or "mirror_dag".

    Raises:
        SandboxError: Airflow did not start, or did not find the flows.
    """
    folder = sandbox.home / "dags"
    folder.mkdir()
    for flow in flows:
        write_dag_file(folder, flow, window_s, dag)
    sandbox.up(("airflow",))
    names = [flow.name for flow in flows]
    with AirflowApi(sandbox.address("airflow")) as api:
        api.wait_for(names, _WITHIN_S)
        yield AirflowFlows(sandbox, api, names)
