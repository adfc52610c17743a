"""Beside a flow's DAG stands its backfill DAG: a form with types, choices and help, and named refusals."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.definitions.dag import DAG
from airflow.sdk.exceptions import ParamValidationError

from databus import Flow, Kafka, MysqlBinlog, Noop
from databus.airflow import flow_dag
from databus.airflow.backfill import BackfillOperator, backfill_params
from databus.core.errors import BackfillRangeError
from databus.sources.mock import Mock

FLOW = Flow(
    name="orders", source=MysqlBinlog(conn_id="m", tables=("shop.orders",)), sinks=(Kafka(conn_id="k", topic="t"),)
)


def made(monkeypatch: pytest.MonkeyPatch, flow: Flow = FLOW, **options: Any) -> dict[str, DAG]:
    """Return all DAGs that one call of `flow_dag` makes."""
    found: dict[str, DAG] = {}
    leave = DAG.__exit__

    def left(dag: DAG, *arguments: Any) -> None:
        found[dag.dag_id] = dag
        leave(dag, *arguments)

    monkeypatch.setattr(DAG, "__exit__", left)
    flow_dag(flow, **options)
    return found


def test_one_call_makes_both_dags(monkeypatch: pytest.MonkeyPatch) -> None:
    dags = made(monkeypatch, backfill_every=timedelta(hours=1), max_active_runs=3)
    assert set(dags) == {"orders", "orders_backfill"}
    dag = dags["orders_backfill"]
    assert (dag.catchup, dag.max_active_runs, dag.fileloc) == (False, 1, __file__)
    assert isinstance(dag.task_dict["backfill"], BackfillOperator)
    assert dag.timetable.delta == timedelta(hours=1)
    assert "databus backfill orders --status" in (dag.doc_md or "")


def test_no_backfill_where_none_is_wanted_or_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(made(monkeypatch, backfill_every=None)) == {"orders"}
    mock = Flow(name="numbers", source=Mock(rows=1), sinks=(Noop(),))
    assert set(made(monkeypatch, mock)) == {"numbers"}


def test_every_field_of_the_form_has_a_type_a_title_and_a_help_text() -> None:
    params = backfill_params()
    for name, param in params.items():
        assert param.schema["type"], name
        assert param.schema["title"], name
        assert len(param.schema["description_md"]) > 40, name
        param.resolve()
    assert params["mode"].schema["enum"] == ["missing", "replay"]
    assert params["order"].schema["enum"] == ["in_order", "parallel"]
    with pytest.raises(ParamValidationError):
        params["mode"].resolve("everything")


@pytest.mark.parametrize(("start", "end"), [(None, None), ("2026-01-01", None), (None, "2026-01-01")])
def test_a_triggered_run_needs_both_ends(start: str | None, end: str | None) -> None:
    task = BackfillOperator(task_id="backfill", flow=FLOW)
    with pytest.raises(BackfillRangeError, match="needs both from and to"):
        task._range(SimpleNamespace(), {"from": start, "to": end}, "manual")
    assert task._range(SimpleNamespace(), {"from": "earliest", "to": "latest"}, "manual") == ("earliest", "latest")
