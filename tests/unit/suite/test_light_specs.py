"""Specs load no client and no Arrow: a DAG file that only names a flow stays quick to parse."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = (
    "airflow", "confluent_kafka", "great_expectations", "kazoo", "numba", "numpy", "opensearchpy", "pandas", "pyarrow",
    "pymysql", "pyspark", "sqlalchemy",
)  # fmt: skip
LOADED = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(sys.modules)))
"""


def loaded_by(module: str) -> set[str]:
    found = subprocess.run([sys.executable, "-c", LOADED, module], check=True, capture_output=True, text=True)
    return set(json.loads(found.stdout))


@pytest.mark.parametrize(
    ("module", "own"),
    [
        ("databus.sources.mysql.spec", ("databus.sources.mysql.source",)),
        ("databus.sources.kafka.spec", ("databus.sources.kafka.source",)),
        ("databus.sources.mock.spec", ("databus.sources.mock.source",)),
        ("databus.sinks.kafka.spec", ("databus.sinks.kafka.sink",)),
        (
            "databus.sinks.kafka_mirror.spec",
            ("databus.sinks.kafka_mirror.sink", "databus.sinks.kafka_mirror.topic_sync"),
        ),
        ("databus.sinks.elasticsearch.spec", ("databus.sinks.elasticsearch.sink",)),
        ("databus.extend", ("databus.sinks.simple", "databus.sources.simple")),
        ("databus.sinks.simple", ("databus.sinks.simple_sink",)),
        ("databus.sources.simple", ()),
    ],
)
def test_a_spec_loads_neither_clients_nor_its_own_source_or_sink(module: str, own: tuple[str, ...]) -> None:
    loaded = loaded_by(module)
    assert module in loaded
    assert not loaded & {*HEAVY, *own}


def test_a_session_is_known_without_its_lanes() -> None:
    loaded = loaded_by("databus.runtime.context")
    assert not loaded & {"databus.runtime.live.lane", "databus.runtime.direct.lane", "numpy", "pyspark", "pyarrow"}
