"""Beside a flow's DAG stands its backfill DAG: a form with types, choices and help, and named refusals."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.exceptions import ParamValidationError as ServerParamValidationError
from airflow.sdk import Param
from airflow.sdk.definitions.dag import DAG
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from databus import Flow, Kafka, MysqlBinlog, Noop
from databus.airflow import flow_dag
from databus.airflow.backfills.operator import BackfillOperator, backfill_params
from databus.core.errors import BackfillRangeError
from databus.sources.mock.spec import Mock

FLOW = Flow(
    name="orders",
    source=MysqlBinlog(conn_id="m", tables=("shop.orders",), start="latest"),
    sinks=(Kafka(conn_id="k", topic="t"),),
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
    assert "--reprocess-behavior completed" in (dag.doc_md or "")


def test_no_backfill_where_none_is_wanted_or_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(made(monkeypatch, backfill_every=None)) == {"orders"}
    mock = Flow(name="numbers", source=Mock(rows=1), sinks=(Noop(),))
    assert set(made(monkeypatch, mock)) == {"numbers"}


def test_every_field_of_the_form_has_a_type_a_title_and_a_help_text() -> None:
    params = backfill_params("orders")
    assert "`databus checkpoint show orders -o json`" in params["from"].schema["description_md"]
    for name, param in params.items():
        assert param.schema["type"], name
        assert param.schema["title"], name
        assert len(param.schema["description_md"]) > 40, name
        param.resolve()
        # Airflow's form marks an empty field as missing before anything is typed, unless it may be null.
        assert param.value not in (None, "") or "null" in param.schema["type"], name
    assert params["mode"].schema["enum"] == ["missing", "replay"]
    assert params["order"].schema["enum"] == ["in_order", "parallel"]
    with pytest.raises(ParamValidationError):
        params["mode"].resolve("everything")


def test_a_run_gets_the_form_and_the_server_refuses_other_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    dag = made(monkeypatch)["orders_backfill"]
    kept = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    asked = {"mode": "replay", "from": "earliest"}
    given = process_params(dag, dag.task_dict["backfill"], asked, suppress_exception=False)
    assert given == {name: param.value for name, param in backfill_params("orders").items()} | asked
    with pytest.raises(ParamValidationError):
        process_params(dag, dag.task_dict["backfill"], {"mode": "everything"}, suppress_exception=False)
    assert kept.params.dump() == {name: param.value for name, param in backfill_params("orders").items()}
    assert kept.params.deep_merge({"mode": "replay"}).validate()["mode"] == "replay"
    with pytest.raises(ServerParamValidationError, match="everything"):
        kept.params.deep_merge({"mode": "everything"}).validate()


def test_parsing_a_file_checks_each_field_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check of a Param's schema costs a millisecond of each parse of each flow's file."""
    checks: list[Param] = []
    resolve = Param.resolve

    def counted(param: Param, *given: Any, **named: Any) -> Any:
        checks.append(param)
        return resolve(param, *given, **named)

    monkeypatch.setattr(Param, "resolve", counted)
    for dag in made(monkeypatch).values():
        DagSerialization.to_dict(dag)
    assert len(checks) <= len(backfill_params("orders"))


@pytest.mark.parametrize(("start", "end"), [(None, None), ("2026-01-01", None), (None, "2026-01-01")])
def test_a_triggered_run_needs_both_ends(start: str | None, end: str | None) -> None:
    task = BackfillOperator(task_id="backfill", flow=FLOW)
    with pytest.raises(BackfillRangeError, match="needs both from and to"):
        task._range(SimpleNamespace(), {"from": start, "to": end}, "manual")
    assert task._range(SimpleNamespace(), {"from": "earliest", "to": "latest"}, "manual") == ("earliest", "latest")
