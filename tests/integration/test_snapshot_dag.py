"""The task of a snapshot DAG on real servers: it begins, waits in the triggerer, and says how the snapshot ended."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from databus import Flow, NotNull
from databus.airflow.snapshots.operator import SnapshotOperator, snapshot_params
from databus.airflow.snapshots.trigger import SnapshotTrigger
from databus.core.connections import ConnectionSource
from databus.ops.health.status import FlowLook
from databus.ops.services import open_services
from tests.integration.commands import Commands
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld
from tests.integration.test_snapshot_flow import Table

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka", "mysql"), tmp_path_factory.mktemp("snapshot_dag"))


class Dag:
    """A flow of a table of 50 rows, which has delivered them, and the task of its snapshot DAG."""

    def __init__(self, world: OneProcessWorld, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.world, self.table = world, Table(world, "mysql", rows=50)
        self.flow = self.table.flow(max_rows=20).model_copy(update={"checks": (NotNull("name"),)})
        self.name = f"{self.table.name}.t"
        Commands(world, folder, monkeypatch)  # connections and settings in the environment, as a worker has them
        world.run(self.flow)

        async def known(_flow: Flow) -> ConnectionSource:
            return world.connections

        monkeypatch.setattr("databus.airflow.triggers.connections_of", known)

    def run(self, run_id: str = "manual__1", then: TaskDeferred | None = None, **asked: Any) -> dict[str, Any]:
        """Do what the task of a run does: as it is asked for, or after a wait that the trigger ends."""
        defaults = {name: param.value for name, param in snapshot_params(self.flow.name).items()}
        started = datetime(2026, 11, 26, int(run_id[-1]), tzinfo=UTC)
        context = {
            "run_id": run_id,
            "dag_run": SimpleNamespace(start_date=started, triggering_user_name="ann"),
            "params": {**defaults, **asked},
        }
        task = SnapshotOperator(task_id="snapshot", flow=self.flow, poll=timedelta(seconds=0.1))
        if then is None:
            return task.execute(context)
        answer: dict[str, Any] = task.resume_execution(then.method_name, {"event": self.waited(then.trigger)}, context)
        return answer

    def waited(self, trigger: SnapshotTrigger) -> dict[str, Any]:
        """Return the event for which a task waits; fails where there is none within seconds."""

        async def first() -> dict[str, Any]:
            async with aclosing(SnapshotTrigger(**trigger.serialize()[1]).run()) as events:  # type: ignore[type-var]
                return (await anext(events)).payload

        async def bounded() -> dict[str, Any]:
            return await asyncio.wait_for(first(), 20)

        return asyncio.run(bounded())

    def deferred(self, **asked: Any) -> TaskDeferred:
        with pytest.raises(TaskDeferred) as waits:
            self.run(**asked)
        return waits.value


@pytest.fixture
def dag(world: OneProcessWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dag:
    return Dag(world, tmp_path, monkeypatch)


def test_it_begins_waits_and_returns_how_far_it_came(dag: Dag) -> None:
    first = dag.deferred(tables=[dag.name], where="id < 20")
    again = dag.deferred(tables=[dag.name], where="id < 20")  # the next attempt of the same run
    assert first.trigger.number == again.trigger.number == 2
    with pytest.raises(AirflowFailException, match="snapshot 2 is unfinished"):
        dag.run("manual__2")
    assert dag.run("manual__3", action="show")["state"] == "waiting"
    assert dag.run("manual__3", action="pause", reason="too much load")["state"] == "paused"
    dag.world.run(dag.flow)
    assert dag.run("manual__3", action="resume")["rows"] == 0
    with FlowLook(dag.flow, dag.world.connections, dag.world.settings) as look:
        seen = look.look()
        assert (seen.snapshot.number, seen.snapshot.state, seen.snapshot.tables_left) == (2, "waiting", 1)
    dag.world.run(dag.flow)
    told = dag.run(then=first)
    assert (told["state"], told["rows"], told["done"], told["number"]) == ("finished", 10, 1, 2)
    assert dag.run(tables=[dag.name], where="id < 20") == told  # cut off behind the wait, it begins no other
    assert dag.table.arrived()[2] == {"r": 60}
    with open_services(dag.flow, dag.world.connections, dag.world.settings) as services:
        said = [str(entry) for entry in services.store.history(dag.flow.name, 20)]
    assert [why for why in ("asked for by run manual__1", "too much load") if not any(why in one for one in said)] == []
    assert any("'ann'" in one for one in said)


def test_it_is_skipped_where_a_person_ends_the_snapshot(dag: Dag) -> None:
    waits = dag.deferred()
    assert dag.run("manual__2", action="cancel")["state"] == "cancelled"
    with pytest.raises(AirflowSkipException, match="a person ended it: snapshot 2: 0 of 1 tables"):
        dag.run(then=waits)
    with pytest.raises(AirflowFailException, match="no snapshot can be paused"):
        dag.run("manual__2", action="pause")
    with pytest.raises(AirflowFailException, match="has no table"):
        dag.run("manual__2", tables=["nowhere.t"])
    dag.world.run(dag.flow)
    assert dag.table.arrived()[2] == {"r": 50}


def test_rows_that_are_held_back_and_tables_that_are_gone_fail_it(dag: Dag) -> None:
    unlogged = f"UPDATE {dag.name} SET name = NULL WHERE id IN (2, 4)"
    dag.table.run("SET sql_log_bin = 0", unlogged, "SET sql_log_bin = 1")
    waits = dag.deferred()
    dag.world.run(dag.flow)
    with pytest.raises(AirflowFailException, match=r"finished after .*, but not well: 2 rows of it are in quarantine"):
        dag.run(then=waits)
    waits = dag.deferred(run_id="manual__2")
    dag.table.run(f"RENAME TABLE {dag.name} TO {dag.table.name}.u")
    dag.world.run(dag.flow)
    with pytest.raises(AirflowFailException, match=rf"not well: {dag.name} was dropped or renamed before all rows"):
        dag.run(then=waits)
