"""Pages of one flow and of traces on a real Airflow, as a person sees them in a browser, in light and dark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from databus.records.reports import quarantined
from tests.e2e.airflow_world import AirflowWorld
from tests.e2e.browser import Page, look
from tests.e2e.login_server import LoginServer
from tests.e2e.till import ITEMS, ORDERS, VISITS, Till

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

READ = len(ORDERS) + len(ITEMS) + len(VISITS)
HELD = sum(email is None for _, email, _, _ in ORDERS)
WHERE = {
    "flow": "[data-testid=databus-flow] [data-testid=facts]",
    "trace": "[data-testid=steps]",
    "nothing": "[data-testid=nothing]",
    "flows": "[data-testid=databus-flows] tbody tr",
}


def address(root: str, till: Till, where: str, q: str = "") -> str:
    if where == "flow":
        return f"{root}/dags/{till.name}/plugin/databus-flow"
    if where == "flows":
        return f"{root}/plugin/databus?q={till.name}"
    return f"{root}/plugin/databus-trace?q={quote(q, safe='')}"


def texts(page: Page, selector: str) -> list[str]:
    found: list[str] = page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)")
    return found


def links(page: Page, selector: str) -> list[str]:
    found: list[str] = page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.href)")
    return found


def test_a_flow_shows_what_is_wrong_then_figures_steps_and_batches(till: Till, page: Page) -> None:
    page.listen()
    page.open(address(till.run.api.root, till, "flow"))
    assert page.text('[data-testid="state"]') == "! Rows held"
    assert page.text('[data-testid="cause"] b') == f"checks hold back {HELD} rows"
    facts = dict(fact.split("\n")[:2] for fact in texts(page, '[data-testid="facts"] > div'))
    assert (facts["Held"], facts["Gaps"]) == (str(HELD), "0")
    checks = page.text('[data-testid="node checks"]')
    assert f"not_null(email)@{till.name}.orders (quarantine){HELD} of {len(ORDERS)}" in checks
    assert f"{HELD} rows held back" in page.text('[data-testid="node quarantine"]')
    assert f"{till.name}" in page.text('[data-testid="node sink kafka"]')
    assert f"{till.name}.*" in page.text('[data-testid="node source"]')
    batches = [row.split("\t") for row in texts(page, "table.dense tbody tr") if "adds up" in row]
    assert sum(int(cells[4]) for cells in batches) == READ
    run = f"{till.run.api.root}/dags/{till.name}/runs/{quote(till.run.run_id, safe='')}/plugin/databus-run"
    assert set(links(page, "table.dense tbody tr td:last-child a")) == {run}
    for part in ("settings", "schemas"):
        page.value(f"document.querySelector('[data-testid={part}]').open = true")
    assert f'"name": "{till.name}"' in page.text("[data-testid=settings] pre")
    assert "email" in page.text("[data-testid=schemas] table")
    assert len(page.value("[...document.querySelectorAll('.chart svg')].map(s => s.getAttribute('aria-label'))")) == 2
    page.value("[...document.querySelectorAll('[aria-label=Window] button')].find(b => b.textContent === '7d').click()")
    page.waits_for("location.search.includes('window=7d') && document.body.innerText.includes('Last 7 days')")
    assert page.complaints == []


def test_the_dashboard_counts_flows_by_state_and_names_the_worst(
    till: Till, page: Page, axe: str, tmp_path: Path
) -> None:
    root = till.run.api.root
    page.listen()
    page.open(root)
    assert page.text("[data-testid=databus-strip] h2") == "Databus flows"
    assert links(page, "[data-testid=databus-strip] h2 a") == [f"{root}/plugin/databus"]
    (held,) = (one for one in texts(page, "[data-testid=databus-strip] .pill") if "Rows held" in one)
    assert int(held.rpartition(" ")[2]) >= 1
    assert f"{root}/plugin/databus?state=Rows%20held" in links(page, "[data-testid=databus-strip] .pill")
    worst = texts(page, "[data-testid=worst] li")
    assert 1 <= len(worst) <= 5
    assert [line[0] for line in worst] == sorted((line[0] for line in worst), key="✕!".index)
    assert len(links(page, "[data-testid=worst] li a")) == len(worst)
    for dark in (False, True):
        page.dark(on=dark)
        assert page.violations(axe) == []
        look(page, f"dashboard-{'dark' if dark else 'light'}", tmp_path)
    page.value("document.querySelector('[data-testid=databus-strip] h2 a').click()")
    page.text(WHERE["flows"])
    assert page.complaints == []


def test_a_page_changes_in_place_when_it_is_refreshed(till: Till, page: Page) -> None:
    page.open(address(till.run.api.root, till, "flow"))
    page.text(WHERE["flow"])
    box = "JSON.stringify([...document.querySelectorAll('.databus > *')].map(e => e.getBoundingClientRect().top))"
    kept = "document.querySelector('[data-testid=graph]').kept"
    before = page.waits_for(box)
    page.value(f"{kept} = true")
    asked = "performance.getEntriesByType('resource').filter(e => e.name.includes('/flow?')).length"
    count = page.value(asked)
    page.waits_for(f"{asked} >= {count} + 2")
    assert page.value(kept) is True  # the same element, not a new page
    assert page.value(box) == before


def test_a_dag_without_a_recorded_flow_says_so(till: Till, page: Page) -> None:
    page.open(f"{till.run.api.root}/dags/e2e_refused/plugin/databus-flow")
    assert page.text('[data-testid="no-flow"]').startswith("No batch is recorded of a flow that this DAG runs.")


def test_a_record_is_traced_back_to_its_row(till: Till, page: Page) -> None:
    page.listen()
    page.open(address(till.run.api.root, till, "trace", f"{till.name}:0:0"))
    page.text(WHERE["trace"])
    source, batch, record = texts(page, '[data-testid="steps"] > li')[:3]
    assert "Committed at the source" in source
    assert f"{till.name}." in source
    assert "Batch " in batch
    assert links(page, '[data-testid="step batch"] a') == [
        f"{till.run.api.root}/dags/{till.name}/runs/{quote(till.run.run_id, safe='')}/plugin/databus-run"
    ]
    assert "Kafka record" in record
    assert f"{till.name}:0:0" in record
    assert links(page, '[data-testid="journey"] h2 + span a') == [address(till.run.api.root, till, "flow")]
    page.waits_for("document.querySelectorAll('[data-testid=changed] tbody tr').length")
    columns = dict(row.split("\t", 1) for row in texts(page, '[data-testid="changed"] tbody tr'))
    assert "order_id" in columns
    assert columns["order_id"].strip().startswith("+")
    assert page.complaints == []


def test_a_row_that_is_held_back_is_traced_by_its_event(airflow: AirflowWorld, till: Till, page: Page) -> None:
    held = quarantined(airflow.shell()["DATABUS_RECORDS_URL"], till.name)[0]
    page.open(address(till.run.api.root, till, "trace", held.event_id))
    back = page.text('[data-testid="step held"]')
    assert "Held back by check" in back
    assert "not_null(email)" in back
    assert "No sink of this flow shows the row." in page.text('[data-testid="changed"]')


def test_what_is_not_found_names_what_was_looked_through(till: Till, page: Page) -> None:
    page.open(address(till.run.api.root, till, "trace", "3e11fa47-71ca-11e1-9e33-c80aa9429562:884213"))
    assert "Not found." in page.text('[data-testid="nothing"]')
    looked = page.text('[data-testid="looked"]')
    assert looked.startswith("Looked through ")
    assert till.name in looked
    page.open(address(till.run.api.root, till, "trace", "what is this"))
    assert "That cannot be traced." in page.text('[data-testid="nothing"]')
    assert "trace_query_unknown" in page.text('[data-testid="nothing"] code')


def test_values_are_hidden_from_those_who_may_only_look(till: Till, server: LoginServer, page: Page) -> None:
    page.open(f"{server.root}/databus/static/main.js")
    for user, seen in (("viewer", "values-hidden"), ("user", "changed")):
        page.send("Network.setCookie", name="_token", value=server.token(user), url=server.root)
        page.open(address(server.root, till, "trace", f"{till.name}:0:0"))
        page.text(WHERE["trace"])
        page.text(f"[data-testid={seen}]")
        rows = "document.querySelectorAll('[data-testid=changed] tbody tr').length"
        if user == "viewer":
            assert "need the right to edit DAG" in page.text("[data-testid=values-hidden]")
            assert page.value(rows) == 0
        else:
            page.waits_for(rows)
    page.send("Network.clearBrowserCookies")


def test_pages_lead_from_all_flows_to_a_change(till: Till, page: Page) -> None:
    root = till.run.api.root
    page.open(address(root, till, "flows"))
    page.text(WHERE["flows"])
    assert links(page, f'[data-testid="flow {till.name}"] td:nth-child(2) > a') == [address(root, till, "flow")]
    assert links(page, ".tabs a") == [f"{root}/plugin/databus{of}" for of in ("", "-trace", "-mirrors", "-audit")]
    run = f"{root}/dags/{till.name}/runs/{quote(till.run.run_id, safe='')}/plugin/databus-run"
    page.open(run)
    page.text('[data-testid="counts"]')
    (first, *_) = [link for link in links(page, "td a") if "databus-trace" in link]
    page.open(first)
    assert "Kafka record" in page.text(WHERE["trace"])


def test_the_keyboard_is_enough(till: Till, page: Page) -> None:
    page.open(address(till.run.api.root, till, "trace"))
    page.text(".databus .ask")
    page.value("document.activeElement?.blur()")
    page.send("Input.dispatchKeyEvent", type="keyDown", key="/", text="/")
    page.waits_for("document.activeElement.getAttribute('aria-label') === 'Change to trace'")
    page.send("Input.insertText", text=f"{till.name}:0:0")
    page.send("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r", windowsVirtualKeyCode=13)
    page.text(WHERE["trace"])
    assert page.value("new URLSearchParams(location.search).get('q')") == f"{till.name}:0:0"
    page.open(address(till.run.api.root, till, "flow"))
    page.text(WHERE["flow"])
    rooms = "[...document.querySelectorAll('.databus .room')]"
    assert (
        page.value(f"{rooms}.filter(e => e.scrollWidth > e.clientWidth && e.tabIndex < 0).length") == 0
    )  # what is scrolled is reached by Tab


def test_times_are_of_the_zone_that_was_chosen_in_the_host(till: Till, page: Page) -> None:
    page.open(address(till.run.api.root, till, "flow"))
    page.text(WHERE["flow"])
    try:
        for zone in ("Asia/Tokyo", "America/Lima"):
            page.value(f"localStorage.setItem('timezone', {json.dumps(zone)})")
            page.open(address(till.run.api.root, till, "flow"))
            page.text(WHERE["flow"])
            assert zone in page.text(".databus .end")
    finally:
        page.value("localStorage.removeItem('timezone')")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("where", WHERE)
def test_everybody_can_read_it(till: Till, page: Page, axe: str, where: str, dark: bool, tmp_path: Path) -> None:
    q: Any = {"trace": f"{till.name}:0:0", "nothing": "bin.999999:4"}.get(where, "")
    page.open(address(till.run.api.root, till, where, q))
    page.text(WHERE[where])
    if where == "trace":
        page.waits_for("document.querySelectorAll('[data-testid=changed] tbody tr').length")
    page.dark(on=dark)
    assert page.violations(axe) == []
    look(page, f"till-{where}-{'dark' if dark else 'light'}", tmp_path)
