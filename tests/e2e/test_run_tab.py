"""The tab on a run that a real Airflow made, seen by a headless Chromium, and who may not see it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.e2e.airflow_world import AirflowWorld
from tests.e2e.browser import Page, look
from tests.e2e.conftest import ROLES, ROOT
from tests.e2e.hidden_till import OUTSIDER
from tests.e2e.login_server import LoginServer
from tests.e2e.till import ITEMS, ORDERS, STATES, VISITS, Till

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

FLOWS, DESCRIPTION = "/databus/api/v1/flows", "/databus/api/v1/openapi.json"
DELAYS = "/databus/api/v1/delays"
TRACE = "/databus/api/v1/trace"
LISTS = ("/databus/api/v1/definitions", "/databus/api/v1/checkpoints")
MIRRORS = "/databus/api/v1/mirrors"
EDITING = (
    *("/images", "/quarantine/rows", "/quarantine/export", "/quarantine/held", "/peek"),
    *("/plan", "/doctor", "/ledger/verification"),
)
"""What shows values of rows, or opens the servers of a flow as a preview does."""
READ, FILTERED = len(ORDERS) + len(ITEMS) + len(VISITS), len(VISITS)
HELD = sum(email is None for _, email, _, _ in ORDERS)
LOST = sum(status not in STATES for _, _, status, _ in ORDERS)


def tab(root: str, till: Till) -> str:
    return f"{root}/dags/{till.name}/runs/{quote(till.run.run_id, safe='')}/plugin/databus-run"


def data(till: Till, below: str = "") -> str:
    return f"/databus/api/v1/dags/{till.name}/runs/{quote(till.run.run_id, safe='')}{below}"


def rows(page: Page, title: str) -> list[list[str]]:
    """Return the cells of the table below a heading."""
    part = f"[...document.querySelectorAll('h3')].find(h => h.textContent.startsWith('{title}')).parentElement"
    cells = "r => [...r.cells].map(c => c.textContent)"
    found: list[list[str]] = page.value(f"[...{part}.querySelectorAll('tbody tr')].map({cells})")
    return found


def test_the_tab_shows_what_the_run_did(airflow: AirflowWorld, till: Till, page: Page, tmp_path: Path) -> None:
    page.open(tab(till.run.api.root, till))
    counts = page.text('[data-testid="counts"]')
    moved = READ - HELD - FILTERED
    assert counts == f"✓ adds up: read {READ} = {FILTERED} filtered + {HELD} quarantined + {moved} dispatched"
    look(page, "tab", tmp_path)
    numbers = {
        "items": (len(ITEMS), 0, 0, len(ITEMS)),
        "orders": (len(ORDERS), 0, HELD, len(ORDERS) - HELD),
        "visits": (len(VISITS), len(VISITS), 0, 0),
    }
    assert rows(page, "Inputs") == [[f"{till.name}.{t}", *map(str, n)] for t, n in numbers.items()]
    assert rows(page, "Sinks") == [["✓ took all", "kafka", str(moved), "0", "0"]]
    outputs = rows(page, "Outputs")
    assert [row[:2] for row in outputs] == [["kafka", f"{till.name}[{partition}]"] for partition in (0, 1)]
    assert sum(int(row[2].rpartition("records ")[2]) for row in outputs) == moved
    batches = rows(page, "Batches")
    assert len(batches) > 1
    assert sum(int(row[5]) for row in batches) == READ
    assert airflow.api.graph(till.name) == {"preflight": ["transfer"], "transfer": ["audit"], "audit": []}


def test_the_tab_shows_what_was_found_of_checks_and_expectations(till: Till, page: Page) -> None:
    page.open(tab(till.run.api.root, till))
    shown = page.text('[data-testid="databus-run"]')
    assert "Quality: ✗ violated, worst: quarantine" in shown
    orders, every, batches = f"{till.name}.orders", str(len(ORDERS)), rows(page, "Batches")
    last, many = batches[0][5], str(len(batches))
    states = '["new", "paid", "shipped"]'
    assert rows(page, "Quality") == [
        ["✗ violated", f"expect_column_values_to_be_in_set(status, value_set={states})",
         orders, "warn", every, str(LOST), "", "every row"],
        ["✓ met", "expect_column_values_to_be_between(total, min_value=0.0, mostly=0.9)",
         orders, "warn", every, "1", "", "every row"],
        ["✓ met", "expect_table_row_count_to_be_between(max_value=1000, min_value=1)",
         orders, "warn", "1", "0", every, "counts"],
        ["✓ met", "expect_column_values_to_be_unique(order_id)",
         orders, "warn", every, "0", "", "rows of the run"],
        ["✗ violated", "in_range(quantity, 1..)", f"{till.name}.items", "warn", str(len(ITEMS)),
         str(sum(quantity < 1 for _, _, quantity in ITEMS)), "", "every row"],
        ["✗ violated", "not_null(email)", orders, "quarantine", every, str(HELD), "", "every row"],
        ["✓ met", "volume(..1000)", "*", "warn", many, "0", f"{last} rows", "batches"],
    ]  # fmt: skip


def test_the_tab_draws_the_lineage(till: Till, page: Page) -> None:
    page.open(tab(till.run.api.root, till))
    assert page.text('[data-testid="node flow"]') == f"flow: {till.name}flow{till.name}"
    nodes = page.value("[...document.querySelectorAll('[data-testid^=\"node \"]')].map(n => n.dataset.testid)")
    assert sorted(nodes) == [
        "node flow", *(f"node in:{till.name}.{table}" for table in ("items", "orders", "visits")),
        f"node kafka:{till.name}", "node quarantine",
    ]  # fmt: skip
    edges = page.value("[...document.querySelectorAll('svg[aria-label=lineage] path + text')].map(e => e.textContent)")
    moved = READ - HELD - FILTERED
    assert sorted(map(int, edges)) == sorted((len(ITEMS), len(ORDERS), len(VISITS), moved, HELD))


def test_data_docs_are_opened_from_the_run(till: Till, page: Page, tmp_path: Path) -> None:
    page.open(tab(till.run.api.root, till))
    assert page.text('[data-testid="data-docs"]').startswith("Data Docs")
    # In this tab: a browser without a person opens no second one.
    page.value(
        "(a => { a.target = '_self'; a.click(); return true; })(document.querySelector('[data-testid=\"data-docs\"]'))"
    )
    overview = page.text("#section-1-content-block-1")
    assert f"Expectation Suite: {till.name}" in " ".join(overview.split())
    look(page, "data_docs", tmp_path)
    marks = "[r.querySelector('i')?.className, r.textContent.replace(/\\s+/g, ' ')]"
    judged = page.value(f"[...document.querySelectorAll('tr')].filter(r => r.cells.length === 3).map(r => {marks})")
    for mark, text in (
        ("fas fa-times text-danger", "values must belong to this set: new paid shipped."),
        ("fas fa-times text-danger", f" {LOST} unexpected values found. ≈16.67% of {len(ORDERS)} total rows."),
        ("fas fa-check-circle text-success", "values must be greater than or equal to 0.0, at least 90 % of the time."),
        ("fas fa-check-circle text-success", "values must be unique."),
        (
            "fas fa-check-circle text-success",
            "Must have greater than or equal to 1 and less than or equal to 1000 rows.",
        ),
    ):
        assert [shown for shown, line in judged if text in line] == [mark], text
    assert page.value("self.origin") == "null"  # apart from Airflow: none of its cookies, none of its pages
    page.open(f"{till.run.api.root}/dags/{till.name}")


def test_the_page_of_flows_shows_what_is_wrong_first(
    airflow: AirflowWorld, till: Till, page: Page, tmp_path: Path
) -> None:
    page.listen()
    page.open(f"{till.run.api.root}/plugin/databus?q={till.name}")
    row = f'[data-testid="flow {till.name}"]'
    assert page.text(f"{row} .state") == "!Rows held"
    cells = page.value(f"[...document.querySelector('{row}').cells].map(c => c.textContent)")
    assert cells[1] == f"{till.name}checks hold back {HELD} rows Open run →"
    assert cells[-1] == str(HELD)
    assert page.value("document.querySelectorAll('tbody tr').length") == 1
    assert page.text('[data-testid="sum"]').startswith("1 of ")
    link = page.value(f"[...document.querySelectorAll('{row} a')].find(a => a.textContent.startsWith('Open run')).href")
    assert link == tab(till.run.api.root, till)
    look(page, "flows_light", tmp_path)
    page.value("document.documentElement.classList.add('dark')")
    look(page, "flows_dark", tmp_path)
    assert page.complaints == []


def plugin() -> Any:
    return importlib.import_module("databus.airflow.plugin").DatabusPlugin


def plugin_routes(till: Till) -> list[tuple[str, str]]:
    """Return (method, path) of all that the plugin answers, but its bundle: about the till's run."""
    from fastapi.routing import APIRoute
    from starlette.routing import Mount
    from starlette.staticfiles import StaticFiles

    asked = {"q": f"{till.name}:0:0", "sink": "kafka", "place": f"{till.name}:0:0"}
    found = []
    for mounted in plugin().fastapi_apps:
        for route in mounted["app"].app.routes:
            if isinstance(route, Mount) and isinstance(route.app, StaticFiles):
                assert route.path == "/static"
                continue
            assert isinstance(route, APIRoute), f"{route}: nothing here asks it who may"
            values = dict.fromkeys(route.param_convertors, "x") | {
                "dag_id": till.name,
                "run_id": quote(till.run.run_id, safe=""),
            }
            path = mounted["url_prefix"] + route.path_format.format(**values)
            query = "&".join(f"{p.name}={asked[p.name]}" for p in route.dependant.query_params if p.name in asked)
            found += [(method, path + (query and f"?{query}")) for method in sorted(route.methods)]
    return found


