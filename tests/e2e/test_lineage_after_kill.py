"""OpenLineage events of a real Airflow whose task is killed by SIGKILL: each run has one START and one end."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.contract.openlineage_schemas import assert_valid
from tests.e2e.airflow_world import AirflowWorld, flow_file, until

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

ENDS = {"COMPLETE", "FAIL", "ABORT"}


def told(airflow: AirflowWorld, dag: str) -> dict[str, list[dict[str, Any]]]:
    """Return run id → its events in the order of their sending, of a DAG, its tasks and its windows."""
    found: dict[str, list[dict[str, Any]]] = {}
    for event in airflow.lineage_events():
        if event["job"]["name"] == dag or event["job"]["name"].startswith(f"{dag}."):
            found.setdefault(event["run"]["runId"], []).append(event)
    return found


def kinds(airflow: AirflowWorld, dag: str) -> list[tuple[str, ...]]:
    """Return (job, kinds of its events) of each run."""
    runs = told(airflow, dag).values()
    return sorted((events[0]["job"]["name"], *(e["eventType"] for e in events)) for events in runs)


def all_ended(airflow: AirflowWorld, dag: str, job: str = "") -> list[tuple[str, ...]]:
    """Wait until every run has an end, of one job only where it is named; then each has one, behind its START."""

    def look() -> list[tuple[str, ...]]:
        seen = [run for run in kinds(airflow, dag) if job in ("", run[0])]
        return seen if seen and all(ENDS & set(run) for run in seen) else []

    found: list[tuple[str, ...]] = until(f"lineage of {dag} ends", look, 120)
    for run in found:
        assert run[1] == "START", run
        assert len([kind for kind in run if kind in ENDS]) == 1, run
    return found


def test_a_window_whose_task_is_killed_and_tried_again(airflow: AirflowWorld) -> None:
    dag = "e2e_lineage_again"
    flow_file(airflow.dags, dag, max_rows=400)
    airflow.knows({dag})
    with airflow.writing():
        run = airflow.trigger(dag)
        airflow.in_mid_batch(dag)
        run.process().kill()
        assert run.retries("transfer")["state"] != "failed"
    run.succeeds()
    attempts = run.task("transfer")["try_number"]
    assert attempts > 1
    airflow.catch_up(dag, run)
    runs = all_ended(airflow, dag)
    windows = [r for r in runs if r[0] == f"{dag}.window"]
    assert set(windows) == {(f"{dag}.window", "START", "COMPLETE")}
    assert len(windows) == len(airflow.runs(dag))
    assert runs.count((f"{dag}.transfer", "START", "FAIL")) == attempts - 1
    assert runs.count((f"{dag}.transfer", "START", "COMPLETE")) == len(airflow.runs(dag))
    assert_the_window_says_what_moved(airflow, dag)


def assert_the_window_says_what_moved(airflow: AirflowWorld, dag: str) -> None:
    windows = [events for events in told(airflow, dag).values() if events[0]["job"]["name"] == f"{dag}.window"]
    for start, end in windows:
        assert_valid(start)
        assert_valid(end)
        assert datetime.fromisoformat(start["eventTime"]) <= datetime.fromisoformat(end["eventTime"])
    (output,) = windows[0][1]["outputs"]
    assert output["name"] == dag
    columns = output["facets"]["columnLineage"]["fields"]
    made_of = {(f["name"], f["field"]) for field in columns.values() for f in field["inputFields"]}
    assert ("shop.customers", "email") in made_of
    assert ("shop.orders", "card_number") not in made_of  # a transform drops it
    assert windows[0][1]["run"]["facets"]["databus"]["values"]["columns_unknown"] == []
    assert len(windows[0][1]["run"]["facets"]["databus"]["values"]["batches"]) > 0


def test_a_last_attempt_that_is_killed_ends_without_a_next_run(airflow: AirflowWorld) -> None:
    dag = "e2e_lineage_last"
    flow_file(airflow.dags, dag, max_rows=400)
    file = airflow.dags / f"{dag}.py"
    file.write_text(file.read_text().replace('{"retry_delay"', '{"retries": 0, "retry_delay"'))
    assert '"retries": 0' in file.read_text()
    airflow.knows({dag})
    with airflow.writing():
        run = airflow.trigger(dag)
        airflow.in_mid_batch(dag)
        run.process().kill()
        run.reaches("transfer", "failed")
    until("the run has failed", lambda: airflow.api.run(dag, run.run_id)["state"] == "failed")
    assert all_ended(airflow, dag, f"{dag}.window") == [(f"{dag}.window", "START", "FAIL")]
    following = airflow.trigger(dag).succeeds()
    runs = all_ended(airflow, dag)
    assert [r for r in runs if r[0] == f"{dag}.window"] == [
        (f"{dag}.window", "START", "COMPLETE"),
        (f"{dag}.window", "START", "FAIL"),
    ]
    assert [r for r in runs if r[0] == f"{dag}.transfer"] == [
        (f"{dag}.transfer", "START", "COMPLETE"),
        (f"{dag}.transfer", "START", "FAIL"),
    ]
    airflow.catch_up(dag, following)
