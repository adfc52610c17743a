"""The pages of operators on a real Airflow, in a headless Chromium, each action to its end."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from databus.demo.consumers import topic_records
from tests.e2e.airflow_world import AirflowWorld, until
from tests.e2e.browser import Page, look

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

FLOW_FILE = """
from databus import Batching, Flow, Kafka, MysqlBinlog, NotNull
from databus.airflow import flow_dag

flow = Flow(
    name={name!r},
    source=MysqlBinlog(conn_id="mysql_shop", tables=("{name}.orders",), start={start!r}),
    checks=({checks}),
    sinks=(Kafka(conn_id="kafka_east", topic={name!r}),),
    batching=Batching(max_rows=5),
    mode="economy",
)
dag = flow_dag(flow, schedule=None, dag_id={dag!r}, backfill_every=None, description={checks!r})
"""
SCRIPT = "<img src=x onerror=document.title='broken'>"
ROWS = [(n, None if n % 5 == 0 else f"c{n}@example.org", SCRIPT if n == 5 else "note") for n in range(1, 16)]
HELD = sum(email is None for _, email, _ in ROWS)


@dataclass(frozen=True)
class Orders:
    """A flow whose DAG has another name, over rows that its check holds in part.

    Attributes:
        world: Airflow and servers.
        name: of the flow, its database and its topic.
        dag: id of its DAG.
        start: place of the log where it begins.
    """

    world: AirflowWorld
    name: str
    dag: str
    start: str

    def write(self, checks: str) -> None:
        """Write the DAG file, and wait until Airflow has read it."""
        text = FLOW_FILE.format(name=self.name, dag=self.dag, start=self.start, checks=checks)
        (self.world.dags / f"{self.name}.py").write_text(text)
        self.world.knows({self.dag})
        address = f"{self.world.api.root}/api/v2/dags/{self.dag}"

        def look() -> bool:
            found = httpx.get(address, headers=self.headers(), timeout=60).json()
            return (found["description"] or "") == checks

        until(f"{self.dag} is read again", look)

    def headers(self) -> dict[str, str]:
        """What shows the sandbox's API server who asks."""
        token = httpx.get(f"{self.world.api.root}/auth/token", timeout=60).json()["access_token"]
        return {"Authorization": f"Bearer {token}"}

    def arrived(self) -> Counter[str]:
        """Records of the topic by key."""
        records = topic_records(self.world.sandbox.address("kafka"), self.name)
        return Counter(str(key) for key, value in records if value is not None)

    def tab(self, name: str) -> str:
        return f"{self.world.api.root}/dags/{self.dag}/plugin/databus-{name}"

    def events(self) -> list[dict[str, str]]:
        """What Airflow's log of events has of the DAG that is ours, oldest first."""
        address = f"{self.world.api.root}/api/v2/eventLogs?dag_id={self.dag}&limit=100"
        found = httpx.get(address, headers=self.headers(), timeout=60).json()["event_logs"]
        return sorted((e for e in found if e["event"].startswith("databus_")), key=lambda e: e["when"])


@pytest.fixture(scope="module")
def orders(airflow: AirflowWorld) -> Orders:
    name = f"pages_{secrets.token_hex(3)}"
    with airflow.connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"CREATE TABLE {name}.orders (id INT PRIMARY KEY, email VARCHAR(40), note VARCHAR(80))")
        cursor.execute("SHOW MASTER STATUS")
        file, position = cursor.fetchone()[:2]
        for row in ROWS:  # a transaction each: batches end between them
            cursor.execute(f"INSERT INTO {name}.orders VALUES (%s, %s, %s)", row)
    made = Orders(airflow, name, f"{name}_of_the_shop", f"{file}:{position}")
    made.write('NotNull("email"),')
    airflow.trigger(made.dag).succeeds()
    assert sum(made.arrived().values()) == len(ROWS) - HELD
    return made


def named(name: str) -> str:
    return f'[data-testid="{name}"]'


def click(page: Page, selector: str) -> None:
    page.text(selector, 60)
    until(f"{selector} can be clicked", lambda: page.value(
        f"(e => !!e && !e.disabled && (e.click(), true))(document.querySelector({json.dumps(selector)}))"
    ), 60)  # fmt: skip


def fill(page: Page, name: str, text: str) -> None:
    """Give a field a value as a person does: React hears of it."""
    script = """((e, text) => { const of = e instanceof HTMLSelectElement ? HTMLSelectElement : HTMLInputElement;
        Object.getOwnPropertyDescriptor(of.prototype, 'value').set.call(e, text);
        e.dispatchEvent(new Event(of === HTMLSelectElement ? 'change' : 'input', {bubbles: true})); return true; })"""
    element = f"document.querySelector({json.dumps(named(name))})"
    until(f"{name} is there", lambda: page.value(f"!!{element}"), 60)
    assert page.value(f"{script}({element}, {json.dumps(text)})")


