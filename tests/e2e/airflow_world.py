"""A running Airflow with flows of the tests' own, driven as an operator's script would: by REST."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pymysql

from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.connections.environment import EnvironmentConnections
from databus.core.times import SystemClock
from databus.demo.airflow_api import AirflowApi
from databus.demo.consumers import topic_records
from databus.demo.oracle import ConsumedTopic, fold
from databus.demo.shop import ShopWriter
from databus.sandbox import Sandbox
from databus.sandbox.accounts import ROOT
from databus.sandbox.connections import airflow_connections
from tests.integration.shop_flow import assert_arrived_once, writing

FLOW_FILE = """
from datetime import timedelta

from databus import Batching, DropColumns, Flow, Kafka, MysqlBinlog, NotNull
from databus.airflow import flow_dag

flow = Flow(
    name={name!r},
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.*",), start="earliest"),
    transforms=(DropColumns("card_number", tables=("shop.orders",)),),
    checks=(NotNull("email", tables=("shop.customers",)),),
    sinks=(Kafka(conn_id="kafka_east", topic={name!r}, **{sink!r}),),
    batching=Batching(max_rows={max_rows}),
    mode={mode!r},
)
dag = flow_dag(
    flow, {runs}=timedelta(seconds={every_s}), engine={engine!r}, default_args={{"retry_delay": timedelta(seconds=1)}},
    backfill_every=timedelta(seconds={backfill_s}), **{options!r},
)
"""


def flow_file(
    folder: Path,
    name: str,
    engine: str = "connect",
    max_rows: int = 5000,
    every_s: float | None = None,
    backfill_s: float = 86_400,
    tasks: str | None = "separate",
    **sink: Any,
) -> None:
    """Write a DAG file of a flow that runs on schedule once unpaused; without `every_s` when it is triggered only.

    The latter's runs end when they have caught up: in standard mode each would wait for a successor that never comes.
    They have three tasks, or with `tasks=None` the one that is their default.
    """
    triggered = {"schedule": None, "tasks": tasks}
    options = triggered if every_s is None else {"is_paused_upon_creation": True}
    mode = "economy" if every_s is None else "standard"
    text = FLOW_FILE.format(
        name=name,
        engine=engine,
        max_rows=max_rows,
        runs="window" if every_s is None else "every",
        every_s=every_s or 60,
        backfill_s=backfill_s,
        sink=sink,
        options=options,
        mode=mode,
    )
    (folder / f"{name}.py").write_text(text)


def until(what: str, look: Callable[[], Any], within_s: float = 240, pause_s: float = 0.0) -> Any:
    """Look until there is something, and return it; the longer it takes, the less often, unless a pause is given.

    Most looks ask the API server, whose answer takes a thirtieth of a second of CPU.
    """
    began = time.monotonic()
    while not (found := look()):
        waited = time.monotonic() - began
        assert waited < within_s, f"in vain: {what}"
        time.sleep(pause_s or min(1.5, 0.5 + waited / 20))
    return found


@dataclass(frozen=True)
class Run:
    """A DAG run."""

    api: AirflowApi
    dag: str
    run_id: str

    def task(self, name: str) -> dict[str, Any]:
        return self.api.tasks(self.dag, self.run_id)[name]

    def reaches(self, task: str, *states: str) -> dict[str, Any]:
        """Wait until a task is in one of the states."""

        def look() -> dict[str, Any] | None:
            found = self.task(task)
            ended = found["state"] in {"success", "failed", "upstream_failed"}
            assert not (ended and found["state"] not in states), self.describe(task, found)
            return found if found["state"] in states else None

        found: dict[str, Any] = until(f"{self.dag}.{task} {states}", look)
        return found

    def retries(self, task: str) -> dict[str, Any]:
        """Wait until a task's first attempt has failed and another is due or under way."""
        seen = until(f"{self.dag}.{task} retries", lambda: (t := self.task(task))["try_number"] > 1 or _due(t))
        assert seen
        return self.task(task)

    def succeeds(self) -> Run:
        """Wait until the whole run is over, and well."""
        until(f"{self.dag} ends", lambda: self.api.run(self.dag, self.run_id)["state"] in {"success", "failed"})
        for name, task in self.api.tasks(self.dag, self.run_id).items():
            assert task["state"] in {"success", "upstream_failed"}, self.describe(name, task)
        return self

    def log(self, task: str, attempt: int | None = None) -> str:
        return self.api.log(self.dag, self.run_id, task, attempt or self.task(task)["try_number"])

    def describe(self, name: str, task: dict[str, Any]) -> str:
        log = self.log(name) if task["try_number"] else ""
        return f"{self.dag}.{name} is {task['state']} after {task['try_number']} attempts\n{log[-3000:]}"

    def process(self, task: str = "transfer") -> psutil.Process:
        """Return the process that runs a task's code, not the supervisor above it."""
        title = f"airflow worker -- {self.task(task)['id']}"

        def look() -> psutil.Process | None:
            for process in psutil.process_iter(["cmdline"]):
                # Titles are cut to the length that the command line had.
                shown = " ".join(process.info["cmdline"] or ()).strip()
                if len(shown) > len("airflow worker -- ") + 16 and title.startswith(shown):
                    return process
            return None

        found: psutil.Process = until(f"process of {self.dag}.{task}", look, 30)
        return found


