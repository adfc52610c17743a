"""Servers and Airflow, started once for all tests of the running system."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from databus.demo.airflow_api import AirflowApi
from databus.demo.shop import ShopWriter, create_shop
from databus.sandbox import Sandbox, SandboxOptions
from tests.e2e.airflow_world import AirflowWorld, flow_file, shop_connection, until

SERVERS = ("zookeeper", "kafka", "mysql", "spark", "airflow")
ENVIRONMENT = {
    "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
    # A cancel is noticed at a heartbeat.
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
}


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowWorld]:
    home, dags = tmp_path_factory.mktemp("airflow"), tmp_path_factory.mktemp("dags")
    flow_file(dags, "e2e_connect", max_rows=400)
    flow_file(dags, "e2e_submit", engine="submit")
    flow_file(dags, "e2e_refused", replication_factor=3)
    flow_file(dags, "e2e_outage")
    for name in ("e2e_kill", "e2e_cancel", "e2e_marked"):
        flow_file(dags, name, max_rows=400)
    flow_file(dags, "e2e_cancel_submit", engine="submit", max_rows=2000)
    flow_file(dags, "e2e_schedule", every_s=15)
    options = SandboxOptions(dags_folder=dags, airflow_env=ENVIRONMENT)
    # Below the range from which the kernel takes ports of outgoing connections (32768 on).
    sandbox = Sandbox(home, ports_from=25_000, options=options)
    try:
        sandbox.up(SERVERS)
        with shop_connection(sandbox) as connection, AirflowApi(sandbox.address("airflow")) as api:
            create_shop(connection)
            until("all flows are known", lambda: len(api.dags()) == len(list(dags.glob("*.py"))))
            yield AirflowWorld(sandbox, home, dags, api, connection, ShopWriter(connection, seed=5))
    finally:
        sandbox.destroy()
