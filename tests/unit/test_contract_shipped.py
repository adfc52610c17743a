"""Contract suites as another package meets them."""

from __future__ import annotations

import subprocess
import sys

from databus import SimpleSink
from databus.core.connections import Connection
from databus.core.findings import Level
from databus.ops.health.doctor import _connection
from databus.testing.contract.simple_sink import FixedConnections

_WITHOUT = """
import sys
sys.modules["pytest"] = None
import databus.testing
from databus.core.errors import ConfigError
try:
    import databus.testing.contract
except ConfigError as error:
    print(error.message, error.hint)
"""


def test_pytest_is_needed_and_named() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, timeout=60, check=True)
    assert "needs pytest" in done.stdout
    assert "pip install pytest" in done.stdout


def test_neither_spark_nor_clients_are_loaded() -> None:
    code = "import sys, databus.testing.contract; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not {"pyspark", "airflow", "kazoo", "confluent_kafka", "sqlalchemy"} & set(done.stdout.split())


def test_a_sink_of_another_package_may_take_any_type_of_connection() -> None:
    known = FixedConnections([Connection(conn_id="c", conn_type="http", host="h")])
    assert SimpleSink.conn_type == ""
    assert _connection(known, "c", SimpleSink.conn_type).level is Level.OK
    assert _connection(known, "c", "kafka").level is Level.ERROR
