"""A flow's metrics through Airflow's own Stats: StatsD or OpenTelemetry, by Airflow's settings."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from databus.core.batches.report import BatchReport
from databus.observe.batch_points import Point, of_batch
from databus.observe.metric_names import MetricKind

log = logging.getLogger(__name__)


def emit_batch(report: BatchReport) -> None:
    """Emit what a committed batch says; never fails it."""
    emit(of_batch(report))


def emit(points: Iterable[Point]) -> None:
    """Emit points; what goes wrong with that is logged."""
    from databus.airflow.moved import stats

    try:
        plain = not _tags_travel()
        for point in points:
            name = ".".join([point.metric.name, *_words(point)]) if plain else point.metric.name
            tags = None if plain else dict(point.labels)
            if point.metric.kind is MetricKind.COUNTER:
                stats.incr(name, round(point.value), tags=tags)
            elif point.metric.kind is MetricKind.GAUGE:
                stats.gauge(name, point.value, tags=tags)
            else:
                stats.timing(name, point.value, tags=tags)
    except Exception:
        log.exception("metrics were not emitted")


def _tags_travel() -> bool:
    """Return whether the metrics system takes tags: plain StatsD drops them, and all flows would be one."""
    from databus.airflow.moved import conf

    if not conf.getboolean("metrics", "statsd_on", fallback=False):
        return True
    known = ("statsd_datadog_enabled", "statsd_influxdb_enabled")
    return any(conf.getboolean("metrics", name, fallback=False) for name in known)


def _words(point: Point) -> list[str]:
    """Return a point's labels as parts of a name."""
    return ["".join(c if c.isalnum() or c in "_-" else "_" for c in point.labels[name]) for name in point.metric.labels]