def _due(task: dict[str, Any]) -> bool:
    return task["state"] == "up_for_retry"


@dataclass
class AirflowWorld:
    """The servers, Airflow, and one shop that all flows read from the start of the log."""

    sandbox: Sandbox
    home: Path
    dags: Path
    api: AirflowApi
    connection: pymysql.connections.Connection[Any]
    writer: ShopWriter

    def knows(self, names: set[str]) -> None:
        """Wait until Airflow has read the files of these DAGs."""

        def look() -> bool:
            errors = self.api.import_errors()
            assert not errors, errors
            return names <= set(self.api.dags())

        until(f"DAGs {names} are known", look)

    def trigger(self, dag: str, conf: dict[str, Any] | None = None) -> Run:
        return Run(self.api, dag, self.api.trigger(dag, conf))

    def runs(self, dag: str) -> list[dict[str, Any]]:
        return self.api.runs(dag)

    def tasks(self, dag: str, *names: str) -> list[dict[str, Any]]:
        """Return the tasks of all runs of a DAG, or those of some names."""
        found = [t for run in self.runs(dag) for t in self.api.tasks(dag, run["dag_run_id"]).values()]
        return [t for t in found if not names or t["task_id"] in names]

    def writing(self) -> AbstractContextManager[None]:
        """Change the shop until the block ends."""
        return writing(self.writer, 5, 0.5)

    @contextmanager
    def store(self) -> Iterator[ZooKeeperCheckpoints]:
        """The checkpoint store, as any other client sees it."""
        connections = EnvironmentConnections(airflow_connections(self.sandbox.status()))
        with ZooKeeperCheckpoints.open(connections.get("zookeeper_default"), SystemClock()) as store:
            yield store

    def shell(self, **values: str) -> dict[str, str]:
        """Return the environment of a shell on Airflow's host: what the API server runs with, and some values."""
        server = psutil.Process(self.sandbox.status_of("airflow").processes["api-server"]).environ()
        programs = os.pathsep.join((str(Path(sys.executable).parent), server["PATH"]))
        return {**server, "PATH": programs, **values}

    def in_mid_batch(self, flow: str) -> None:
        """Wait until a plan is in flight."""
        with self.store() as store:
            until(f"{flow} begins a batch", lambda: store.pending_plan(flow), pause_s=0.1)

    def claimable(self, flow: str, within_s: float) -> None:
        """Claim the lease and give it back."""
        with self.store() as store:
            store.claim(flow, "test", within_s).release()

    def no_dump_is_left(self) -> None:
        """Wait until the server has no thread that sends its log."""

        def look() -> bool:
            with self.connection.cursor() as cursor:
                cursor.execute("SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
                return bool(cursor.fetchone()[0] == 0)

        until("no dump thread", look, 30)

    def catch_up(self, flow: str, run: Run | None = None) -> Run:
        """Run the flow until it has nothing left to move, and judge what arrived.

        A `run` that was under way when the last change was made, and is over, may have done that already.
        """
        deadline = time.monotonic() + 240
        while run is None or "lag 0 bytes" not in run.log("transfer"):
            assert time.monotonic() < deadline, f"in vain: {flow} catches up"
            run = self.trigger(flow).succeeds()
        self.assert_all_arrived_once(flow)
        return run

    def has_all(self, topic: str) -> bool:
        """Tell whether every change has arrived; how, is for `assert_all_arrived_once`."""
        seen = fold(topic_records(self.sandbox.address("kafka"), topic))
        return seen.messages >= sum(self.writer.written.changes.values())

    def assert_all_arrived_once(self, topic: str) -> ConsumedTopic:
        seen = fold(topic_records(self.sandbox.address("kafka"), topic))
        assert_arrived_once(self.connection, self.writer.written, seen)
        return seen

    def lineage_events(self) -> list[dict[str, Any]]:
        """Return all OpenLineage events, in the order of their sending."""
        lines = (self.home / "airflow" / "openlineage.ndjson").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def lineage(self, job: str, run_id: str) -> list[dict[str, Any]]:
        """Return the OpenLineage events of a task in a run, oldest first."""
        mine = [e for e in self.lineage_events() if e["job"]["name"] == job]
        return [e for e in mine if e["run"]["facets"]["airflow"]["dagRun"]["run_id"] == run_id]


def shop_connection(sandbox: Sandbox) -> pymysql.connections.Connection[Any]:
    host, port = sandbox.address("mysql").split(":")
    return pymysql.connect(
        host=host, port=int(port), user=ROOT.user, password="", autocommit=True, charset="utf8mb4",
        init_command="SET time_zone='+00:00'",
    )  # fmt: skip
