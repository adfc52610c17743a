"""`databus watch` as a process of its own: alerts, /metrics and /health with Airflow dead, and with ZooKeeper dead."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import AlertWhen
from databus.observe.metric_names import WATCH_METRICS
from databus.ops.health.airflow import AirflowHealth
from databus.ops.health.watch import FlowWatch
from databus.sandbox.connections import airflow_connections
from tests.integration.conftest import World
from tests.integration.test_alerts import Told, told  # noqa: F401 - a fixture
from tests.unit.observe.receivers import answering

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SAMPLE = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)")


@dataclass
class Watching:
    """A running watchdog."""

    port: int
    process: subprocess.Popen[str]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def samples(self) -> dict[tuple[str, str], float]:
        _, text = self.get("/metrics")
        found = (SAMPLE.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))
        return {(m["name"], m["labels"] or ""): float(m["value"]) for m in found if m}


def until(what: str, look: Callable[[], Any], within_s: float = 240) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.2)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def watching(world: World, dags: Path, *options: str) -> Iterator[Watching]:
    port = free_port()
    command = (sys.executable, "-m", "databus.cli.main", "watch", "--dags", str(dags), "--every", "1")
    environment = {
        **os.environ,
        **airflow_connections(world.sandbox.status()),
        **world.environment,
        "DATABUS_RECORDS_URL": world.settings.records_url,
        "DATABUS_SEGMENT_STORE": world.settings.segment_store,
        "DATABUS_INSTALLATION": world.settings.installation,
        "DATABUS_SANDBOX": str(dags / "none"),
    }
    with subprocess.Popen(
        [*command, "--listen", f"127.0.0.1:{port}", *options], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Watching(port, process)
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=120)
            assert process.returncode == 0, said


def first_round(watch: Watching) -> bool:
    assert watch.process.poll() is None
    try:
        return watch.get("/health")[0] == 200
    except OSError:
        return False


def test_with_airflow_dead_it_alerts_once_and_shows_every_figure(told: Told, tmp_path: Path) -> None:  # noqa: F811
    told.flow = told.flow.model_copy(
        update={"alerts": (AlertWhen(lag_bytes=500, no_run=timedelta(minutes=0.05)), *told.flow.alerts[1:])}
    )
    told.shop.flow = told.flow
    told.shop.writer.run(20)
    told.shop.world.run(told.flow)
    told.shop.writer.run(60)
    told.shop.dag_file(tmp_path)
    (tmp_path / "broken.py").write_text("import databus\nraise ValueError('no')\n")
    dead = f"http://127.0.0.1:{free_port()}"
    wanted = {("lag", "raised"), ("no_run", "raised"), ("airflow", "raised")}
    with watching(told.world, tmp_path, "--airflow", dead) as watch, watching(told.world, tmp_path, "--airflow", dead):
        until("the first round", lambda: first_round(watch))
        until("all alerts", lambda: wanted <= set(told.posted))
        rounds = watch.samples()["databus_watch_rounds_total", ""]
        until("more rounds", lambda: watch.samples()["databus_watch_rounds_total", ""] > rounds + 2)
        samples = watch.samples()
        status, text = watch.get("/health")
        assert watch.get("/nothing")[0] == 404
        assert sorted(told.posted) == sorted(wanted)  # two watchdogs, many rounds: each once
        told.shop.world.run(told.flow)
        until("lag is over", lambda: ("lag", "recovered") in told.posted)
    flow = told.flow.name
    mine = f'flow="{flow}"'
    assert samples["databus_lag_bytes", mine] > 500
    assert samples["databus_alerts", f'{mine},kind="lag"'] == 1
    assert samples["databus_airflow_healthy", 'component="api-server"'] == 0
    assert samples["databus_watch_flows", ""] == samples["databus_watch_broken_files", ""] == 1
    shown = {name for name, _ in samples}
    assert shown <= {metric.prometheus for metric in WATCH_METRICS}
    for name in ("lag_seconds", "headroom_bytes", "checkpoint_age_seconds", "last_run_age_seconds", "gaps",
                 "quarantine_rows", "delay_seconds", "stage_seconds", "lease_claims_total"):  # fmt: skip
        assert f"databus_{name}" in shown
    said = json.loads(text)
    assert status == 200
    assert said["flows"] == [flow]
    assert "broken.py" in said["problems"][0]
    subjects = [s for s in told.subjects if "lag" in s]
    assert [s.split(":")[0] for s in subjects] == [f"[WARNING] {flow}", f"[OK] {flow}"]


def test_with_zookeeper_dead_it_says_so_once(told: Told, tmp_path: Path) -> None:  # noqa: F811
    lost = told.world.override(
        "zookeeper_default", port=free_port(), extra={"connect_timeout_s": 1, "operation_timeout_s": 1}
    )
    told.shop.flow = told.flow.model_copy(update={"zookeeper_conn_id": lost})
    told.shop.dag_file(tmp_path)
    with watching(told.world, tmp_path) as watch:
        until("the first round", lambda: first_round(watch))
        until("it is told", lambda: told.posted)
        rounds = watch.samples()["databus_watch_rounds_total", ""]
        until("more rounds", lambda: watch.samples()["databus_watch_rounds_total", ""] > rounds + 2)
        assert watch.samples()["databus_unreachable", f'flow="{told.flow.name}",what="checkpoint store"'] == 1
    assert told.posted == [("unreachable", "raised")]
    assert "checkpoint store does not answer" in told.subjects[0]


def test_a_mistyped_zookeeper_of_the_first_flow_leaves_airflow_to_the_next(told: Told, tmp_path: Path) -> None:  # noqa: F811
    """Watchdogs remember in the ZooKeeper of the first flow whose own is there: one tells what another has not."""
    told.shop.dag_file(tmp_path)
    (tmp_path / "mistyped.py").write_text(
        "from databus import Flow, Mock, Noop, Webhook\n"
        'flow = Flow(name="a", source=Mock(rows=1), sinks=(Noop(),), zookeeper_conn_id="zookeper_default",\n'
        '            alerts=(Webhook(conn_id="alerts_hook", kinds=("airflow",)),))\n'
    )

    def rounds(address: str) -> None:
        watch = FlowWatch(tmp_path, told.world.connections, told.world.settings, AirflowHealth(address))
        try:
            assert [watch.round().number for _ in range(2)] == [1, 2]
        finally:
            watch.close()

    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as port:
        rounds(f"http://127.0.0.1:{port}")  # whatever an earlier test left on is over
        before = len(told.posted)
        for _ in range(2):
            rounds(f"http://127.0.0.1:{free_port()}")
        rounds(f"http://127.0.0.1:{port}")
    on_airflow = [event for kind, event in told.posted[before:] if kind == "airflow"]
    assert on_airflow == ["raised", "recovered"]
