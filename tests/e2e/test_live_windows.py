"""The benches of live flows at their smallest size: windows under a real Airflow hand over, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from databus import Flow
from databus.bench.airflow.flows import AirflowFlows, write_dag_file
from databus.bench.airflow.freshness import HANDOVERS, OurTurns, live_flows
from databus.bench.loads import Load, TableLoad, TopicLoad, create_tables, tables_of
from databus.bench.log_files import log_writer
from databus.bench.mirror import delay as mirror_delay
from databus.bench.mirror.records import create
from databus.bench.results import Result
from databus.bench.turns import bars
from tests.e2e.airflow_world import AirflowWorld

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

WINDOW_S = 6
SECONDS = 15
TURNS = 6
"""A turn is taken again while no run has handed over in one: on a busy machine Airflow begins the next run late."""

RATE = 100


def taken(world: AirflowWorld, flow: Flow, load: Load, where: tuple[str, Sequence[str]], dag: str) -> Result:
    """Let Airflow run a flow until it hands over, and return the result; `where` is the rows' server and topics."""
    write_dag_file(world.dags, flow, WINDOW_S, dag)
    world.knows({flow.name})
    running = AirflowFlows(world.sandbox, world.api, [flow.name])
    server, topics = where
    ours = OurTurns(world.sandbox, running, load, world.sandbox.address(server), [flow.name], topics)
    for _ in range(TURNS):
        ours.take(SECONDS)
        if ours.told().handovers:
            break
    return ours.result("small", "nobody", [], {}, (*bars("nobody"), HANDOVERS))


def assert_judged(result: Result) -> None:
    """Every row came once, by more than one run, and the result says what it is to say."""
    for turn in result.details["ours"]:
        assert (turn["lost"], turn["repeated"], turn["rows"]) == (0, 0, RATE * SECONDS)
        assert {"scheduler", "spark", "api-server"} <= turn["cpu_seconds"].keys()
    assert result.figures["handovers"] >= 1
    assert 0 < result.figures["p50_s"] <= result.figures["p99_s"] <= result.figures["max_s"]
    assert {"plan", "dispatch", "commit"} <= result.details["stages_ms"].keys()
    assert "handovers" not in {bar.key for bar in result.bars}  # a bar of the long form


def test_a_live_flow_hands_over_from_run_to_run(airflow: AirflowWorld) -> None:
    tables = tables_of(1)
    with log_writer(airflow.sandbox, "mysql") as writer:
        create_tables(writer.connection, tables)
        (flow,) = live_flows(writer, tables)
        load = TableLoad(writer.connection, tables, RATE, 10)
        assert_judged(taken(airflow, flow, load, ("kafka", [flow.name]), "flow_dag"))


def test_a_live_mirror_hands_over_from_run_to_run(airflow: AirflowWorld) -> None:
    east = airflow.sandbox.address("kafka")
    create(east, mirror_delay.TOPIC, 2)
    load = TopicLoad(east, mirror_delay.TOPIC, RATE, 10)
    assert_judged(taken(airflow, mirror_delay.mirror(), load, ("kafka-b", [mirror_delay.TOPIC]), "mirror_dag"))
