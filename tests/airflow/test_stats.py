"""A flow's metrics through Airflow's own Stats: to an OpenTelemetry collector, and to StatsD, which has no tags."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk._shared.observability.metrics import stats  # configures logging, which would shut caplog out later

from databus.airflow.reporting.metrics import emit_batch
from databus.observe.batch_points import of_batch, of_window
from databus.observe.metric_names import TASK_METRICS
from tests.contract.record_samples import report, report_of_chunks

ROOT = Path(__file__).parents[2]
WINDOW = {"flow": "orders_to_kafka", "lag_seconds": 0.5, "lag_bytes": 7, "headroom_seconds": 99.0, "batches": 1}
TASK = f"""
from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

# As airflow.sdk.execution_time.task_runner does it for a task.
stats.initialize(
    factory=stats_utils.get_stats_factory(),
    export_legacy_names=conf.getboolean("metrics", "legacy_names_on", fallback=True),
)
from databus.airflow.reporting.metrics import emit, emit_batch
from databus.observe.batch_points import of_window
from tests.contract.record_samples import report, report_of_chunks

emit_batch(report())
emit_batch(report(2))
emit_batch(report_of_chunks())
emit(of_window({WINDOW!r}))
if conf.getboolean("metrics", "otel_on"):
    from opentelemetry import metrics

    metrics.get_meter_provider().force_flush()
    metrics.get_meter_provider().shutdown()
"""
FLOW_NAMES = "airflow.databus."


def run_task(home: Path, **settings: str) -> None:
    """Emit as a task of Airflow does, in a process of its own, by Airflow's settings."""
    environment = {**os.environ, "AIRFLOW_HOME": str(home), **settings}
    done = subprocess.run(
        [sys.executable, "-c", TASK], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@contextmanager
def collector() -> Iterator[tuple[int, list[bytes]]]:
    """Run what an OpenTelemetry collector is to an exporter: OTLP over HTTP."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_address[1], bodies
        finally:
            server.shutdown()
            thread.join()


def test_a_collector_gets_every_metric_with_its_labels(tmp_path: Path) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    with collector() as (port, bodies):
        run_task(
            tmp_path,
            AIRFLOW__METRICS__OTEL_ON="True",
            AIRFLOW__METRICS__OTEL_HOST="127.0.0.1",
            AIRFLOW__METRICS__OTEL_PORT=str(port),
            OTEL_EXPORTER_OTLP_METRICS_PROTOCOL="http/protobuf",
        )
    seen: dict[str, list[tuple[dict[str, str], Any]]] = {}
    for body in bodies[-1:]:  # sums and gauges are cumulative
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    data = getattr(metric, metric.WhichOneof("data"))
                    seen[metric.name] = [
                        ({a.key: a.value.string_value for a in p.attributes}, p) for p in data.data_points
                    ]
    for metric in TASK_METRICS:
        points = seen[f"airflow.{metric.name}"]
        assert all(set(labels) == set(metric.labels) for labels, _ in points), metric.name
    ((labels, rows),) = seen["airflow.databus.rows.read"]
    assert labels == {"flow": "orders_to_kafka"}
    assert (rows.as_double or rows.as_int) == sum(c.read for c in report().tables.values()) * 2 + 9
    ((_, delay),) = seen["airflow.databus.batch.delay"]
    assert (delay.count, delay.sum) == (2, pytest.approx(2000.0))
    assert {labels["stage"] for labels, _ in seen["airflow.databus.batch.stage"]} == {"plan", "read"}


def test_plain_statsd_gets_the_documented_names_with_labels_behind_them(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        run_task(
            tmp_path,
            AIRFLOW__METRICS__STATSD_ON="True",
            AIRFLOW__METRICS__STATSD_HOST="127.0.0.1",
            AIRFLOW__METRICS__STATSD_PORT=str(receiver.getsockname()[1]),
        )
        sent = datagrams(receiver)
    assert f"{FLOW_NAMES}rows.read.orders_to_kafka:12|c" in sent
    assert f"{FLOW_NAMES}window.lag_bytes.orders_to_kafka:7.0|g" in sent
    assert f"{FLOW_NAMES}check.violations.orders_to_kafka.not_null_email_.quarantine:1|c" in sent
    documented, letters = documented_metrics(), {"counter": "c", "timer": "ms", "gauge": "g"}
    seen = set()
    for datagram in sent:
        name, letter = datagram.partition(":")[0], datagram.rpartition("|")[2]
        (metric,) = {m for m, (_, labels) in documented.items() if is_of(name, m, labels)}
        assert letter == letters[documented[metric][0]], datagram
        seen.add(metric)
    assert seen == set(documented)


def datagrams(receiver: socket.socket) -> list[str]:
    """Return what lies in the socket; whoever sent it has ended."""
    receiver.setblocking(False)
    found: list[str] = []
    try:
        while True:
            found.append(receiver.recv(65_536).decode())
    except BlockingIOError:
        return [line for line in found if line.startswith(FLOW_NAMES)]


def documented_metrics() -> dict[str, tuple[str, list[str]]]:
    """Return name → kind and labels of what tasks emit, as docs/metrics.md says it."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    part = text[text.index("## From tasks") : text.index("## From `databus watch`")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if "`databus." in line]
    return {row[0].strip("`"): (row[1], row[2].split(", ")) for row in rows if row[0].startswith("`databus.")}


def is_of(sent: str, metric: str, labels: list[str]) -> bool:
    """Tell whether a name is a metric's behind Airflow's prefix, with as many words as it has labels."""
    words = sent.removeprefix(f"airflow.{metric}.")
    return words != sent and words.count(".") == len(labels) - 1


def test_a_metrics_system_that_fails_harms_no_batch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stats, "_backend", object())
    emit_batch(report())
    assert "metrics were not emitted" in caplog.text


def test_a_batch_and_a_window_give_every_task_metric() -> None:
    given = {p.metric.name for p in (*of_batch(report()), *of_batch(report_of_chunks()), *of_window(WINDOW))}
    assert given == {metric.name for metric in TASK_METRICS}
