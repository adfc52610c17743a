"""Flows as Airflow has stored them: whatever is wrong with one of the DAGs, the others are read."""

from __future__ import annotations

import pytest

from databus import Flow, Memory, Mock
from databus.airflow.api import read_each
from databus.core.errors.config import ConfigError
from databus.web.installation import DagFlow

pytestmark = pytest.mark.airflow
FLOW = Flow(name="orders", source=Mock(tables=("shop.orders",), rows=1), sinks=(Memory(),))


def test_a_note_of_somebodys_own_or_a_broken_package_takes_no_list_away() -> None:
    told = FLOW.to_json()
    carried = {
        "orders": {"flow": told, "spark_conn_id": "spark_default"},
        "note": {"team": "a"},
        "kindless": {"flow": {**told, "source": {}}, "spark_conn_id": "spark_default"},
        "none": None,
    }
    found = read_each(carried, dict.fromkeys(carried, "/dags/x.py"))
    assert found.keys() == {"orders", "note", "kindless"}
    assert isinstance(found["orders"], DagFlow)
    for dag_id in ("note", "kindless"):
        assert isinstance(found[dag_id], ConfigError), dag_id
        assert str(found[dag_id]).count(dag_id), dag_id
