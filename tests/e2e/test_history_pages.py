"""Pages of a flow's checks, ledger and audit on a real Airflow, as a person sees them, and what was done."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.e2e.airflow_world import AirflowWorld
from tests.e2e.browser import Page, look
from tests.e2e.login_server import LoginServer
from tests.e2e.test_pages import links, texts
from tests.e2e.till import ITEMS, ORDERS, Till

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

HELD = sum(email is None for _, email, _, _ in ORDERS)
READY = {
    "quality": "[data-testid=checks] tbody tr",
    "ledger": "[data-testid=told]",
    "audit": "[data-testid=audit] tbody tr",
    "audits": "[data-testid=databus-audit] [data-testid=audit] tbody tr",
}
REASON = "a bad deploy"
CHOOSE = (
    "((e, text) => { Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, 'value').set.call(e, text);"
    "e.dispatchEvent(new Event('change', {bubbles: true})); return true; })"
)
"""Function that chooses an entry of a list as a person does."""


@contextmanager
def fetching(page: Page, change: str, asked: tuple[str, str] = ("", "")) -> Iterator[None]:
    """Have each page's `fetch` ask with another text in its address, and pass its `answer` through JavaScript."""
    script = f"""
        const real = window.fetch;
        window.fetch = async (given, ...more) => {{
            const url = typeof given === 'string' ? given.replace(...{json.dumps(asked)}) : given;
            const answer = await real(url, ...more);
            {change}
        }};
    """
    page.send("Page.enable")
    number = page.send("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    try:
        yield
    finally:
        page.send("Page.removeScriptToEvaluateOnNewDocument", identifier=number)
        page.send("Page.disable")


def address(root: str, till: Till, where: str) -> str:
    if where == "audits":
        return f"{root}/plugin/databus-audit?dag={till.name}"
    return f"{root}/dags/{till.name}/plugin/databus-flow?view={where}"


def cells(page: Page, selector: str) -> list[list[str]]:
    found: list[list[str]] = page.value(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(r => [...r.cells].map(c => c.innerText))"
    )
    return found


def command(airflow: AirflowWorld, *arguments: str) -> None:
    """Run the command as a person does in a shell of Airflow's host."""
    done = subprocess.run(
        ["databus", *arguments], env=airflow.shell(DATABUS_DAGS=str(airflow.dags)), capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def paused(airflow: AirflowWorld, till: Till) -> Till:
    """The till, paused as a page does it, and let go on by the command."""
    token = httpx.get(f"{airflow.api.root}/auth/token", timeout=60).json()["access_token"]
    sent = {"Authorization": f"Bearer {token}", "If-Match": "*", "Idempotency-Key": secrets.token_hex(8)}
    address = f"{airflow.api.root}/databus/api/v1/dags/{till.name}/checkpoint/pause"
    httpx.post(address, json={"reason": REASON}, headers=sent, timeout=120).raise_for_status()
    command(airflow, "checkpoint", "resume", till.name, "--reason", "mended", "--execute")
    return till


def test_checks_stand_by_what_they_found_with_their_runs(till: Till, page: Page) -> None:
    page.listen()
    page.open(address(till.run.api.root, till, "quality"))
    page.text(READY["quality"])
    found = cells(page, "[data-testid=checks] tbody tr")
    states = [row[0].split("\n")[-1].strip("✕✓– ") for row in found]
    assert states == sorted(states, key=["Violated", "Could not be judged", "Not judged", "Met"].index)
    held = next(row for row in found if row[1] == "not_null(email)")
    assert held[2] == f"{till.name}.orders"
    assert held[3].startswith("quarantine")
    assert held[4:7] == [str(len(ORDERS)), str(HELD), "10 %"]
    assert held[-1] == str(HELD)
    bars = page.value("[...document.querySelectorAll('.bars')].map(s => s.getAttribute('aria-label'))")
    assert bars[found.index(held)] == "judged in 1 run, violated in 1, at most 10 %"
    assert "violated in the newest run" in page.text("[data-testid=verdict]")
    root = till.run.api.root
    assert links(page, "[data-testid=checks] a") == [f"{root}/dags/{till.name}/plugin/databus-quarantine"]
    assert links(page, "[data-testid=runs] tbody a")[0].endswith("/plugin/databus-run")
    assert page.complaints == []


def test_a_check_that_could_not_be_judged_is_not_told_as_met(till: Till, page: Page) -> None:
    """The server's own answer, with an error in place of what the newest run found of each check."""
    change = """
        if (!String(url).includes('/quality/checks')) return answer;
        const told = await answer.json();
        told.runs[0].success = false;
        for (const check of told.checks) {
            const error = check.error = 'no such column';
            check.runs.splice(-1, 1, {evaluated: 0, violations: 0, violating_percent: null, met: false, error});
        }
        return new Response(JSON.stringify(told), {status: 200, headers: {'Content-Type': 'application/json'}});
    """
    with fetching(page, change):
        page.listen()
        page.open(address(till.run.api.root, till, "quality"))
        page.text(READY["quality"])
        found = cells(page, "[data-testid=checks] tbody tr")
        assert {row[0].split("\n")[-1].strip("! ") for row in found} == {"Could not be judged"}
        said = page.text("[data-testid=verdict]")
        assert said == f"! {len(found)} check{'s' if len(found) > 1 else ''} could not be judged in the newest run"
        assert page.complaints == []


def test_the_band_says_what_became_of_the_log_column_by_column(till: Till, page: Page) -> None:
    page.listen()
    page.open(address(till.run.api.root, till, "ledger"))
    page.text(READY["ledger"])
    assert page.text("[data-testid=verdict]") == "✓ adds up, without a gap"
    facts = dict(fact.split("\n")[:2] for fact in texts(page, "[data-testid=facts] > div"))
    numbers = {name: int(facts[name].replace(",", "")) for name in ("Read", "Filtered", "Quarantined", "Dispatched")}
    assert numbers["Quarantined"] == HELD
    assert numbers["Read"] >= len(ORDERS) + len(ITEMS)
    assert numbers["Read"] == numbers["Filtered"] + numbers["Quarantined"] + numbers["Dispatched"]
    columns = page.value("document.querySelectorAll('[data-testid=band] > i[data-kind=read]').length")
    assert columns > 1
    assert page.value("document.querySelectorAll('[data-testid=band] .quarantined').length") >= 1
    page.value("document.querySelector('[data-testid=band]').focus()")
    seen = []
    for number, key in enumerate(["Home", *["ArrowRight"] * (columns - 1), "End"], 1):
        page.send("Input.dispatchKeyEvent", type="keyDown", key=key)
        at = f"document.querySelector('[data-testid=band]').getAttribute('aria-valuenow') === '{min(number, columns)}'"
        page.waits_for(at)
        seen.append(page.text("[data-testid=told]"))
    assert seen[0].startswith("Batch 1 (")
    assert len(set(seen[:-1])) == columns
    assert seen[-1] == seen[-2]
    read = [int(told.partition("read ")[2].partition(" =")[0].replace(",", "")) for told in seen[:-1]]
    assert sum(read) == numbers["Read"]
    assert "No range" in page.text("[data-testid=no-gaps]")
    assert page.complaints == []


def test_the_audit_has_what_was_done_by_person_and_kind(paused: Till, page: Page) -> None:
    page.listen()
    page.open(address(paused.run.api.root, paused, "audit"))
    page.text(READY["audit"])
    done = [(row[2].split()[-1], row[4]) for row in cells(page, "[data-testid=audit] tbody tr")]
    assert done[:2] == [("resume", "mended"), ("pause", REASON)]
    assert page.value(f"{CHOOSE}(document.querySelector('[data-testid=action]'), 'pause')")
    page.waits_for("document.querySelectorAll('[data-testid=audit] tbody tr').length === 1")
    (only,) = cells(page, "[data-testid=audit] tbody tr")
    assert only[4] == REASON
    assert page.value("new URLSearchParams(location.search).get('action')") == "pause"
    (csv,) = links(page, "[data-testid=csv]")
    answer = page.send(
        "Runtime.evaluate", expression=f"fetch({json.dumps(csv)}).then(r => r.text())", awaitPromise=True,
        returnByValue=True,
    )["result"]["value"]  # fmt: skip
    head, *lines = answer.splitlines()
    assert head == "at,subject,number,action,who,why,facts"
    (line,) = lines
    assert only[1] in line
    assert REASON in line
    page.open(f"{address(paused.run.api.root, paused, 'audit')}&who=nobody-of-this-name")
    assert page.text("[data-testid=empty]") == "Nothing like this was done."
    assert page.complaints == []


def test_more_that_is_answered_after_another_filter_was_chosen_is_left_out(paused: Till, page: Page) -> None:
    """The server's own pages, an entry each; the second one is kept back until another filter has its answer."""
    change = """
        if (!String(url).includes('cursor=')) return answer;
        await new Promise((go) => { window.let_go = go; });
        window.came = true;
        return answer;
    """
    with fetching(page, change, ("limit=50", "limit=1")):
        page.open(address(paused.run.api.root, paused, "audit"))
        page.text(READY["audit"])
        assert len(cells(page, "[data-testid=audit] tbody tr")) == 1
        more = "[...document.querySelectorAll('button')].find(b => b.innerText === 'More')"
        page.value(f"{more}.click()")
        page.waits_for("window.let_go !== undefined")
        page.value(f"{CHOOSE}(document.querySelector('[data-testid=action]'), 'pause')")
        page.waits_for(f"document.querySelector('[data-testid=audit] tbody')?.innerText.includes({json.dumps(REASON)})")
        page.value("window.let_go()")
        page.waits_for("window.came === true")
        # Drawn at the latest in the second frame from here on.
        page.send(
            "Runtime.evaluate", awaitPromise=True,
            expression="new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(go))))",
        )  # fmt: skip
        (only,) = cells(page, "[data-testid=audit] tbody tr")
        assert only[4] == REASON
        page.value(f"{CHOOSE}(document.querySelector('[data-testid=action]'), '')")
        page.waits_for("document.querySelector('[data-testid=audit] tbody')?.innerText.includes('mended')")
        assert page.value(f"!!{more}")


def test_the_audit_of_a_flow_is_found_from_the_navigation(paused: Till, page: Page) -> None:
    page.open(f"{paused.run.api.root}/plugin/databus-audit")
    page.waits_for(f"[...document.querySelectorAll('[data-testid=dag] option')].some(o => o.value === '{paused.name}')")
    assert page.value(f"{CHOOSE}(document.querySelector('[data-testid=dag]'), '{paused.name}')")
    assert REASON in page.text("[data-testid=audit] tbody")


def test_who_may_not_see_the_dag_is_told_so(paused: Till, server: LoginServer, page: Page) -> None:
    page.open(f"{server.root}/databus/static/main.js")
    page.send("Network.setCookie", name="_token", value=server.token("outsider"), url=server.root)
    page.open(address(server.root, paused, "audits"))
    assert "You do not have Airflow's right" in page.text("[data-testid=problem]")
    page.send("Network.clearBrowserCookies")


def test_the_views_of_a_flow_lead_to_one_another(paused: Till, page: Page) -> None:
    root = paused.run.api.root
    page.open(f"{root}/dags/{paused.name}/plugin/databus-flow")
    page.text("[data-testid=databus-flow] [data-testid=facts]")
    tab, own = f"{root}/dags/{paused.name}/plugin/databus-", ("quality", "ledger", "audit")
    ways = ("flow", "checkpoint", "quarantine", *(f"flow?view={view}" for view in own))
    assert links(page, "[data-testid=views] a") == [f"{tab}{way}" for way in ways]
    for view in own:
        page.value(f"document.querySelector('[data-testid=views] a[href$=\"view={view}\"]').click()")
        page.text(READY[view])
        assert page.value("new URLSearchParams(location.search).get('view')") == view
        assert texts(page, "[data-testid=views] [aria-current]") == [view.capitalize()]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("where", READY)
def test_everybody_can_read_it(paused: Till, page: Page, axe: str, where: str, dark: bool, tmp_path: Path) -> None:
    page.open(address(paused.run.api.root, paused, where))
    page.text(READY[where])
    page.dark(on=dark)
    assert page.violations(axe) == []
    look(page, f"till-{where}-{'dark' if dark else 'light'}", tmp_path)
