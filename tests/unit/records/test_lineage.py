"""OpenLineage datasets made from a run's sums."""

from __future__ import annotations

import pytest
from openlineage.client.serde import Serde

from databus.core.batches.counts import TableCounts
from databus.core.batches.receipts import WriteReceipt
from databus.core.connections import Connection
from databus.records.lineage.datasets import declared, namespace_of, recorded
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from databus.records.summary import summarize
from tests.contract.record_samples import report


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"conn_type": "mysql", "host": "db"}, "mysql://db:3306"),
        ({"conn_type": "mysql", "host": "db", "port": 3307, "login": "u"}, "mysql://db:3307"),
        ({"conn_type": "kafka", "extra": {"bootstrap.servers": "a:9093,b:9094"}}, "kafka://a:9093"),
        ({"conn_type": "opensearch", "host": "https://s", "port": 443}, "opensearch://s:443"),
        ({"conn_type": "elasticsearch"}, "elasticsearch://localhost:9200"),
        ({"conn_type": "other", "host": "h"}, "other://h"),
    ],
)
def test_namespaces_follow_the_naming_specification(fields, expected):
    assert namespace_of(Connection(conn_id="c", **fields)) == expected


def test_a_run_names_what_it_read_and_wrote(store):
    search = WriteReceipt(
        "search", 0, 1, 3, {}, (), {"shop.orders": {"created": 2, "updated": 1, "superseded": 9}, "": {"retries": 1}}
    )
    quiet = WriteReceipt("console", 0, 1, 3, {}, (), {"out": {"records": 3}})
    first = report(1, "r")
    tables = {**first.tables, "(statements)": TableCounts(1, 1)}
    SqlRecorder(store).record(report(1, "r", receipts=(*first.receipts, search, quiet), tables=tables))
    SqlRecorder(store).record(report(2, "r"))
    summary = summarize("orders_to_kafka", "r", Reports(store).batches("orders_to_kafka", "r"))
    lineage = recorded(summary, "mysql://db:3306", {"kafka": "kafka://k:9092", "search": "opensearch://s:9200"})
    items, orders = (Serde.to_dict(dataset) for dataset in lineage.inputs)
    assert (items["namespace"], items["name"]) == ("mysql://db:3306", "shop.items")
    assert orders["inputFacets"]["inputStatistics"]["rowCount"] == 20
    assertions = {a["name"]: a for a in orders["inputFacets"]["dataQualityAssertions"]["assertions"]}
    assert assertions["not_null(email)"]["success"] is False
    assert (assertions["not_null(email)"]["column"], assertions["not_null(email)"]["actual"]) == ("email", "2")
    assert assertions["volume"]["success"] is True
    outputs = [Serde.to_dict(dataset) for dataset in lineage.outputs]
    assert [(o["namespace"], o["name"], o["outputFacets"]["outputStatistics"]["rowCount"]) for o in outputs] == [
        ("kafka://k:9092", "cdc.orders", 20),
        ("opensearch://s:9200", "shop.orders", 3),
    ]
    facet = Serde.to_dict(lineage.run_facets["databus"])["values"]
    assert (facet["batches"], facet["start"]["pos"], facet["end"]["pos"]) == ([1, 2], 100, 300)
    assert facet["rows"]["read"] == 25


def test_a_flow_declares_its_datasets_before_it_runs():
    lineage = declared("mysql://db:3306", ["shop.*"], {"kafka://k:9092": ["cdc.{table}"]}, "f")
    assert [(d.namespace, d.name) for d in lineage.inputs] == [("mysql://db:3306", "shop.*")]
    assert [(d.namespace, d.name) for d in lineage.outputs] == [("kafka://k:9092", "cdc.{table}")]
    assert Serde.to_dict(lineage.run_facets["databus"])["values"] == {"flow": "f"}
