"""What an idle flow costs is what is over an Airflow without flows; tasks count apart from the scheduler above them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from databus.bench.airflow.idle import IdleCpu, figures
from databus.bench.processes import CpuMeter

BURN = "import time\nwhile time.process_time() < 0.5: pass\n"
ABOVE = (
    f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\nprint('done', flush=True)\ninput()\n"
)


def test_what_a_process_began_counts_in_its_tree_and_not_of_the_root_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", ABOVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        meter = CpuMeter([process.pid])
        assert process.stdout.readline() == b"done\n"
        tree, root = meter.seconds(), meter.of_roots()
        process.stdin.close()
    assert tree - root >= 0.4
    assert root < 0.4


def test_airflow_and_spark_count_above_what_they_take_without_flows_and_tasks_whole() -> None:
    bare = IdleCpu(2.0, {"scheduler": 2.0, "triggerer": 1.0, "tasks": 0.0, "spark": 0.2})
    live = IdleCpu(4.0, {"scheduler": 6.0, "triggerer": 3.0, "tasks": 20.0, "spark": 2.4}, runs=4)
    idle = IdleCpu(2.0, {"scheduler": 2.0, "triggerer": 1.5, "tasks": 0.0, "spark": 0.2})
    found = figures(bare, {"live": live, "economy": idle})
    assert found["airflow_without_flows_cpu_seconds_per_minute"] == 1.5
    assert found["live_tasks_cpu_seconds_per_minute"] == 5.0
    assert found["live_spark_cpu_seconds_per_minute"] == pytest.approx(0.5)
    assert found["live_airflow_cpu_seconds_per_minute"] == pytest.approx(0.75)
    assert found["live_cpu_seconds_per_minute"] == pytest.approx(6.25)
    assert found["live_cpu_seconds_per_run"] == pytest.approx(6.25)
    assert found["economy_cpu_seconds_per_minute"] == pytest.approx(0.25)
    assert "economy_cpu_seconds_per_run" not in found  # there was none
