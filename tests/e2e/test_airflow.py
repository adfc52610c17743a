"""Flows run by a real Airflow: moved, logged, audited, retried, killed, cancelled and paused, under one oracle."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from datetime import datetime

import pytest

from tests.e2e.airflow_world import AirflowWorld, Run, flow_file, until

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

BATCH_LINE = re.compile(
    r"flow (?P<flow>\w+): batch \d+ epoch \d+ \(mysql-bin\.\d+:\d+, mysql-bin\.\d+:\d+\]: (?P<rows>\d+) rows "
    r"\(\d+ dispatched, \d+ filtered, \d+ quarantined\), \d+ bytes in \d+ ms"
)
WINDOW_LINE = re.compile(
    r"window over: \d+ batches, read \d+ = filtered \d+ \+ quarantined \d+ \+ dispatched \d+; "
    r"\d+ bytes; at \S+; lag \d+ bytes, [\d.]+ s"
)


@pytest.mark.parametrize("engine", ["submit", "connect"])
def test_both_engines_deliver_the_same_under_one_oracle(airflow: AirflowWorld, engine: str) -> None:
    flow = f"e2e_{engine}"
    airflow.writer.run(150)
    run = airflow.trigger(flow)
    with airflow.writing():
        run.reaches("transfer", "running", "success")
    run.succeeds()
    assert_log_tells_what_moved(run)
    assert_lineage(airflow, run)
    assert_one_quality_result(airflow, run)
    # A transfer of seconds may have been over before the last change.
    airflow.catch_up(flow, run if engine == "submit" else None)


def assert_log_tells_what_moved(run: Run) -> None:
    preflight, transfer, audit = (run.log(task) for task in ("preflight", "transfer", "audit"))
    assert "OK: mysql_shop: binlog_format: binlog_format=ROW" in preflight
    assert "OK: kafka_east: brokers: 1 reachable" in preflight
    assert "OK: takeover: if the worker dies: " in preflight
    batches = list(BATCH_LINE.finditer(transfer))
    assert batches
    assert {b["flow"] for b in batches} == {run.dag}
    assert WINDOW_LINE.search(transfer)
    assert f"run {run.run_id}: {len(batches)} batches" in audit
    assert f"read {sum(int(b['rows']) for b in batches)} = " in audit
    assert "adds up" in audit
    assert "quality: passed" in audit


def assert_lineage(airflow: AirflowWorld, run: Run) -> None:
    start, end = airflow.lineage(f"{run.dag}.transfer", run.run_id)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    source = f"mysql://{airflow.sandbox.address('mysql')}"
    sink = f"kafka://{airflow.sandbox.address('kafka')}"
    assert {(d["namespace"], d["name"]) for d in end["inputs"]} >= {(source, "shop.orders"), (source, "shop.customers")}
    assert {(d["namespace"], d["name"]) for d in end["outputs"]} == {(sink, run.dag)}
    assert {d["namespace"] for d in start["inputs"]} == {source}
    assert {(d["namespace"], d["name"]) for d in start["outputs"]} == {(sink, run.dag)}
    assert end["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] > 0
    assert end["run"]["facets"]["databus"]["values"]["reconciled"] is True


def assert_one_quality_result(airflow: AirflowWorld, run: Run) -> None:
    with sqlite3.connect(airflow.home / "records.db") as records:
        query = "SELECT success, evaluated, result FROM databus_quality_results WHERE run_id = ? AND flow = ?"
        found = records.execute(query, (run.run_id, run.dag)).fetchall()
    assert len(found) == 1
    success, evaluated, result = found[0]
    assert success
    assert evaluated > 0
    # The result aggregates all batches of the run.
    numbers = json.loads(result)["meta"]["databus"]["batches"]
    assert len(numbers) == len(BATCH_LINE.findall(run.log("transfer")))


def test_graph_and_connection_types(airflow: AirflowWorld) -> None:
    for dag in ("e2e_connect", "e2e_submit"):
        assert airflow.api.graph(dag) == {"preflight": ["transfer"], "transfer": ["audit"], "audit": []}
    host, port = airflow.sandbox.address("zookeeper").split(":")
    good, message = airflow.api.test_connection("zk", "zookeeper", host, int(port))
    assert good, message
    bad, message = airflow.api.test_connection("zk", "zookeeper", host, 1)
    assert not bad
    assert "127.0.0.1:1" in message


def test_a_bad_file_is_an_import_error_and_hides_no_other(airflow: AirflowWorld) -> None:
    bad = airflow.dags / "bad_option.py"
    others = set(airflow.api.dags())
    good = (airflow.dags / "e2e_connect.py").read_text()
    bad.write_text(good.replace("e2e_connect", "bad_option").replace("topic=", "topc="))
    line = 1 + bad.read_text()[: bad.read_text().index("topc=")].count("\n")
    try:
        errors = until("an import error", airflow.api.import_errors, 60)
        assert [e["filename"] for e in errors] == ["bad_option.py"]
        assert f"{bad}:{line}" in errors[0]["stack_trace"]
        assert re.search(r"unknown option 'topc' Hint: Kafka takes: .*\btopic\b", errors[0]["stack_trace"])
        assert set(airflow.api.dags()) == others
    finally:
        bad.unlink()
    until("the error is gone", lambda: not airflow.api.import_errors(), 60)


def test_what_only_a_person_can_mend_spends_no_retry(airflow: AirflowWorld) -> None:
    run = airflow.trigger("e2e_refused")
    preflight = run.reaches("preflight", "failed")
    assert (preflight["try_number"], preflight["max_tries"]) == (1, 5)
    assert run.reaches("transfer", "upstream_failed")["try_number"] == 0
    log = run.log("preflight")
    assert "ERROR: kafka_east" in log
    assert "replication_factor" in log


def test_a_run_that_is_given_a_range_is_refused_and_told_who_takes_one(airflow: AirflowWorld) -> None:
    run = airflow.trigger("e2e_connect", {"from": "2026-01-01", "to": "2026-01-02"})
    assert run.reaches("preflight", "failed")["try_number"] == 1
    assert run.reaches("transfer", "upstream_failed")["try_number"] == 0
    log = run.log("preflight")
    assert "[run_conf] flow e2e_connect: this run was given from, to" in log
    assert "e2e_connect_backfill" in log


def test_an_outage_is_retried_and_nothing_is_lost(airflow: AirflowWorld) -> None:
    flow_file(airflow.dags, "e2e_outage")
    airflow.knows({"e2e_outage"})
    airflow.writer.run(50)
    airflow.catch_up("e2e_outage")
    airflow.sandbox.kill("kafka")
    try:
        airflow.writer.run(50)
        run = airflow.trigger("e2e_outage")
        assert run.retries("preflight")["state"] != "failed"
    finally:
        airflow.sandbox.up(["kafka"])
    run.succeeds()
    assert run.task("preflight")["try_number"] > 1
    assert "sink_unavailable" in run.log("preflight", 1)
    airflow.catch_up("e2e_outage", run)


def test_kill_9_of_the_task(airflow: AirflowWorld) -> None:
    with airflow.writing():
        run = airflow.trigger("e2e_kill")
        airflow.in_mid_batch("e2e_kill")
        run.process().kill()
        assert run.retries("transfer")["state"] != "failed"
    run.succeeds()
    assert run.task("transfer")["try_number"] > 1
    airflow.catch_up("e2e_kill", run)


@pytest.mark.parametrize(
    ("flow", "state"), [("e2e_cancel", "failed"), ("e2e_marked", "success"), ("e2e_cancel_submit", "failed")]
)
def test_a_cancel_drains_and_releases(airflow: AirflowWorld, flow: str, state: str) -> None:
    if flow == "e2e_marked":
        flow_file(airflow.dags, flow, max_rows=400)
    elif flow == "e2e_cancel_submit":
        flow_file(airflow.dags, flow, engine="submit", max_rows=2000)
    airflow.knows({flow})
    with airflow.writing():
        run = airflow.trigger(flow)
        airflow.in_mid_batch(flow)
        process = run.process()
        airflow.api.set_task_state(flow, run.run_id, "transfer", state)
        process.wait(30)
        # At most the session timeout of a dead holder, 15 s; a driver of its own finishes its batch, however long.
        airflow.claimable(flow, 120 if flow.endswith("submit") else 20)
    assert run.task("transfer")["state"] == state
    assert "asked to stop" in run.log("transfer")
    airflow.no_dump_is_left()
    airflow.catch_up(flow)


def test_runs_hand_over_and_a_pause_ends_the_window(airflow: AirflowWorld) -> None:
    flow = "e2e_schedule"
    airflow.api.pause(flow, paused=False)
    with airflow.writing():
        until("two runs are over", lambda: [r["state"] for r in airflow.runs(flow)].count("success") >= 2)
    until("all has arrived", lambda: airflow.has_all(flow))
    airflow.api.pause(flow, paused=True)
    # A paused DAG starts no further task; those that run go on to their end.
    until("the window is over", lambda: not {t["state"] for t in airflow.tasks(flow)} & {"running", "queued"})
    transfers = [t for t in airflow.tasks(flow, "transfer") if t["state"] is not None]
    assert {t["state"] for t in transfers} == {"success"}
    windows = sorted((_time(t["start_date"]), _time(t["end_date"])) for t in transfers)
    # A successor was there, waiting for the lease, before its predecessor ended.
    assert any(later[0] < earlier[1] for earlier, later in itertools.pairwise(windows)), windows
    airflow.claimable(flow, 0)
    airflow.no_dump_is_left()
    airflow.assert_all_arrived_once(flow)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
