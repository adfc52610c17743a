"""OpenLineage events of a real Airflow whose task is killed by SIGKILL: each window has one START and one end.

Of attempts Airflow's provider tells, and of a killed one not always the end; a window is told of over all its attempts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.contract.openlineage_schemas import assert_valid
from tests.e2e.airflow_world import AirflowWorld, flow_file, until

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

ENDS = {"COMPLETE", "FAIL", "ABORT"}


def told(airflow: AirflowWorld, dag: str) -> dict[str, list[dict[str, Any]]]:
    """Return run id → its events in the order of their sending, of a flow's windows."""
    found: dict[str, list[dict[str, Any]]] = {}
    for event in airflow.lineage_events():
        if event["job"]["name"] == f"{dag}.window":
            found.setdefault(event["run"]["runId"], []).append(event)
    return found


def all_ended(airflow: AirflowWorld, dag: str, windows: int) -> list[tuple[str, ...]]:
    """Wait until so many windows have an end; return the kinds of each one's events."""

    def look() -> list[tuple[str, ...]]:
        seen = sorted(tuple(event["eventType"] for event in events) for events in told(airflow, dag).values())
        return seen if len(seen) == windows and all(ENDS & set(kinds) for kinds in seen) else []

    found: list[tuple[str, ...]] = until(f"lineage of {dag} ends", look, 120)
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
    assert run.task("transfer")["try_number"] > 1
    airflow.catch_up(dag, run)
    assert set(all_ended(airflow, dag, len(airflow.runs(dag)))) == {("START", "COMPLETE")}
    assert_the_window_says_what_moved(airflow, dag)


def assert_the_window_says_what_moved(airflow: AirflowWorld, dag: str) -> None:
    windows = list(told(airflow, dag).values())
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
    assert all_ended(airflow, dag, 1) == [("START", "FAIL")]
    following = airflow.trigger(dag).succeeds()
    assert all_ended(airflow, dag, 2) == [("START", "COMPLETE"), ("START", "FAIL")]
    airflow.catch_up(dag, following)