def test_every_route_asks_who_comes(till: Till, server: LoginServer) -> None:
    routes = plugin_routes(till)
    flow = f"/databus/api/v1/dags/{till.name}"
    known = {data(till), data(till, "/data-docs"), FLOWS, DELAYS, f"{flow}/flow", f"{TRACE}?q={till.name}:0:0"}
    assert {("GET", path) for path in known} <= set(routes)
    assert ("GET", f"{flow}/images?sink=kafka&place={till.name}:0:0") in routes
    assert len([path for method, path in routes if method == "POST"]) > 12
    tokens = {user: server.token(user) for user in ROLES}
    for method, path in routes:
        assert server.ask(method, path).status_code == 401, path
        assert server.ask(method, path, "forged").status_code == 403, path
        assert server.ask(method, path, tokens["nobody"]).status_code == 403, path
        if path == FLOWS:  # shows each of them what they may see
            assert till.name not in {
                flow["flow"] for flow in server.ask(method, path, tokens[OUTSIDER]).json()["flows"]
            }
            assert till.name in {flow["flow"] for flow in server.ask(method, path, tokens["viewer"]).json()["flows"]}
        elif path == DELAYS:
            assert till.name not in server.ask(method, path, tokens[OUTSIDER]).json()["delays"]
            assert till.name in server.ask(method, path, tokens["viewer"]).json()["delays"]
        elif path.startswith(TRACE):  # looks through what each of them may see
            missed = server.ask(method, path, tokens[OUTSIDER])
            assert missed.status_code == 404, path
            assert till.name not in missed.json()["looked_through"]["flows"]
        elif path in LISTS:
            for user, there in ((OUTSIDER, False), ("viewer", True)):
                listed = server.ask(method, path, tokens[user]).json()["items"]
                assert (till.name in {item["dag_id"] for item in listed}) is there, (path, user)
        elif path == MIRRORS:  # lists what each of them may see; the till's flow is no mirror
            for user in (OUTSIDER, "viewer"):
                listed = server.ask(method, path, tokens[user]).json()["items"]
                assert till.name not in {item["dag_id"] for item in listed}, user
        elif path != DESCRIPTION:
            assert server.ask(method, path, tokens[OUTSIDER]).status_code == 403, path
        reads = method in {"GET", "HEAD", "OPTIONS"}
        well = 422 if path.startswith(f"{flow}/mirror") else 200  # the till's flow is no mirror
        seen = 403 if not reads or any(path.partition("?")[0].endswith(below) for below in EDITING) else well
        assert server.ask(method, path, tokens["viewer"]).status_code == seen, (method, path)
        for user in ("user", "op", "admin"):
            # A request without a body is refused for that, by what stands behind the guard.
            assert server.ask(method, path, tokens[user]).status_code == (well if reads else 415), (user, path)


