"""A flow's metrics through Airflow's own Stats: to an OpenTelemetry collector, and to StatsD, which has no tags."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from databus.airflow.metrics import emit, emit_batch
from databus.observe.batch_points import of_batch, of_window
from databus.observe.metric_names import TASK_METRICS
from tests.contract.record_samples import report

ROOT = Path(__file__).parents[2]
WINDOW = {"flow": "orders_to_kafka", "lag_seconds": 0.5, "lag_bytes": 7, "headroom_seconds": 99.0, "batches": 1}
TASK = f"""
from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from opentelemetry import metrics

# As airflow.sdk.execution_time.task_runner does it for a task.
stats.initialize(
    factory=stats_utils.get_stats_factory(),
    export_legacy_names=conf.getboolean("metrics", "legacy_names_on", fallback=True),
)
from databus.airflow.metrics import emit, emit_batch
from databus.observe.batch_points import of_window
from tests.contract.record_samples import report

emit_batch(report())
emit_batch(report(2))
emit(of_window({WINDOW!r}))
metrics.get_meter_provider().force_flush()
metrics.get_meter_provider().shutdown()
"""


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
        environment = {
            **os.environ,
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__METRICS__OTEL_ON": "True",
            "AIRFLOW__METRICS__OTEL_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__OTEL_PORT": str(port),
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf",
        }
        done = subprocess.run(
            [sys.executable, "-c", TASK], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
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
    assert (rows.as_double or rows.as_int) == sum(c.read for c in report().tables.values()) * 2
    ((_, delay),) = seen["airflow.databus.batch.delay"]
    assert (delay.count, delay.sum) == (2, pytest.approx(2000.0))
    assert {labels["stage"] for labels, _ in seen["airflow.databus.batch.stage"]} == {"plan", "read"}


class Plain:
    """A client of plain StatsD: names and values, no tags."""

    def __init__(self) -> None:
        self.sent: dict[str, float] = {}

    def incr(self, name: str, count: int = 1, rate: float = 1, *, tags: Any = None) -> None:
        assert tags is None
        self.sent[name] = self.sent.get(name, 0) + count

    def gauge(self, name: str, value: float, rate: float = 1, delta: bool = False, *, tags: Any = None) -> None:
        assert tags is None
        self.sent[name] = value

    timing = gauge


def test_plain_statsd_gets_labels_as_part_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk._shared.observability.metrics import stats

    plain = Plain()
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    monkeypatch.setattr(stats, "_backend", plain)
    emit_batch(report())
    emit(of_window(WINDOW))
    assert plain.sent["databus.rows.read.orders_to_kafka"] == 12
    assert plain.sent["databus.window.lag_bytes.orders_to_kafka"] == 7
    assert plain.sent["databus.check.violations.orders_to_kafka.not_null_email_.quarantine"] == 1


def test_a_metrics_system_that_fails_harms_no_batch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from airflow.sdk._shared.observability.metrics import stats

    monkeypatch.setattr(stats, "_backend", object())
    emit_batch(report())
    assert "metrics were not emitted" in caplog.text


def test_a_batch_and_a_window_give_every_task_metric() -> None:
    given = {p.metric.name for p in (*of_batch(report()), *of_window(WINDOW))}
    assert given == {metric.name for metric in TASK_METRICS}