def test_a_rewind_of_the_page_repeats_rows_and_its_way_back_undoes_one(
    orders: Orders, page: Page, tmp_path: Path
) -> None:
    page.listen()
    page.open(orders.tab("checkpoint"))
    before = page.text(named("place"))
    look(page, "checkpoint_light", tmp_path)

    def rewind() -> str:
        click(page, named("rewind"))
        fill(page, "batches", "1")
        click(page, named("preview"))
        effect = page.text(named("effect"))
        assert "Read again" in effect
        assert "again" in page.text(f"{named('effect')} table")
        assert page.value(f"document.querySelector({json.dumps(named('do'))}).disabled")
        fill(page, "reason", "billing lost them")
        fill(page, "typed", orders.name[:-1])
        assert page.value(f"document.querySelector({json.dumps(named('do'))}).disabled")
        fill(page, "typed", orders.name)
        look(page, "checkpoint_rewind_light", tmp_path)
        click(page, named("do"))
        return page.text(named("done"))

    assert "Done" in rewind()
    click(page, named("way-back"))
    page.text(named("effect"))
    fill(page, "reason", "the wrong flow")
    fill(page, "typed", orders.name)
    click(page, named("do"))
    page.text(named("done"))
    page.open(orders.tab("checkpoint"))
    assert page.text(named("place")).partition("version")[0] == before.partition("version")[0]

    arrived = orders.arrived()
    rewind()
    orders.world.trigger(orders.dag).succeeds()
    repeated = orders.arrived() - arrived
    assert 0 < sum(repeated.values()) <= 5
    assert repeated <= arrived
    events = [(e["event"], json.loads(e["extra"])["reason"]) for e in orders.events()]
    assert events == [
        ("databus_rewind", "billing lost them"), ("databus_restore", "the wrong flow"),
        ("databus_rewind", "billing lost them"),
    ]  # fmt: skip
    page.open(orders.tab("checkpoint"))
    shown = page.text(named("history"))
    assert "the wrong flow" in shown
    page.value("document.documentElement.classList.add('dark')")
    look(page, "checkpoint_dark", tmp_path)
    assert page.complaints == []


def test_a_replay_of_the_page_delivers_each_row_once(orders: Orders, page: Page, tmp_path: Path) -> None:
    page.listen()
    page.open(orders.tab("quarantine"))
    assert page.text(named("cause")).startswith(f"not_null(email){HELD}")
    assert SCRIPT in page.text(named("rows"))
    assert page.value("document.title") != "broken"
    look(page, "quarantine_light", tmp_path)
    before = orders.arrived()
    orders.write("")
    click(page, named("replay"))
    assert f"{HELD} rows" in page.text(named("effect"))
    fill(page, "reason", "the check was wrong")
    look(page, "quarantine_replay_light", tmp_path)
    click(page, named("do"))
    assert f"{HELD} replayed, 0 held again" in page.text(named("done"))
    more = orders.arrived() - before
    assert sorted(more.values()) == [1] * HELD
    page.open(orders.tab("quarantine"))
    assert "No row is held back" in page.text(named("empty"))
    assert orders.events()[-1]["event"] == "databus_quarantine_replay"
    assert page.complaints == []


def test_a_skip_leaves_a_gap_in_the_ledger_with_who_and_why(orders: Orders, page: Page, tmp_path: Path) -> None:
    with orders.world.connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {orders.name}.orders VALUES (99, NULL, 'poison')")
    asked = {"place": "latest", "reason": "a poisoned row"}
    sent = {**orders.headers(), "If-Match": "*", "Idempotency-Key": secrets.token_hex(8)}
    address = f"{orders.world.api.root}/databus/api/v1/dags/{orders.dag}/checkpoint/skip"
    answer = httpx.post(address, json=asked, headers=sent, timeout=120)
    assert answer.status_code == 200, answer.text
    page.listen()
    page.open(f"{orders.tab('flow')}?view=ledger")
    assert page.text(named("verdict")) == "! adds up, with one gap that was passed over"
    gap = page.text(f"{named('gaps')} tbody tr")
    assert "a poisoned row" in gap
    assert "skipped" in gap
    assert "taken back by a rewind" in page.text(f"{named('gaps')} tbody tr:last-child")  # the first test's
    assert page.value(f"document.querySelectorAll({json.dumps(named('band'))} + ' > [data-kind=gap]').length") == 1
    look(page, "ledger_gap_light", tmp_path)
    page.value("document.documentElement.classList.add('dark')")
    look(page, "ledger_gap_dark", tmp_path)
    assert page.complaints == []
