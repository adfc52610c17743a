"""The tab on a run in a real Airflow, seen by a headless Chromium, and who may not see it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from databus.demo.airflow_api import AirflowApi
from databus.records.recorder import SqlRecorder
from databus.sandbox import Sandbox, SandboxOptions
from tests.contract.record_samples import report
from tests.e2e.airflow_world import flow_file, until
from tests.e2e.browser import Browser, Page
from tests.e2e.one_dag_hidden import HIDDEN

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
SHOWN = "tab_shown"
ENVIRONMENT = {
    "AIRFLOW__CORE__AUTH_MANAGER": "tests.e2e.one_dag_hidden.OneDagHidden",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
    "PYTHONPATH": str(ROOT),
}


@dataclass
class Airflow:
    """An Airflow whose DAGs are paused: what a run did is put into the records by the test."""

    address: str
    run_id: str
    sandbox: Sandbox

    def data(self, dag: str, **options: object) -> httpx.Response:
        path = f"/databus/api/v1/dags/{dag}/runs/{quote(self.run_id, safe='')}"
        return httpx.get(f"http://{self.address}{path}", timeout=120, **options)  # type: ignore[arg-type]

    @property
    def token(self) -> dict[str, str]:
        answer = httpx.get(f"http://{self.address}/auth/token", timeout=120).raise_for_status()
        return {"Authorization": f"Bearer {answer.json()['access_token']}"}


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    home, dags = tmp_path_factory.mktemp("tab"), tmp_path_factory.mktemp("dags")
    for name in (SHOWN, HIDDEN):
        flow_file(dags, name)
    options = SandboxOptions(dags_folder=dags, plugins_folder=ROOT / "plugins", airflow_env=ENVIRONMENT)
    sandbox = Sandbox(home, ports_from=26_300, options=options)
    try:
        sandbox.up(("airflow",))
        address = sandbox.address("airflow")
        with AirflowApi(address) as api, SqlRecorder.open(f"sqlite:///{home / 'records.db'}") as recorder:
            until("the flow is known", lambda: SHOWN in api.dags())
            run_id = api.trigger(SHOWN)
            for dag in (SHOWN, HIDDEN):
                for number in range(1, 13):
                    recorder.record(report(number, run_id, flow=dag))
        yield Airflow(address, run_id, sandbox)
    finally:
        sandbox.destroy()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = os.environ.get("DATABUS_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if program is None:
        pytest.skip("no Chromium: install one, or name it in DATABUS_CHROMIUM")
    with Browser(Path(program), 26_390, tmp_path_factory.mktemp("profile")) as page:
        yield page


def test_data_is_only_for_those_who_may_see_the_dag(airflow: Airflow) -> None:
    assert airflow.data(SHOWN, headers=airflow.token).json()["counts"]["read"] == 144
    assert airflow.data(HIDDEN, headers=airflow.token).status_code == 403
    assert airflow.data(HIDDEN).status_code == 403
    for path in ("/databus/docs", "/databus/openapi.json"):
        assert httpx.get(f"http://{airflow.address}{path}", timeout=120).status_code == 404


def test_the_tab_shows_what_the_run_did(airflow: Airflow, page: Page, tmp_path: Path) -> None:
    run = quote(airflow.run_id, safe="")
    page.open(f"http://{airflow.address}/dags/{SHOWN}/runs/{run}/plugin/databus-run")
    counts = page.text('[data-testid="counts"]')
    assert counts == "✓ adds up: read 144 = 12 filtered + 12 quarantined + 120 dispatched"
    shown = page.text('[data-testid="databus-run"]')
    for part in ("shop.orders", "shop.items", "cdc.orders[0]", "not_null(email)", "✗ violated", "Batches (12)"):
        assert part in shown
    nodes = page.value("[...document.querySelectorAll('[data-testid^=\"node \"]')].map(n => n.dataset.testid)")
    assert sorted(nodes) == [
        "node flow", "node in:shop.items", "node in:shop.orders", "node kafka:cdc.orders", "node quarantine",
    ]  # fmt: skip
    file = tmp_path / "tab.png"
    page.screenshot(file)
    assert file.stat().st_size > 10_000


def test_a_session_of_the_browser_is_refused_as_well(airflow: Airflow, page: Page) -> None:
    run = quote(airflow.run_id, safe="")
    for dag, path, status in ((SHOWN, run, 200), (SHOWN, "other", 404), (HIDDEN, run, 403)):
        asked = f"fetch('/databus/api/v1/dags/{dag}/runs/{path}').then(r => r.status)"
        answer = page.send("Runtime.evaluate", expression=asked, awaitPromise=True, returnByValue=True)
        assert answer["result"]["value"] == status
