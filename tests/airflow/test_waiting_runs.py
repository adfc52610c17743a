"""What a trigger asks Airflow about a flow's runs, and what it makes of the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from databus.airflow.runs.states import run_waits


@pytest.mark.parametrize(("count", "waits"), [(0, False), (1, True), (2, True)])
def test_tasks_before_the_rows_are_counted(count: int, *, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def answer(**query: Any) -> int:
        asked.append(query)
        return count

    monkeypatch.setattr(RuntimeTaskInstance, "get_ti_count", answer)
    assert asyncio.run(run_waits("orders")) is waits
    assert asked == [
        {"dag_id": "orders", "task_ids": ["preflight", "transfer"], "states": ["scheduled", "queued"]}
    ]  # a run whose audit waits moves nothing, and a dead worker's task is running


def test_where_airflow_does_not_tell_a_flow_is_woken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(**_: Any) -> int:
        raise RuntimeError("no supervisor")

    monkeypatch.setattr(RuntimeTaskInstance, "get_ti_count", refuse)
    assert not asyncio.run(run_waits("orders"))
    assert "orders: Airflow does not report whether a run waits: no supervisor" in caplog.text
