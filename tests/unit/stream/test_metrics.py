"""Metrics of the stream service, and that the page names each."""

from __future__ import annotations

from pathlib import Path

from databus.stream.metrics import METRICS, StreamMetrics

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "stream-over-http.md"


def test_counters_and_gauges_are_printed_with_help_and_type() -> None:
    metrics = StreamMetrics()
    metrics.count("requests", route="write", status="200")
    metrics.count("requests", route="write", status="200")
    metrics.count("write_seconds", 0.25)
    gauges = {name.removeprefix("databus_stream_"): 3.0 for name, (kind, _) in METRICS.items() if kind == "gauge"}
    lines = metrics.text(gauges).splitlines()
    assert 'databus_stream_requests_total{route="write",status="200"} 2' in lines
    assert "databus_stream_write_seconds_total 0.25" in lines
    assert "databus_stream_read_records_total 0" in lines
    assert "databus_stream_producers 3" in lines
    assert len([line for line in lines if line.startswith("# TYPE ")]) == len(METRICS)


def test_the_page_names_each() -> None:
    text = PAGE.read_text()
    assert all(f"| `{name}` | {kind} | {help_} |" in text for name, (kind, help_) in METRICS.items())
