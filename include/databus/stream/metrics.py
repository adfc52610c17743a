"""Metrics of the stream service in Prometheus' text format (Prometheus, "Exposition formats", version 0.0.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

METRICS: Mapping[str, tuple[str, str]] = {
    "databus_stream_requests_total": ("counter", "Requests by route and HTTP status."),
    "databus_stream_written_records_total": ("counter", "Records that were acknowledged to writers."),
    "databus_stream_written_bytes_total": ("counter", "Bytes of bodies that were acknowledged to writers."),
    "databus_stream_write_seconds_total": ("counter", "Seconds that acknowledged requests took, together."),
    "databus_stream_repeated_requests_total": ("counter", "Requests that had been written before."),
    "databus_stream_read_records_total": ("counter", "Records that were sent to readers."),
    "databus_stream_redelivered_records_total": ("counter", "Records that were sent again after a deadline."),
    "databus_stream_dropped_connections_total": (
        "counter",
        "Connections that were closed: no request came (silent), or an answer was not taken (unread).",
    ),
    "databus_stream_requests_now": ("gauge", "Requests under way."),
    "databus_stream_waiting_bytes": ("gauge", "Bytes of bodies under way."),
    "databus_stream_answer_bytes": ("gauge", "Bytes of answers that are being sent."),
    "databus_stream_producers": ("gauge", "Producer ids that are known."),
    "databus_stream_producers_used_ratio": (
        "gauge",
        "Share of the producer ids that the fullest lane may know; at 1 new ids are refused.",
    ),
    "databus_stream_consumers": ("gauge", "Consumers that are known."),
    "databus_stream_fenced_lanes": ("gauge", "Lanes that another instance has taken over."),
}
"""Name → type and help."""


class StreamMetrics:
    """Counters of a service, and its gauges as they are when asked for."""

    def __init__(self) -> None:
        self._counters: Counter[tuple[str, str]] = Counter()

    def count(self, name: str, number: float = 1, **labels: str) -> None:
        """Add to a counter, named without "databus_stream_" and "_total"; each label has few values."""
        text = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        self._counters[f"databus_stream_{name}_total", f"{{{text}}}" if text else ""] += number  # type: ignore[assignment]

    def text(self, gauges: Mapping[str, float]) -> str:
        """Return all of them; `gauges` by name without "databus_stream_"."""
        return "\n".join([*self._lines(gauges), ""])

    def _lines(self, gauges: Mapping[str, float]) -> Iterator[str]:
        for name, (kind, text) in METRICS.items():
            yield f"# HELP {name} {text}"
            yield f"# TYPE {name} {kind}"
            if kind == "gauge":
                yield f"{name} {gauges[name.removeprefix('databus_stream_')]:g}"
            else:
                found = {labels: value for (counter, labels), value in self._counters.items() if counter == name}
                yield from (f"{name}{labels} {value:.15g}" for labels, value in sorted(found.items() or [("", 0)]))