def test_the_first_page_tells_of_no_plugin_error(airflow: AirflowWorld) -> None:
    ask = airflow.api._client.get
    assert ask("/plugins/importErrors").raise_for_status().json()["import_errors"] == []
    known = ask("/plugins", params={"limit": 100}).raise_for_status().json()["plugins"]
    assert [found["name"] for found in known if "databus" in found["name"]] == ["databus"]


def test_the_dag_of_the_path_is_the_one_that_is_asked_for(till: Till, server: LoginServer) -> None:
    viewer, outsider = server.token("viewer"), server.token(OUTSIDER)
    assert server.ask("GET", data(till), viewer).json()["counts"]["read"] == READ
    assert "Expectation" in server.ask("GET", data(till, "/data-docs"), viewer).text
    other = data(till).replace(till.name, "e2e_connect")
    assert server.ask("GET", other, outsider).status_code == 404  # may be seen, and has no such run
    assert server.ask("GET", f"{data(till)}?dag_id=e2e_connect", outsider).status_code == 403
    assert server.ask("GET", data(till).replace(till.name, "~"), outsider).status_code == 404


def test_only_the_bundle_is_there_for_all(server: LoginServer) -> None:
    built = (ROOT / "include" / "databus" / "web" / "bundle" / "main.js").read_bytes()
    for token in (None, server.token("nobody"), "forged"):
        assert server.ask("GET", "/databus/static/main.js", token).content == built
    paths = ("docs", "redoc", "openapi.json", "static/", "static/..%2fapp.py", "api/v1", "")
    for path in paths:
        assert server.ask("GET", f"/databus/{path}").status_code == 404, path


