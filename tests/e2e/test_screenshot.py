"""The README's picture: the tab of a run that a real Airflow made (`make screenshot` keeps it)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.airflow_world import AirflowWorld
from tests.e2e.browser import chromium
from tests.e2e.test_run_tab import tab
from tests.e2e.till import till_run

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

WIDTH, HEIGHT = 1280, 900


def test_the_tab_of_a_run_is_drawn(airflow: AirflowWorld, tmp_path: Path) -> None:
    till = till_run(airflow, "till")
    file = Path(os.environ.get("DATABUS_TEST_PICTURES") or tmp_path) / "run-tab.png"
    with chromium(26_790, tmp_path / "profile") as page:
        page.send(
            "Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False
        )  # fmt: skip
        page.open(tab(till.run.api.root, till))
        assert page.text('[data-testid="counts"]').startswith("✓ adds up: read ")
        assert page.text('[data-testid="node flow"]')
        page.screenshot(file)
    assert file.read_bytes().startswith(b"\x89PNG")
    assert file.stat().st_size > 30_000
