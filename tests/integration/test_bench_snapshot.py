"""The snapshot benchmark at its smallest size: rows are counted in the topic, and the stream is timed meanwhile."""

from __future__ import annotations

from contextlib import closing

import pytest

from databus.bench.options import SnapshotBenchOptions, ValidateBenchOptions
from databus.bench.our_path import OurPath
from databus.bench.snapshots import stream_lag, throughput, validation
from tests.integration.conftest import Started

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

SMALL = SnapshotBenchOptions(
    rows=20_000, warm_up=1_000, batch_rows=5_000, writes_per_second=200, before_s=1.0, debezium=False
)

VALIDATED = ValidateBenchOptions(rows=10_000, batch_rows=5_000, minutes=0.05, writes_per_second=200)


def test_each_row_is_counted_and_the_stream_is_timed(started: Started) -> None:
    sandbox, said = started("zookeeper", "kafka", "mysql", "spark"), list[str]()
    with closing(OurPath(sandbox)) as ours:
        result = throughput.measure(sandbox, ours, SMALL, said.append)
        valid = validation.measure(sandbox, ours, VALIDATED, said.append)
    (turn,) = result.details["ours"]
    arrived = turn["arrived"]
    assert (arrived["records"], arrived["keys"], arrived["reads"], arrived["strays"]) == (20_000, 20_000, 20_000, 0)
    assert turn["details"]["batches"] >= 4
    assert result.figures["rows_per_second"] == pytest.approx(20_000 / turn["seconds"], rel=0.01)
    assert result.figures["worker_peak_rss_mb"] > 50
    assert any("20,000 records of 20,000 keys" in line for line in said)
    assert valid.details["at_rest"]["keys"] == ('{"id":5000}',)
    assert (valid.figures["false_alarms"], valid.figures["source_rows_read_per_row"]) == (0, pytest.approx(1, abs=0.01))
    assert valid.figures["validations_under_writes"] >= 1

    lag = stream_lag.measure(sandbox, SMALL, said.append)
    before, under = lag.details["ours"]
    assert (under["lost"], under["repeated"]) == (0, 0)
    assert before["rows"] == 100
    assert under["rows"] >= 200
    assert 0 < lag.figures["p50_s"] <= lag.figures["p99_s"] <= lag.figures["max_s"]