def test_a_session_of_the_browser_is_asked_as_well(till: Till, server: LoginServer, page: Page) -> None:
    page.open(f"{server.root}/databus/static/main.js")  # a page of the server's that anyone sees
    asked = f"fetch('{data(till)}').then(r => r.status)"
    for user, status in ((None, 401), (OUTSIDER, 403), ("nobody", 403), ("viewer", 200)):
        if user is not None:
            page.send("Network.setCookie", name="_token", value=server.token(user), url=server.root)
        answer = page.send("Runtime.evaluate", expression=asked, awaitPromise=True, returnByValue=True)
        assert answer["result"]["value"] == status, user
    page.open(tab(server.root, till))
    assert page.text('[data-testid="counts"]').startswith(f"✓ adds up: read {READ} =")
    page.send("Network.clearBrowserCookies")


def test_a_snapshot_that_its_dag_begins_ends_with_the_rows_and_stands_in_the_tab(
    airflow: AirflowWorld, till: Till, page: Page
) -> None:
    table = f"{till.name}.items"
    asked = airflow.trigger(f"{till.name}_snapshot", {"action": "begin", "tables": [table], "reason": "asked for"})
    asked.reaches("snapshot", "deferred")
    moved = airflow.trigger(till.name).succeeds()
    asked.succeeds()
    assert f"snapshot 1: 1 of 1 tables, {len(ITEMS)} of about" in asked.log("snapshot")
    page.open(tab(till.run.api.root, Till(till.name, moved)))
    shown = page.text('[data-testid="snapshot"]')
    assert shown.startswith(f"snapshot 1: 1 of 1 tables, {len(ITEMS)} of about {len(ITEMS)} rows, finished after")
    assert rows(page, "Inputs") == [[table, str(len(ITEMS)), "0", "0", str(len(ITEMS)), "0", str(len(ITEMS))]]
