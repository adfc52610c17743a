"""Servers and Airflow, started once for all tests of the running system."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from databus.demo.airflow_api import AirflowApi
from databus.demo.shop import ShopWriter, create_shop
from databus.sandbox import Sandbox, SandboxOptions
from tests.e2e.airflow_world import AirflowWorld, flow_file, shop_connection
from tests.e2e.browser import Page, chromium
from tests.e2e.hidden_till import OUTSIDER
from tests.e2e.login_server import LoginServer, login_server
from tests.e2e.till import Till, till_run
from tests.integration.conftest import NO_PAGES
from tests.integration.kafka_target import forget_kept
from tests.ports import ports_from

SERVERS = ("zookeeper", "kafka", "mysql", "spark", "airflow")
TWO_CLUSTERS = {"test_mirror.py", "test_live_windows.py"}
"""Files with flows between two clusters: Airflow is given connections to what is there as it starts."""
ROOT = Path(__file__).parents[2]
ROLES = {"viewer": "viewer", "user": "user", "op": "op", "admin": "admin", OUTSIDER: "viewer", "nobody": ""}
ENVIRONMENT = {
    "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
    "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "include"))),
    # A cancel is noticed at a heartbeat.
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    # A file that changes is read at once, unless it is being read just then; to read all every 5 seconds takes a core.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "150",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "2",
    # As Airflow comes; the sandbox's five looks a second are for a person who waits.
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
}


def write_dags(dags: Path) -> None:
    """Write the DAG files of the flows that Airflow starts with; modules add their own."""
    flow_file(dags, "e2e_connect", max_rows=400)
    flow_file(dags, "e2e_submit", engine="submit")
    flow_file(dags, "e2e_refused", replication_factor=3)
    for name in ("e2e_kill", "e2e_cancel"):
        flow_file(dags, name, max_rows=400, tasks=None)
    flow_file(dags, "e2e_schedule", every_s=15)
    flow_file(dags, "e2e_backfill", max_rows=400, backfill_s=20)


@pytest.fixture(scope="package")
def airflow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowWorld]:
    """All servers; DATABUS_TEST_WORLD and DATABUS_TEST_DAGS name a home and a folder that stay between runs."""
    kept = os.environ.get("DATABUS_TEST_WORLD")
    home = Path(kept) if kept else tmp_path_factory.mktemp("airflow")
    dags = Path(os.environ["DATABUS_TEST_DAGS"]) if kept else tmp_path_factory.mktemp("dags")
    write_dags(dags)
    options = SandboxOptions(
        dags_folder=dags, plugins_folder=ROOT / "plugins", airflow_env=ENVIRONMENT, spark_conf=NO_PAGES
    )
    two = not TWO_CLUSTERS.isdisjoint(item.path.name for item in request.session.items)
    # Below the range from which the kernel takes ports of outgoing connections (32768 on).
    sandbox = Sandbox(home, ports_from=ports_from(25_000), options=options)
    try:
        sandbox.up((*SERVERS, "kafka-b") if two else SERVERS)
        with shop_connection(sandbox) as connection, AirflowApi(sandbox.address("airflow")) as api:
            with connection.cursor() as cursor:
                cursor.execute("DROP DATABASE IF EXISTS shop")
            create_shop(connection)
            world = AirflowWorld(sandbox, home, dags, api, connection, ShopWriter(connection, seed=5))
            world.knows({file.stem for file in dags.glob("*.py")})
            yield world
    finally:
        forget_kept()  # while the broker is there: later it is waited for
        if not kept:
            sandbox.destroy()


@pytest.fixture(scope="package")
def till(airflow: AirflowWorld) -> Till:
    return till_run(airflow)


@pytest.fixture(scope="package")
def server(airflow: AirflowWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginServer]:
    folder = tmp_path_factory.mktemp("login_server")
    with login_server(airflow.sandbox, "tests.e2e.hidden_till.HiddenTill", ROLES, folder) as server:
        yield server


@pytest.fixture(scope="package")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(26_390, tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """The one tab of all tests; what it shows of Airflow would ask again every few seconds until the next test."""
    yield browser
    browser.open("about:blank")


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, which only tests need: npm brings it with what builds the pages."""
    file = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
    if not file.is_file():
        if shutil.which("npm") is None:
            pytest.skip("no npm, which brings axe-core")
        brought = subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
            cwd=ROOT / "ui", capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if brought.returncode:
            pytest.skip(f"npm cannot bring axe-core: {brought.stderr[-300:]}")
    return file.read_text()
