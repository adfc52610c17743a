"""A run of a flow's DAG that is given what it does not know, such as a range, is refused before it moves anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from databus import Flow, Kafka, MysqlBinlog, Noop
from databus.airflow import flow_dag
from databus.airflow.operators.preflight import require_known
from databus.core.errors import RunConfError
from databus.core.flow import Mode
from databus.sources.mock.spec import Mock

FLOW = Flow(
    name="orders", source=MysqlBinlog(conn_id="m", tables=("shop.orders",)), sinks=(Kafka(conn_id="k", topic="t"),)
)
RANGE = {"from": "2026-01-01", "to": "2026-01-02"}


def context(dag: Any, conf: dict[str, Any] | None) -> dict[str, Any]:
    return {"dag": dag, "run_id": "manual__1", "dag_run": SimpleNamespace(conf=conf)}


@pytest.mark.parametrize(("mode", "first"), [("standard", "preflight"), ("live", "preflight"), ("economy", "transfer")])
def test_the_first_task_fails_for_good_and_names_who_takes_a_range(mode: Mode, first: str) -> None:
    dag = flow_dag(FLOW, mode=mode)
    with pytest.raises(AirflowFailException) as refused:
        dag.task_dict[first].execute(context(dag, RANGE))
    said = str(refused.value)
    assert said.startswith("[run_conf] flow orders: this run was given from, to, which its DAG does not know")
    assert "the DAG orders_backfill, which takes from and to" in said


def test_what_cannot_be_moved_by_ranges_is_not_sent_to_a_dag_that_is_not_there() -> None:
    mock = Flow(name="numbers", source=Mock(rows=1), sinks=(Noop(),))
    with pytest.raises(RunConfError) as refused:
        require_known(mock, context(flow_dag(mock), RANGE))
    assert "_backfill" not in str(refused.value)


def test_what_the_dag_file_says_is_taken_is_taken_and_nothing_else() -> None:
    dag = flow_dag(FLOW, params={"ticket": "", "reason": "nightly"})
    for conf in (None, {}, {"ticket": "OPS-7"}, {"ticket": "", "reason": ""}, {"airflow/task_span_detail_level": 2}):
        require_known(FLOW, context(dag, conf))
    with pytest.raises(RunConfError, match="given from, which") as refused:
        require_known(FLOW, context(dag, {"ticket": "OPS-7", "from": "earliest"}))
    assert "It takes reason, ticket." in refused.value.hint
