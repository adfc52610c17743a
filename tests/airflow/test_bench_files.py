"""The DAG files of the benches' live flows are DAGs, paused, of the window asked for."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import AssetOrTimeSchedule

from databus import Flow, Kafka, MysqlBinlog
from databus.bench.airflow.flows import airflow_options, write_dag_file
from databus.bench.mirror import delay as mirror_delay

LIVE = Flow(
    name="fresh",
    source=MysqlBinlog(conn_id="m", tables=("bench.fresh",), start="mysql-bin.000002:4"),
    sinks=(Kafka(conn_id="k", topic="fresh", tombstones=False),),
    mode="live",
)


@pytest.mark.parametrize(("flow", "made_by"), [(LIVE, "flow_dag"), (mirror_delay.mirror(), "mirror_dag")])
def test_a_file_makes_the_flows_dag(flow: Flow, made_by: str, tmp_path: Path) -> None:
    write_dag_file(tmp_path, flow, 65, made_by)
    dag: Any = runpy.run_path(str(tmp_path / f"{flow.name}.py"))["dag"]
    assert (dag.dag_id, dag.is_paused_upon_creation) == (flow.name, True)
    transfer = dag.task_dict["transfer"]
    assert (transfer.flow, transfer.flow.mode, transfer.window_s) == (flow, "live", 125)


def test_a_file_of_an_idle_flow_is_woken_by_changes(tmp_path: Path) -> None:
    write_dag_file(tmp_path, LIVE, 60, wake_s=60.0)
    dag: Any = runpy.run_path(str(tmp_path / "fresh.py"))["dag"]
    assert isinstance(dag.timetable, AssetOrTimeSchedule)
    assert dag.task_dict["transfer"].window_s == 120


def test_airflow_and_spark_have_room_for_hand_overs_of_all_flows(tmp_path: Path) -> None:
    options = airflow_options(tmp_path, 5, None)
    assert options.spark_master == "local[10]"
    assert int(options.airflow_env["AIRFLOW__CORE__PARALLELISM"]) >= 20
