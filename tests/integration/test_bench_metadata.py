"""The bench of Airflow's database at its smallest: a real scheduler on a real PostgreSQL, a history, a real clean."""

from __future__ import annotations

import pytest

from databus.bench.airflow.metadata import BARS, PHASES, run
from databus.bench.options import MetadataOptions
from tests.ports import ports_from

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]


def test_a_history_is_written_kept_in_part_and_the_scheduler_watched_on_it() -> None:
    options = MetadataOptions(flows=1, every_seconds=20, days=0.1, keep_days=0.05, seconds=5)
    figures = run(options, lambda _: None, ports_from=ports_from(23_000)).figures
    assert {bar.key for bar in BARS} <= set(figures)
    assert figures["full_dag_run_rows"] >= 432
    assert figures["full_task_instance_rows"] >= 3 * 432
    # What began before the limit is gone with all that hangs on it; what the scheduler does meanwhile comes on top.
    assert 150 <= figures["kept_dag_run_rows"] <= 240
    assert figures["kept_task_instance_rows"] <= 3 * figures["kept_dag_run_rows"]
    assert all(figures[f"{phase}_busy_loops"] > 0 for phase in PHASES)
