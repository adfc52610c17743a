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

from databus.records.data_docs import DataDocs
from databus.records.recorder import SqlRecorder
from tests.contract.record_samples import report
from tests.e2e.airflow_world import AirflowWorld, flow_file
from tests.e2e.browser import Browser, Page
from tests.e2e.one_dag_hidden import HIDDEN

pytestmark = pytest.mark.integration

SHOWN = "tab_shown"


@dataclass
class Tab:
    """Pages of a run of a paused DAG: what it did is put into the records by the test."""

    address: str
    run_id: str

    def data(self, dag: str, below: str = "", **options: object) -> httpx.Response:
        path = f"/databus/api/v1/dags/{dag}/runs/{quote(self.run_id, safe='')}{below}"
        return httpx.get(f"http://{self.address}{path}", timeout=120, **options)  # type: ignore[arg-type]

    @property
    def token(self) -> dict[str, str]:
        answer = httpx.get(f"http://{self.address}/auth/token", timeout=120).raise_for_status()
        return {"Authorization": f"Bearer {answer.json()['access_token']}"}


@pytest.fixture(scope="module")
def tab(airflow: AirflowWorld) -> Tab:
    for name in (SHOWN, HIDDEN):
        flow_file(airflow.dags, name, every_s=60)
    airflow.knows({SHOWN})
    run_id = airflow.api.trigger(SHOWN)
    with SqlRecorder.open(f"sqlite:///{airflow.home / 'records.db'}") as recorder:
        for dag in (SHOWN, HIDDEN):
            for number in range(1, 13):
                recorder.record(report(number, run_id, flow=dag))
            # Where the API server looks for them by default, below AIRFLOW_HOME.
            docs = DataDocs(airflow.home / "airflow" / "data" / "databus" / "data_docs").page(dag, run_id)
            docs.parent.mkdir(parents=True, exist_ok=True)
            docs.write_text(f"<title>docs</title><p id='docs'>Validation of {dag}</p>")
    return Tab(airflow.sandbox.address("airflow"), run_id)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = os.environ.get("DATABUS_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if program is None:
        pytest.skip("no Chromium: install one, or name it in DATABUS_CHROMIUM")
    with Browser(Path(program), 26_390, tmp_path_factory.mktemp("profile")) as page:
        yield page


def test_data_is_only_for_those_who_may_see_the_dag(tab: Tab) -> None:
    assert tab.data(SHOWN, headers=tab.token).json()["counts"]["read"] == 144
    assert tab.data(HIDDEN, headers=tab.token).status_code == 403
    assert tab.data(HIDDEN).status_code == 403
    for path in ("/databus/docs", "/databus/openapi.json"):
        assert httpx.get(f"http://{tab.address}{path}", timeout=120).status_code == 404


def test_the_tab_shows_what_the_run_did(tab: Tab, page: Page, tmp_path: Path) -> None:
    run = quote(tab.run_id, safe="")
    page.open(f"http://{tab.address}/dags/{SHOWN}/runs/{run}/plugin/databus-run")
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


def test_data_docs_are_only_for_those_who_may_see_the_dag(tab: Tab) -> None:
    assert "Validation of tab_shown" in tab.data(SHOWN, "/data-docs", headers=tab.token).text
    # Whoever asks is an administrator here, but for the DAG that is hidden from all.
    assert tab.data(HIDDEN, "/data-docs", headers=tab.token).status_code == 403
    assert tab.data(HIDDEN, "/data-docs").status_code == 403


def test_data_docs_are_opened_from_the_run(tab: Tab, page: Page) -> None:
    page.open(f"http://{tab.address}/dags/{SHOWN}/runs/{quote(tab.run_id, safe='')}/plugin/databus-run")
    assert page.text('[data-testid="data-docs"]').startswith("Data Docs")
    # In this tab: a browser without a person opens no second one.
    page.value(
        "(a => { a.target = '_self'; a.click(); return true; })(document.querySelector('[data-testid=\"data-docs\"]'))"
    )
    assert page.text("#docs") == f"Validation of {SHOWN}"
    assert page.value("self.origin") == "null"  # apart from Airflow: none of its cookies, none of its pages
    page.open(f"http://{tab.address}/dags/{SHOWN}")


def test_a_session_of_the_browser_is_refused_as_well(tab: Tab, page: Page) -> None:
    run = quote(tab.run_id, safe="")
    for dag, path, status in ((SHOWN, run, 200), (SHOWN, "other", 404), (HIDDEN, run, 403)):
        asked = f"fetch('/databus/api/v1/dags/{dag}/runs/{path}').then(r => r.status)"
        answer = page.send("Runtime.evaluate", expression=asked, awaitPromise=True, returnByValue=True)
        assert answer["result"]["value"] == status
