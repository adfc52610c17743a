"""Two passes of a DAG processor as figures; the files that it is given are flows."""

from __future__ import annotations

from pathlib import Path

import pytest

from databus.bench.airflow.dag_files import result, write_files
from databus.bench.options import DagFilesOptions


def passed(seconds: float) -> dict[str, float]:
    return {"seconds": seconds, "own_cpu_seconds": 4.0, "parse_cpu_seconds": 8.0}


@pytest.mark.parametrize(("first", "second", "missed"), [(9.9, 5.0, []), (10.1, 5.0, ["first_pass_seconds"])])
def test_a_pass_of_more_than_ten_seconds_is_told(first: float, second: float, missed: list[str]) -> None:
    found = {"passes": [passed(first), passed(second)], "dags": 400, "database": "sqlite"}
    told = result(DagFilesOptions(200), found)
    assert [bar.key for bar in told.missed] == missed
    assert told.figures["parse_cpu_ms_per_file"] == pytest.approx(40.0)
    assert told.figures["store_cpu_ms_per_file"] == pytest.approx(20.0)


def test_five_flows_are_live_and_the_rest_economy(tmp_path: Path) -> None:
    write_files(tmp_path, 12)
    files = sorted(tmp_path.glob("*.py"))
    assert len(files) == 12
    assert ['mode="live"' in file.read_text() for file in files] == [True] * 5 + [False] * 7
