"""Preflight says after how long a flow goes on when its worker dies: that follows from the schedule of its DAG."""

from __future__ import annotations

from datetime import timedelta

from databus.airflow import flow_dag
from databus.airflow.operators.preflight import takeover
from databus.core.findings import Level
from tests.airflow.test_flow_dag import FLOW


def test_a_flow_that_nothing_wakes_waits_for_its_next_run() -> None:
    found = takeover(flow_dag(FLOW, mode="live", every=timedelta(minutes=2)))
    assert found.level is Level.OK
    assert "no wake=" in found.message
    assert "up to 0:02:00 later" in found.message
    assert "task_instance_heartbeat_timeout" in found.message
    assert "wake=timedelta(0)" in found.hint


def test_a_flow_that_changes_wake_waits_for_the_lease_and_a_look() -> None:
    found = takeover(flow_dag(FLOW, wake=timedelta(0)))
    assert "10 s" in found.message
    assert not found.hint


def test_a_schedule_of_its_own_says_nothing_of_an_interval() -> None:
    assert "a schedule of its own" in takeover(flow_dag(FLOW, schedule=None)).message
    assert "a schedule of its own" in takeover(flow_dag(FLOW, schedule="@daily")).message
