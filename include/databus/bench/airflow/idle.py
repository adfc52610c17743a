"""Benchmark of an idle flow under a real Airflow: its tasks, Spark, and what Airflow does for it.

First Airflow is watched without flows, then with a live one, then with an economy one; both are woken by changes, of
which there are none. An economy flow's cost is that of its runs: how many there are, is for its `every` to say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from databus import Flow
from databus.bench.airflow.flows import AirflowFlows, airflow_options, write_dag_file
from databus.bench.airflow.freshness import live_flows
from databus.bench.loads import create_tables, tables_of
from databus.bench.log_files import log_writer
from databus.bench.options import AirflowIdleOptions
from databus.bench.processes import CpuMeter, fresh_servers, path_servers
from databus.bench.results import Result
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.connections.environment import EnvironmentConnections
from databus.core.errors.config import SandboxError
from databus.demo.airflow_api import AirflowApi
from databus.sandbox import Sandbox
from databus.sandbox.connections import airflow_connections

_FOUND_WITHIN_S = 600.0
_BEGUN_WITHIN_S = 900.0
_SETTLE_S = 75.0
"""Airflow reads a DAG file once a minute here, and watches for an unpaused flow's changes from then on."""
_WAKE_S = 60.0
_TASKS, _SCHEDULER, _SPARK = "tasks", "scheduler", "spark"


@dataclass(frozen=True)
class IdleCpu:
    """CPU seconds of a while.

    Attributes:
        minutes: how long it was.
        cpu_seconds: part → its CPU seconds: tasks, spark, and each process of Airflow.
        runs: runs of the flow that began.
    """

    minutes: float
    cpu_seconds: Mapping[str, float]
    runs: int = 0

    def a_minute(self, *parts: str) -> float:
        """Return the CPU seconds a minute of some parts, or of all."""
        return sum(self.cpu_seconds[part] for part in parts or self.cpu_seconds) / self.minutes


def run(options: AirflowIdleOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers and measure; nothing is written meanwhile.

    Raises:
        SandboxError: a server or a run failed, or a flow did not begin.
    """
    servers = path_servers(debezium=False)
    with fresh_servers(servers, say, ports_from, lambda home: airflow_options(home, 2, options.plugins)) as sandbox:
        return measure(sandbox, options, say)


def measure(sandbox: Sandbox, options: AirflowIdleOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers, to which Airflow comes."""
    tables = tables_of(2)
    with log_writer(sandbox, "mysql") as writer:
        create_tables(writer.connection, tables)
        live, other = live_flows(writer, tables)
    folder = sandbox.home / "dags"
    folder.mkdir()
    say("starting Airflow")
    sandbox.up(("airflow",))
    say(f"Airflow without flows, watched for {options.seconds} s")
    time.sleep(_SETTLE_S)
    bare = _watched(sandbox, options.seconds)
    with AirflowApi(sandbox.address("airflow")) as api:
        found: dict[str, IdleCpu] = {
            flow.mode: _of_flow(sandbox, api, flow, options, say)
            for flow in (live, other.model_copy(update={"mode": "economy"}))
        }
    settings = asdict(options) | {"plugins": options.plugins is not None, "wake_seconds": _WAKE_S}
    settings |= {"spark": "Connect, local[4]", "airflow": "LocalExecutor, SQLite, one flow at a time"}
    details = {mode: asdict(watched) for mode, watched in {"without flows": bare, **found}.items()}
    rounded = {key: round(value, 3) for key, value in figures(bare, found).items()}
    return Result("idle_airflow", rounded, (), settings, details, "live_cpu_seconds_per_minute")


def figures(bare: IdleCpu, found: Mapping[str, IdleCpu]) -> dict[str, float]:
    """Return what each mode costs over an Airflow without flows, in CPU seconds a minute and a run.

    Tasks are whole; Spark and Airflow's own processes are what they take more than without flows.
    """
    airflow = [part for part in bare.cpu_seconds if part not in {_TASKS, _SPARK}]
    told = {"airflow_without_flows_cpu_seconds_per_minute": bare.a_minute(*airflow)}
    for mode, watched in found.items():
        parts = {
            "tasks": watched.a_minute(_TASKS),
            "spark": watched.a_minute(_SPARK) - bare.a_minute(_SPARK),
            "airflow": watched.a_minute(*airflow) - bare.a_minute(*airflow),
        }
        told |= {f"{mode}_cpu_seconds_per_minute": sum(parts.values())}
        told |= {f"{mode}_{part}_cpu_seconds_per_minute": value for part, value in parts.items()}
        told[f"{mode}_runs"] = watched.runs
        if watched.runs:
            told[f"{mode}_cpu_seconds_per_run"] = sum(parts.values()) * watched.minutes / watched.runs
    return told


def _of_flow(
    sandbox: Sandbox, api: AirflowApi, flow: Flow, options: AirflowIdleOptions, say: Callable[[str], None]
) -> IdleCpu:
    """Give Airflow the flow, watch it once it goes on by itself, and let it end."""
    write_dag_file(sandbox.home / "dags", flow, options.every_seconds, wake_s=_WAKE_S)
    api.wait_for((flow.name,), _FOUND_WITHIN_S)
    with AirflowFlows(sandbox, api, (flow.name,)).going():
        say(f"waiting for the first run of an idle {flow.mode} flow")
        _until_begun(sandbox, flow.name)
        time.sleep(_SETTLE_S)
        say(f"an idle {flow.mode} flow, watched for {options.seconds} s")
        before = {run["dag_run_id"] for run in api.runs(flow.name)}
        watched = _watched(sandbox, options.seconds)
        runs = {run["dag_run_id"] for run in api.runs(flow.name)} - before
    return IdleCpu(watched.minutes, watched.cpu_seconds, len(runs))


def _until_begun(sandbox: Sandbox, name: str) -> None:
    connections = EnvironmentConnections(airflow_connections(sandbox.status()))
    deadline = time.monotonic() + _BEGUN_WITHIN_S
    with ZooKeeperCheckpoints.open(connections.get("zookeeper_default")) as store:
        while store.load(name) is None:
            if time.monotonic() > deadline:
                raise SandboxError(f"{name} does not begin")
            time.sleep(1)


def _watched(sandbox: Sandbox, seconds: int) -> IdleCpu:
    processes = sandbox.status_of("airflow").processes
    meters = {name: CpuMeter([pid]) for name, pid in processes.items()}
    spark, began = CpuMeter([sandbox.status_of("spark").pid or 0]), time.monotonic()
    time.sleep(seconds)
    minutes = (time.monotonic() - began) / 60
    # Tasks are processes that the scheduler's local executor begins.
    own = meters[_SCHEDULER].of_roots()
    used = {name: meter.seconds() for name, meter in meters.items()}
    used |= {_SCHEDULER: own, _TASKS: used[_SCHEDULER] - own, _SPARK: spark.seconds()}
    return IdleCpu(minutes, {name: round(value, 3) for name, value in used.items()})
