"""Where it is asked for, a validation DAG stands beside a flow's DAG: its schedule, its form, and how its task ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from databus import Webhook
from databus.airflow.validations import ValidateOperator, validation_params
from databus.core.errors import ConfigError
from databus.ops.validation.result import Difference, SinkComparison, Validation
from tests.airflow.test_backfill_dag import FLOW, made

FIGURES = {"shop.orders": {"rows": 90, "missing": 1, "held_back": 2}}


def test_the_dag_stands_there_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(name.endswith("_validate") for name in made(monkeypatch))
    limits = {"execution_timeout": timedelta(minutes=2), "retries": 2}
    options: dict[str, Any] = {"dagrun_timeout": timedelta(minutes=5), "default_args": limits}
    dag = made(monkeypatch, validate_every=timedelta(hours=6), **options)["orders_validate"]
    assert (dag.schedule, dag.dagrun_timeout, dag.max_active_runs) == (timedelta(hours=6), None, 1)
    assert (dag.fileloc, dag.tags) == (made.__code__.co_filename, {"databus", "validate"})
    (task,) = dag.tasks
    assert isinstance(task, ValidateOperator)
    assert (task.retries, task.execution_timeout, task.wait_s) == (2, None, 120)
    assert "`databus validate orders`" in (dag.doc_md or "")
    with pytest.raises(ConfigError, match="validate_every=0:00:01 is shorter than 5 seconds"):
        made(monkeypatch, validate_every=timedelta(seconds=1))


@pytest.mark.parametrize(("every", "wait"), [(5, 360), (60, 900)])
def test_it_waits_for_the_next_run_of_the_flow_within_bounds(
    monkeypatch: pytest.MonkeyPatch, every: int, wait: int
) -> None:
    dags = made(monkeypatch, every=timedelta(minutes=every), validate_every=timedelta(days=1))
    assert dags["orders_validate"].task_dict["validate"].wait_s == wait


def test_channels_of_the_flow_are_notified_of_a_failure_and_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    alerted = FLOW.model_copy(update={"alerts": (Webhook(conn_id="hook"),)})
    task = made(monkeypatch, alerted, validate_every=timedelta(days=1))["orders_validate"].task_dict["validate"]
    (failed,), (well,) = task.on_failure_callback, task.on_success_callback
    assert (str(failed.kind), well.kind, well.well) == ("failure", None, ("validate",))


def test_a_run_gets_the_form_and_the_server_refuses_other_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    dag = made(monkeypatch, validate_every=timedelta(days=1))["orders_validate"]
    kept = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    asked = {"tables": ["shop.orders"], "sample": 100}
    given = process_params(dag, dag.task_dict["validate"], asked, suppress_exception=False)
    assert given == kept.params.deep_merge(asked).validate() == asked
    for wrong in ({"sample": -1}, {"tables": "shop.orders"}):
        with pytest.raises(ParamValidationError):
            process_params(dag, dag.task_dict["validate"], wrong, suppress_exception=False)
    for name, param in validation_params("orders").items():
        assert len(param.schema["description_md"]) > 40, name


def test_the_task_fails_where_a_row_differs_and_logs_keys_without_values(capsys: pytest.CaptureFixture[str]) -> None:
    task = ValidateOperator(task_id="validate", flow=FLOW)
    equal = Validation("orders", (SinkComparison("kafka", FIGURES, ()),), 90, 1.5)
    assert task._judged(equal)["sinks"][0]["tables"] == FIGURES
    assert "sink kafka, shop.orders: 90 rows, 1 missing, 2 held back" in capsys.readouterr().out
    found = [Difference("different", "shop.orders", "t", f'{{"id":{n}}}'.encode(), b'{"s":"one"}', b'{"s":"two"}')
             for n in range(30)]  # fmt: skip
    with pytest.raises(AirflowFailException, match=r"orders: sinks differ from the source's tables: kafka: 37 keys"):
        task._judged(Validation("orders", (SinkComparison("kafka", FIGURES, found, 7, ("a note",)),), 90, 1.5))
    said = capsys.readouterr().out
    assert 'different: {"id":3} in t: shop.orders (s)' in said
    assert "a note" in said
    assert '{"id":29}' not in said
    assert "two" not in said
