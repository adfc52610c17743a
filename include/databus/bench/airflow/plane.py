"""Live and economy flows side by side under a real Airflow: how fresh each class is, and what all of it costs.

A row is written into each flow's own table at a steady pace, the first of each within the run, however short; it is
fresh when a read_committed reader has it. All flows read one MySQL, whose log they share, as an installation's would.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from databus.bench.airflow.flow_freshness import FlowClass, FlowRows, table
from databus.bench.log_files import LogWriter, log_writer
from databus.bench.options import DagFilesOptions, PlaneOptions
from databus.bench.processes import CpuMeter, fresh_servers
from databus.bench.results import Bar, Result
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.connections.environment import EnvironmentConnections
from databus.core.errors.batch import ReconciliationError
from databus.core.errors.config import SandboxError
from databus.demo.airflow_api import AirflowApi
from databus.sandbox import Sandbox, SandboxOptions
from databus.sandbox.connections import airflow_connections, postgres_url

_FIRST = ("zookeeper", "kafka", "mysql", "postgres")
_THEN = ("spark", "airflow")
_READY_WITHIN_S = 3600.0
_ARRIVED_WITHIN_S = 900.0
_FILE = '''"""A flow of the bench."""

from datetime import timedelta

from databus import Flow, Kafka, MysqlBinlog
from databus.airflow import flow_dag

flow = Flow(
    name={name!r},
    source=MysqlBinlog(conn_id="mysql_shop", tables=("plane.{name}",), start={start!r}),
    sinks=(Kafka(conn_id="kafka_east", topic={name!r}, tombstones=False),),
    mode={mode!r},
)
dag = flow_dag(flow, every=timedelta(minutes={every}), wake=timedelta(seconds={wake}), backfill_every=None)
'''


BARS = (
    Bar("live_p99_s", at_most=5),
    Bar("economy_max_s", at_most=120),
    Bar("live_flows_without_row", at_most=0),
    Bar("economy_flows_without_row", at_most=0),
    Bar("rows_missing", at_most=0),
)
"""Twice and more of what 5 live and 195 economy flows took on two cores (docs/benchmarks.md); no row may be missing."""


def run(options: PlaneOptions, say: Callable[[str], None], plugins: Path, ports_from: int = 22_000) -> Result:
    """Start the servers and measure.

    Args:
        options: sizes.
        say: called with what is being done.
        plugins: folder of further Airflow plugins; Databus's own registers by its entry point.
        ports_from: free ports are taken from this number on.

    Raises:
        ReconciliationError: a row came twice.
        SandboxError: a server failed, or a flow did not begin.
    """
    live = _class("live", "live", options.live, options.live_row_seconds)
    economy = _class("economy", "eco", options.economy, options.economy_row_seconds)
    classes = [flows for flows in (live, economy) if flows.flows]
    with ExitStack() as stack:
        first = stack.enter_context(fresh_servers(_FIRST, say, ports_from))
        writer = stack.enter_context(log_writer(first, "mysql"))
        dags = first.home / "dags"
        dags.mkdir()
        _write_flows(writer, dags, classes, options)
        sandbox = Sandbox(first.home, ports_from, _options(options, dags, plugins, first))
        say(f"starting {', '.join(_THEN)}")
        sandbox.up(_THEN)
        names = [name for flows in classes for name in flows.flows]
        say(f"waiting for the first run of {len(names)} flows")
        began = time.monotonic()
        _until_all_began(sandbox, names)
        figures = {"all_began_seconds": time.monotonic() - began}
        say(f"{options.minutes:g} minutes of rows")
        figures |= _measured(sandbox, writer, classes, options)
    for flows in classes:
        figures |= flows.figures()
        for line in flows.lines():
            say(line)
    rounded = {key: round(value, 3) for key, value in figures.items()}
    settings = {name: getattr(options, name) for name in options.__dataclass_fields__}
    headline = "live_p50_s" if live.flows else "economy_p50_s"
    return Result("plane", rounded, BARS, settings, {"database": "postgresql", "flows": table(classes)}, headline)


def _class(mode: str, prefix: str, flows: int, every_s: float) -> FlowClass:
    return FlowClass(mode, every_s, {f"{prefix}_{n:03}": FlowRows() for n in range(1, flows + 1)})


def _options(options: PlaneOptions, dags: Path, plugins: Path, first: Sandbox) -> SandboxOptions:
    url = postgres_url(first.status_of("postgres"))
    environment = {
        "AIRFLOW__CORE__PARALLELISM": str(options.parallelism),
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": str(DagFilesOptions.processes),
        "AIRFLOW__CORE__DEFAULT_POOL_TASK_SLOT_COUNT": str(options.parallelism),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": url,
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    }
    # A live flow holds a task slot, and two at the hand-over; economy flows share the rest.
    slots = 2 * options.live + 2
    return SandboxOptions(
        spark_master=f"local[{slots}]", dags_folder=dags, plugins_folder=plugins.absolute(), airflow_env=environment
    )


def _write_flows(writer: LogWriter, dags: Path, classes: Sequence[FlowClass], options: PlaneOptions) -> None:
    writer.run("CREATE DATABASE plane")
    for flows in classes:
        for name in flows.flows:
            writer.run(f"CREATE TABLE plane.{name} (id BIGINT AUTO_INCREMENT PRIMARY KEY, sent_us BIGINT NOT NULL)")
    file, position = writer.run("SHOW MASTER STATUS")[0][:2]
    for flows in classes:
        live = flows.mode == "live"
        for name in flows.flows:
            text = _FILE.format(
                name=name, start=f"{file}:{position}", mode=flows.mode,
                every=1 if live else 60, wake=0 if live else options.wake_seconds,
            )  # fmt: skip
            (dags / f"{name}.py").write_text(text, encoding="utf-8")


def _until_all_began(sandbox: Sandbox, names: Sequence[str]) -> None:
    connections = EnvironmentConnections(airflow_connections(sandbox.status()))
    deadline, missing = time.monotonic() + _READY_WITHIN_S, set(names)
    with ZooKeeperCheckpoints.open(connections.get("zookeeper_default")) as store:
        while missing:
            missing = {name for name in missing if store.load(name) is None}
            if time.monotonic() > deadline:
                with AirflowApi(sandbox.address("airflow")) as api:
                    errors = api.import_errors()
                raise SandboxError(f"{len(missing)} flows have not begun, such as {min(missing)}: {errors[:1]}")
            time.sleep(1)


def _measured(
    sandbox: Sandbox, writer: LogWriter, classes: Sequence[FlowClass], options: PlaneOptions
) -> dict[str, float]:
    meter = CpuMeter(pid for server in sandbox.status() if server.name in _THEN for pid in server.processes.values())
    began = time.monotonic()
    rows = {name: flow for flows in classes for name, flow in flows.flows.items()}
    with _reading(sandbox.address("kafka"), rows):
        _write(writer, classes, options.minutes * 60)
        seconds, cpu, memory = time.monotonic() - began, meter.seconds(), meter.peak_rss_mb()
        deadline = time.monotonic() + _ARRIVED_WITHIN_S
        while any(flow.missing for flow in rows.values()) and time.monotonic() < deadline:
            time.sleep(0.5)
        time.sleep(2)  # what comes twice comes now
    if twice := {name: flow.repeated for name, flow in rows.items() if flow.repeated}:
        raise ReconciliationError(f"{sum(twice.values())} rows came twice, of {', '.join(twice)}")
    missing = sum(flow.missing for flow in rows.values())
    return {"cpu_cores": cpu / seconds, "memory_mb": memory, "rows_missing": missing}


def _write(writer: LogWriter, classes: Sequence[FlowClass], seconds: float) -> None:
    """Insert rows flow by flow, each class at its pace, until the time is over."""
    began = time.monotonic()
    due = [(at, flows, name) for flows in classes for at, name in flows.due(seconds)]
    while (following := min(due, key=lambda entry: entry[0], default=None)) is not None and following[0] < seconds:
        at, flows, name = following
        time.sleep(max(0.0, began + at - time.monotonic()))
        writer.run(f"INSERT INTO plane.{name} (sent_us) VALUES (%s)", time.time_ns() // 1000)  # noqa: S608 - our names
        flows.flows[name].sent += 1
        due[due.index(following)] = (at + flows.every_s, flows, name)


@contextmanager
def _reading(bootstrap: str, flows: Mapping[str, FlowRows]) -> Iterator[None]:
    """Read all flows' topics and note each row's delay.

    The topics are made here: a group that finds new ones is assigned anew, and reads again what it had read.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin: Any = AdminClient({"bootstrap.servers": bootstrap})
    there = admin.list_topics(timeout=30).topics
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in flows if name not in there]).values():
        made.result()
    done = threading.Event()
    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "databus-bench-plane", "isolation.level": "read_committed",
            "enable.auto.commit": False, "fetch.wait.max.ms": 10,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING) for name in flows])

    def read() -> None:
        while not done.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None and message.value() is not None:
                row = json.loads(message.value())["after"]
                flows[message.topic()].arrived(int(row["id"]), time.time() - int(row["sent_us"]) / 1e6)

    thread = threading.Thread(target=read, name="bench-reader")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        consumer.close()
