"""The audit's button to the run's page of Data Docs, and what of expectations is refused when a DAG file is read."""

from __future__ import annotations

import pytest
from airflow.serialization.serialized_objects import DagSerialization

from databus import Expectations, Flow, Mock, Noop
from databus.airflow import flow_dag
from databus.airflow.links import served_docs
from databus.core.errors import ConfigError
from databus.core.flow import Mode

PAGE = "file:///docs/orders/r.html"


def flow(action: str) -> Flow:
    unique = Expectations({"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}}, action)  # type: ignore[arg-type]
    return Flow(name="orders", source=Mock(rows=1), sinks=(Noop(),), expectations=unique)


@pytest.mark.parametrize(("mode", "task"), [("standard", "audit"), ("economy", "transfer")])
def test_the_audit_has_the_button(mode: Mode, task: str) -> None:
    dag = flow_dag(flow("warn"), mode=mode)
    audit = dag.task_dict[task]
    (link,) = audit.operator_extra_links

    assert (link.name, link.get_link(audit, ti_key=None)) == ("Data Docs", "")
    audit.data_docs = "https://docs/page"
    assert link.get_link(audit, ti_key=None) == "https://docs/page"
    stored = next(t for t in DagSerialization.to_dict(dag)["dag"]["tasks"] if t["__var"]["task_id"] == task)
    assert stored["__var"]["_operator_extra_links"] == {"Data Docs": link.xcom_key}
    assert "expect_column_values_to_be_unique(id) (warn)" in (dag.doc_md or "")


@pytest.mark.parametrize(
    ("address", "run_url", "shown"),
    [
        (PAGE, "http://af:8080/dags/orders/runs/r%3A1", "/databus/api/v1/dags/orders/runs/r%3A1/data-docs"),
        ("https://docs/orders/r.html", "http://af:8080/dags/orders/runs/r", "https://docs/orders/r.html"),
        (PAGE, "", PAGE),
        ("", "http://af:8080/dags/orders/runs/r", ""),
    ],
)
def test_a_page_that_no_web_server_has_is_served_by_the_guarded_route(address: str, run_url: str, shown: str) -> None:
    assert served_docs(address, run_url).removeprefix("http://af:8080") == shown


def test_holding_back_rows_by_an_aggregate_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"flow orders: expect_column_values_to_be_unique\(id\) cannot hold back rows"
    ):
        flow_dag(flow("quarantine"))
