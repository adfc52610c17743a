"""The task of a backfill DAG without an Airflow around it: what a run tells it is the test's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from airflow.sdk.execution_time.context import OutletEventAccessors

from databus.airflow.backfills.operator import BackfillOperator, backfill_params
from tests.integration.backfills import MINUTE, BackfillShop, Later
from tests.integration.commands import Commands
from tests.integration.one_process import OneProcess


class TaskRuns:
    """Runs the task of a shop's backfill DAG as a worker of Airflow does.

    Attributes:
        earlier: state → id of an earlier run of the DAG that Airflow knows.
    """

    def __init__(self, shop: BackfillShop, folder: Path, monkeypatch: pytest.MonkeyPatch):
        Commands(shop.world, folder, monkeypatch)  # connections and settings in the environment, as a worker has them
        monkeypatch.setattr("databus.ops.services.SystemClock", Later)
        self.shop, self.earlier = shop, dict[str, str]()
        self._task = BackfillOperator(task_id="backfill", flow=shop.shop.flow)
        monkeypatch.setattr(self._task, "_spark", lambda *_: OneProcess)

    def run(self, run_type: str, minutes: float = 1, then: TaskDeferred | None = None, **conf: Any) -> dict[str, Any]:
        """Run it over an interval from the shop's first minute on, or resume it after a wait."""
        params = {name: param.value for name, param in backfill_params(self.shop.shop.flow.name).items()}
        context = {
            "ti": SimpleNamespace(log_url="", get_previous_dagrun=self._previous),
            "run_id": f"{run_type}__1",
            "dag_run": SimpleNamespace(run_type=SimpleNamespace(value=run_type)),
            "params": {**params, "mode": "replay", **conf},
            "data_interval_start": self.shop.base,
            "data_interval_end": self.shop.base + minutes * MINUTE,
            "outlet_events": OutletEventAccessors(),
        }
        if then is None:
            return self._task.execute(context)
        answer: dict[str, Any] = self._task.resume_execution(
            then.method_name, {**(then.kwargs or {}), "event": None}, context
        )
        return answer

    def _previous(self, state: str) -> Any:
        found = self.earlier.get(state)
        return SimpleNamespace(run_id=found) if found else None
