"""Metric names: the table, the document and what is emitted say the same (dashboards: test_charts.py)."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from databus.core.alerts.alert import AlertKind
from databus.core.alerts.flow_status import FlowFigures, RecentBatches, RejectedRows
from databus.core.positions.lag import Headroom, PartitionLag
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.core.state.snapshot_progress import progress_of
from databus.observe.alerts.rules import AlertWhen
from databus.observe.batch_points import of_batch, of_window, point
from databus.observe.metric_names import METRICS, TASK_METRICS
from databus.observe.prometheus import of_flow, render
from databus.records.activity import summed
from tests.contract.record_samples import report, report_of_chunks

ROOT = Path(__file__).parents[3]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROW = re.compile(
    r"^\| `(?P<name>databus[\w.]+)` \| (?P<kind>\w+) \| (?P<labels>[^|]*) \| (?P<text>[^|]+) \|$", re.MULTILINE
)
FIGURES = FlowFigures(
    "orders", NOON, committed="5", head="9", lag_seconds=1.5, lag_bytes=10, lag_rows=2, epoch=7, batch=4, gaps=(),
    headroom=Headroom(100.0, 10, "bin.1", 1000), quarantine_rows=0, quarantine_new=0,
    quality_violations=5, quality_passed=True,
    rejected={"search": RejectedRows(1, 59)},
    committed_at=NOON - timedelta(seconds=3), last_run_at=NOON, behind=(), paused="by ann",
    unreachable={"records": "no"},
    recent=RecentBatches(2, 10, 100, 2.0, {"0.5": 0.1, "0.95": 0.2, "0.99": 0.2}, {"plan": 0.01}, 0.4),
)  # fmt: skip


def test_the_document_lists_every_metric_as_the_code_has_it() -> None:
    rows = {m["name"]: m for m in ROW.finditer((ROOT / "docs/metrics.md").read_text())}
    assert {name: (m["kind"], m["labels"].strip(), m["text"].strip()) for name, m in rows.items()} == {
        name: (str(metric.kind), ", ".join(metric.labels), metric.text)
        for metric in METRICS
        for name in [metric.name if metric in TASK_METRICS else metric.prometheus]
    }


def test_every_alert_kind_has_a_runbook() -> None:
    for kind in AlertKind:
        text = (ROOT / f"docs/runbooks/{kind}.md").read_text()
        assert text.startswith("# "), kind
        assert "## What to do" in text, kind


def test_prometheus_text() -> None:
    text = render(of_flow(FIGURES))
    assert '# TYPE databus_lag_seconds gauge\ndatabus_lag_seconds{flow="orders"} 1.5\n' in text
    assert 'databus_delay_seconds{flow="orders",quantile="0.95"} 0.2' in text
    assert 'databus_recent_rows_per_second{flow="orders"} 5' in text
    assert 'databus_headroom_low{flow="orders"} 0' in text
    assert 'databus_quality_violations{flow="orders"} 5' in text
    assert 'databus_quality_failed{flow="orders"} 0' in text
    assert 'databus_unreachable{flow="orders",what="records"} 1' in text
    assert '# TYPE databus_lease_claims_total counter\ndatabus_lease_claims_total{flow="orders"} 7' in text
    sample = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? (-?[\d.e+-]+|NaN|[+-]Inf)')
    for line in text.splitlines():
        assert line.startswith("# ") or sample.fullmatch(line), line
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_a_snapshot_shows_its_state_and_how_far_it_is() -> None:
    tables = (TableProgress("shop.orders", "reading", ("4",), 1, 50, 10, 100), TableProgress("shop.items", estimate=20))
    read = Snapshot(2, "request", NOON, tables)

    def shown(snapshot: Snapshot) -> dict[str, str]:
        text = render(of_flow(FlowFigures("orders", NOON, snapshot=progress_of(snapshot, NOON + timedelta(seconds=6)))))
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    assert shown(read) == {
        'databus_snapshot_state{flow="orders",state="reading"}': "1",
        'databus_snapshot_rows{flow="orders"}': "60",
        'databus_snapshot_rows_left{flow="orders"}': "60",
        'databus_snapshot_tables_left{flow="orders"}': "2",
        'databus_snapshot_rows_per_second{flow="orders"}': "10",
        'databus_snapshot_seconds_left{flow="orders"}': "6",
    }
    held, over = shown(replace(read, paused=True)), shown(replace(read, finished_at=NOON + timedelta(seconds=3)))
    assert held['databus_snapshot_state{flow="orders",state="paused"}'] == "1"
    assert over['databus_snapshot_state{flow="orders",state="finished"}'] == "1"
    assert (
        over['databus_snapshot_rows_left{flow="orders"}'] == over['databus_snapshot_tables_left{flow="orders"}'] == "0"
    )
    assert not [name for name in (*held, *over) if "per_second" in name or "seconds_left" in name]


def test_a_batch_with_chunks_says_how_far_the_snapshot_is() -> None:
    given = {
        p.metric.name: p.value for p in of_batch(report_of_chunks()) if p.metric.name.startswith("databus.snapshot")
    }
    assert given == {"databus.snapshot.rows": 4, "databus.snapshot.rows_left": 11, "databus.snapshot.tables_left": 2}
    assert not [p for p in of_batch(report()) if p.metric.name.startswith("databus.snapshot")]


def test_lag_of_partitions() -> None:
    lags = (PartitionLag("t", 0, 0, 0.0), PartitionLag("t", 1, 4, None, held_back=7))
    text = render(of_flow(FlowFigures("orders", NOON, partitions=lags)))
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'databus_partition_lag_records{flow="orders",partition="0",topic="t"} 0',
        'databus_partition_lag_records{flow="orders",partition="1",topic="t"} 4',
        'databus_partition_lag_seconds{flow="orders",partition="0",topic="t"} 0',
        'databus_partition_held_back_records{flow="orders",partition="0",topic="t"} 0',
        'databus_partition_held_back_records{flow="orders",partition="1",topic="t"} 7',
    ]


def test_what_is_not_known_is_not_shown() -> None:
    assert render(of_flow(FlowFigures("orders", NOON))) == ""
    assert "lag_seconds" not in render(of_flow(replace(FIGURES, lag_seconds=None)))


def test_labels_are_escaped() -> None:
    assert render([point("unreachable", 1, flow='a"\\\n', what="x")]).endswith('{flow="a\\"\\\\\\n",what="x"} 1\n')


def test_a_name_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(KeyError):
        point("no_such", 1)
    with pytest.raises(KeyError, match="labels"):
        point("lag_seconds", 1, table="x")


def test_a_window_gives_what_is_known() -> None:
    points = of_window({"flow": "orders", "lag_seconds": None, "lag_bytes": 5, "headroom_seconds": None, "batches": 2})
    assert [(p.metric.name, p.value) for p in points] == [
        ("databus.window.lag_bytes", 5),
        ("databus.window.batches", 2),
    ]


def test_thresholds_have_the_words_of_the_metrics() -> None:
    assert {"lag_seconds", "lag_rows", "lag_bytes", "headroom_seconds"} <= AlertWhen().stored().keys()


def batch(at_s: float, rows: int, delay_s: float | None, run: str = "r1", **stages: float) -> Any:
    at = NOON + timedelta(seconds=at_s)
    mark = None if delay_s is None else at - timedelta(seconds=delay_s)
    return SimpleNamespace(committed_at=at, rows=rows, bytes=rows * 10, watermark=mark, durations_ms=stages, run_id=run)


def test_quantiles_weigh_batches_by_rows() -> None:
    found = summed(
        [batch(0, 94, 0.1, plan=10.0), batch(1, 4, 1.0, plan=30.0), batch(4, 2, 9.0, "r2"), batch(5, 0, 99.0)]
    )
    assert found.delay_seconds == {"0.5": pytest.approx(0.1), "0.95": pytest.approx(1.0), "0.99": pytest.approx(9.0)}
    assert (found.batches, found.rows, found.seconds) == (4, 100, 5.0)
    assert found.stage_seconds == {"plan": pytest.approx(0.02)}
    assert found.handover_seconds == pytest.approx((3.0 + 1.0) / 2)


def test_no_batches_say_nothing() -> None:
    assert summed([]) == RecentBatches()
    assert summed([batch(0, 5, None), batch(500, 5, None, "r2")]).handover_seconds is None
