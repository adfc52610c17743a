"""Results of the snapshot benchmarks: ratios over rounds, what arrived, and the delays under a snapshot."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from databus.bench.loads import Load
from databus.bench.options import SnapshotBenchOptions
from databus.bench.results import Result
from databus.bench.snapshots.debezium import completed, incremental_settings, initial_settings
from databus.bench.snapshots.stream_lag import SideLag, written_until
from databus.bench.snapshots.tables import TopicCount, TopicCounter
from databus.bench.snapshots.throughput import BARS, SnapshotRun, compared, peaks, require_each_row
from databus.bench.turns import SideRun
from databus.core.errors import ReconciliationError, SandboxError

EACH_ONCE = TopicCount(records=1000, keys=1000, reads=1000, strays=0, value_bytes=5000)


def turn(seconds: float, cpu: float, rss: float = 100, mysql: float = 1.0) -> SnapshotRun:
    return SnapshotRun(1000, seconds, cpu, rss, {"mysql": mysql, "kafka": 9.0}, EACH_ONCE)


def test_ours_is_over_each_of_the_peers() -> None:
    found = compared(
        {
            "ours": [turn(2, 4, rss=300, mysql=2)],
            "debezium_initial": [turn(6, 20)],
            "debezium_incremental": [turn(12, 40, rss=900)],
        }
    )
    assert (found["rows_per_second"], found["rows_per_cpu_second"]) == (500, 250)
    assert (found["ratio_to_debezium_initial"], found["ratio_to_debezium_incremental"]) == pytest.approx((3, 6))
    assert found["ratio_to_debezium_initial_rows_per_cpu_second"] == pytest.approx(5)
    assert found["ratio_to_debezium_incremental_rows_per_cpu_second"] == pytest.approx(10)
    assert (found["worker_peak_rss_mb"], found["debezium_incremental_peak_rss_mb"]) == (300, 900)
    assert found["mysql_cpu_seconds_per_million_rows"] == 2000
    assert Result("snapshot", found, BARS, {}, {}, "ratio_to_debezium_initial").passed


def test_the_median_round_counts_and_the_highest_memory() -> None:
    found = compared({"ours": [turn(1, 1), turn(2, 2, rss=500), turn(10, 10)]})
    assert (found["rows_per_second"], found["rows_per_cpu_second"], found["worker_peak_rss_mb"]) == (500, 500, 500)
    assert not any("debezium" in key for key in found)


@pytest.mark.parametrize(
    "change", [{"keys": 999}, {"records": 1001}, {"reads": 999}, {"keys": 1000, "strays": 1, "records": 1001}]
)
def test_a_snapshot_of_ours_is_each_row_once(change: dict[str, int]) -> None:
    good = turn(1, 1)
    require_each_row(good, once=True)
    with pytest.raises(ReconciliationError, match="the table has 1000 rows"):
        require_each_row(replace(good, arrived=replace(EACH_ONCE, **change)), once=True)


def test_a_peer_may_repeat_rows_and_not_lose_one() -> None:
    again = replace(turn(1, 1), arrived=replace(EACH_ONCE, records=1200, reads=1200))
    require_each_row(again, once=False)
    with pytest.raises(ReconciliationError, match="of 999 of them"):
        require_each_row(replace(again, arrived=replace(again.arrived, keys=999)), once=False)
    with pytest.raises(ReconciliationError, match="and 1 of others"):
        require_each_row(replace(again, arrived=replace(again.arrived, strays=1)), once=False)


def test_records_are_counted_by_their_key() -> None:
    counter = TopicCounter(3)
    for key, value in ((1, '"op":"r"'), (3, '"op":"u"'), (3, '"op":"r"'), (4, ""), (0, "")):
        counter.add(json.dumps({"id": key}).encode(), value.encode())
    assert counter.count() == TopicCount(records=5, keys=2, reads=2, strays=2, value_bytes=24)


def test_only_whole_incremental_snapshots_are_completed() -> None:
    notes = [
        {"aggregate_type": "Initial Snapshot", "type": "COMPLETED"},
        {"aggregate_type": "Incremental Snapshot", "type": "STARTED"},
        {"aggregate_type": "Incremental Snapshot", "type": "TABLE_SCAN_COMPLETED"},
        {"aggregate_type": "Incremental Snapshot", "type": "COMPLETED"},
    ]
    assert completed([json.dumps(note).encode() for note in notes]) == 1


def test_the_peer_gets_the_sizes_that_were_asked_for() -> None:
    options = SnapshotBenchOptions(peer_fetch=7, peer_threads=3, peer_chunk=11)
    initial, incremental = initial_settings(options), incremental_settings(options)
    assert (initial["snapshot.fetch.size"], initial["snapshot.max.threads"]) == ("7", "3")
    assert incremental["incremental.snapshot.chunk.size"] == "11"
    # DEFAULTS, taken for its delay, do not bring back a snapshot mode of their own.
    assert incremental_settings(options, live=True)["snapshot.mode"] == "no_data"
    assert {s["producer.override.compression.type"] for s in (initial, incremental)} == {"lz4"}


class Clockless(Load):
    """Load that writes nothing and takes no time."""

    def send(self, first: int, count: int, sent_us: int) -> None:
        """Write nothing."""

    def settle(self) -> None:
        """Wait for nothing."""


def test_rows_are_written_until_the_snapshot_is_finished() -> None:
    load, looks = Clockless(100_000, 1_000), iter((False, False, True))
    load.write(0.01)
    found = written_until(load, lambda: next(looks), 60, look_s=0.01)
    assert (found.first, found.rows, load.written) == (1_001, 3_000, 4_000)


def test_a_snapshot_that_does_not_finish_is_no_figure() -> None:
    with pytest.raises(SandboxError, match="not finished after"):
        written_until(Clockless(100_000, 1_000), lambda: False, 0.02, look_s=0.01)


def test_delays_under_a_snapshot_are_told_beside_those_before() -> None:
    before = SideRun([0.1, 0.2, 0.3], 3, 500.0, 0, 0, {"run": 1.0})
    under = SideRun([0.5, 1.0, 1.5, 2.0, 4.0], 5, 490.0, 0, 0, {"run": 2.0})
    lag = SideLag(before, under, seconds=10, rows=500_000, peak_rss_mb=200)
    figures = lag.figures()
    assert (figures["p50_s"], figures["p99_s"], figures["max_s"]) == (1.5, 2.0, 4.0)
    assert (figures["before_p50_s"], figures["snapshot_rows_per_second"]) == (0.2, 50_000)
    assert figures["rows_written_per_second"] == 980
    assert set(lag.figures("debezium_")) == {f"debezium_{name}" for name in figures}


def test_the_peak_of_a_process_is_that_of_the_block() -> None:
    import psutil

    early = bytearray(256 << 20)
    del early
    with peaks(lambda: [psutil.Process()]) as found:
        before = psutil.Process().memory_info().rss / 2**20  # what earlier tests hold may shrink at any moment
        grown = bytearray(64 << 20)
        del grown
    (during,) = found.values()
    assert before + 50 < during < before + 200
