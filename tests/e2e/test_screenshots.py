"""Pictures of each page in light and dark, of a shop that goes on changing: `make screenshots` keeps them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.e2e.airflow_world import AirflowWorld, until
from tests.e2e.browser import Page, look
from tests.integration.shop_flow import writing

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(1500)]

NAME = "shop_to_kafka"
FLOW_FILE = """
from datetime import timedelta

from databus import DropColumns, Filter, Flow, InRange, Kafka, Mask, MysqlBinlog, NotNull
from databus.airflow import flow_dag

flow = Flow(
    name="shop_to_kafka",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.*",), start="latest"),
    transforms=(
        Filter("quantity < 9", tables=("shop.order_items",)),
        DropColumns("card_number", tables=("shop.orders",)),
        Mask("email", tables=("shop.customers",)),
    ),
    checks=(NotNull("name", tables=("shop.customers",)), InRange("quantity", maximum=7, tables=("shop.order_items",))),
    sinks=(
        Kafka(conn_id="kafka_east", topic="cdc.trade", name="trade", routes=("shop.orders", "shop.order_items")),
        Kafka(conn_id="kafka_east", topic="cdc.people", name="people", routes=("shop.customers", "shop.products")),
    ),
    description="shop → cdc.trade, cdc.people",
)
dag = flow_dag(flow, every=timedelta(seconds=30), is_paused_upon_creation=False)
"""
SECONDS = 150
"""Time that the shop changes before pictures are taken: so that charts show something."""


@pytest.fixture(scope="module")
def shop(airflow: AirflowWorld) -> Iterator[str]:
    """The flow's newest run, while the shop changes."""
    (airflow.dags / f"{NAME}.py").write_text(FLOW_FILE)
    airflow.knows({NAME})
    began = time.monotonic()
    with writing(airflow.writer, 20, 0.3):
        until("the flow runs", lambda: airflow.runs(NAME))
        until("a while", lambda: time.monotonic() - began > SECONDS, SECONDS * 3)
        yield airflow.runs(NAME)[0]["dag_run_id"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "path", "ready", "height"),
    [
        ("flows", "plugin/databus", "[data-testid=databus-flows] tbody tr", 620),
        ("flow", "dags/{dag}/plugin/databus-flow", "[data-testid=facts]", 1320),
        ("quality", "dags/{dag}/plugin/databus-flow?view=quality", "[data-testid=checks] tbody tr", 760),
        ("ledger", "dags/{dag}/plugin/databus-flow?view=ledger", "[data-testid=told]", 620),
        ("audit", "plugin/databus-audit?dag={dag}", "[data-testid=audit] tbody tr", 620),
        ("run", "dags/{dag}/runs/{run}/plugin/databus-run", "[data-testid=counts]", 1200),
        ("trace", "plugin/databus-trace?q=cdc.people:0:0", "[data-testid=changed] tbody tr", 760),
        ("trace-nothing", "plugin/databus-trace?q=bin.999999:4", "[data-testid=nothing]", 520),
    ],
)
def test_each_page_is_pictured(
    airflow: AirflowWorld,
    shop: str,
    page: Page,
    tmp_path: Path,
    name: str,
    path: str,
    ready: str,
    height: int,
    theme: str,
) -> None:
    page.send("Emulation.setDeviceMetricsOverride", width=1440, height=height, deviceScaleFactor=1, mobile=False)
    try:
        page.open(f"{airflow.api.root}/{path.format(dag=NAME, run=quote(shop, safe=''))}")
        page.text(ready)
        page.dark(on=theme == "dark")
        time.sleep(1)  # the host's own parts come in by and by
        look(page, f"{name}-{theme}", tmp_path)
    finally:
        page.send("Emulation.clearDeviceMetricsOverride")
