"""Servers and Airflow, started once for all tests of the running system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

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


@pytest.fixture(scope="package")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowWorld]:
    kept = os.environ.get("DATABUS_TEST_AIRFLOW")  # home of a sandbox that stays up between runs, with a folder dags
    home, dags = (Path(kept), Path(kept) / "dags") if kept else map(tmp_path_factory.mktemp, ("airflow", "dags"))
    if not kept:
        write_flows(dags)
    options = SandboxOptions(dags_folder=dags, airflow_env=ENVIRONMENT)
    # Below the range from which the kernel takes ports of outgoing connections (32768 on).
    sandbox = Sandbox(home, ports_from=25_000, options=options)
    try:
        if not kept:
            sandbox.up(SERVERS)
        with shop_connection(sandbox) as connection, AirflowApi(sandbox.address("airflow")) as api:
            if kept:
                with connection.cursor() as cursor:
                    cursor.execute("DROP DATABASE IF EXISTS shop")
            create_shop(connection)
            # Each file makes a flow's DAG and its backfill DAG.
            until("all flows are known", lambda: len(api.dags()) == 2 * len(list(dags.glob("*.py"))))
            yield AirflowWorld(sandbox, home, dags, api, connection, ShopWriter(connection, seed=5))
    finally:
        if not kept:
            sandbox.destroy()


def write_flows(dags: Path) -> None:
    """Write the DAG files of all tests."""
    flow_file(dags, "e2e_connect", max_rows=400)
    flow_file(dags, "e2e_submit", engine="submit")
    flow_file(dags, "e2e_refused", replication_factor=3)
    flow_file(dags, "e2e_outage")
    for name in ("e2e_kill", "e2e_cancel", "e2e_marked"):
        flow_file(dags, name, max_rows=400)
    flow_file(dags, "e2e_cancel_submit", engine="submit", max_rows=2000)
    flow_file(dags, "e2e_schedule", every_s=15)
    flow_file(dags, "e2e_backfill", max_rows=400, backfill_s=20)
