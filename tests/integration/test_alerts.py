"""Alerts over real servers: a flow's figures, what is told to a mail server and a webhook, and that it is told once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import AlertWhen, Flow, NotNull
from databus.checkpoints.connection.session import start_client
from databus.checkpoints.nodes.alert_states import ZooKeeperAlertBook
from databus.core.alerts.alert import Alert, AlertEvent, AlertKind
from databus.core.alerts.book import AlertState
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.observe.alerts import rules
from databus.observe.alerts.hysteresis import RuleVerdict
from databus.observe.alerts.outbox import RETRY_S
from databus.observe.alerts.rules import Observation
from databus.ops.health import alerts
from databus.ops.health.alerts import Teller, evaluate
from databus.ops.health.status import FlowLook
from databus.ops.runs.audit import audit_run
from databus.ops.services import open_services
from databus.records.quality.result import evaluate_run
from databus.records.store import RecordStore
from tests.integration.command_line import CliHere
from tests.integration.conftest import World
from tests.integration.heard_alerts import Ahead, Heard
from tests.integration.one_process import OneProcessWorld, run_locally
from tests.integration.shop_flow import Shop
from tests.unit.observe.receivers import Hooks, Mailbox

pytestmark = pytest.mark.integration


@dataclass
class Told:
    """A shop's flow with channels that lead to real receivers."""

    world: World
    shop: Shop
    flow: Flow
    mailbox: Mailbox
    hooks: Hooks

    @property
    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mailbox.mails]

    @property
    def posted(self) -> list[tuple[str, str]]:
        return [(posted.body["kind"], posted.body["event"]) for posted in self.hooks.requests]

    def evaluate(self, *events: Observation) -> None:
        evaluate(self.flow, self.world.connections, events)

    def look(self) -> FlowLook:
        return FlowLook(self.flow, self.world.connections, self.world.settings)


@pytest.fixture
def told(world: World, heard: Heard) -> Iterator[Told]:
    name = f"alerts_{datetime.now(UTC):%H%M%S%f}"
    shop = Shop(OneProcessWorld(world.sandbox, world.home, world.environment), name)
    flow = shop.flow.model_copy(update={"alerts": (AlertWhen(lag_bytes=500, clear_ratio=0.5), *heard.channels)})
    shop.flow = flow
    yield Told(world, shop, flow, heard.mailbox, heard.hooks)
    shop.connection.close()


def test_lag_is_told_once_over_and_once_on_recovery(told: Told) -> None:
    told.shop.writer.run(5)
    told.shop.world.run(told.flow)
    told.evaluate()
    assert told.subjects == []
    told.shop.writer.run(60)
    with ThreadPoolExecutor(4) as four:  # two schedulers, a retry and a watchdog at the same moment
        list(four.map(lambda _: told.evaluate(), range(4)))
    told.evaluate()
    with told.look() as look:
        figures = look.look()
    (posted,) = told.hooks.requests
    assert posted.body["figures"]["lag_bytes"] == figures.lag_bytes
    assert figures.lag_bytes is not None
    assert figures.lag_bytes > 500
    assert posted.body["range"] == f"({figures.committed}, {figures.head}]"
    assert figures.lag_rows is not None
    assert figures.lag_rows > 0
    told.shop.world.run(told.flow)
    for _ in range(3):
        told.evaluate()
    assert told.posted == [("lag", "raised"), ("lag", "recovered")]
    assert [subject.split(":")[0] for subject in told.subjects] == [
        f"[WARNING] {told.flow.name}",
        f"[OK] {told.flow.name}",
    ]
    with told.look() as look:
        after = look.look()
    assert (after.lag_bytes, after.unreachable) == (0, {})
    assert after.recent is not None
    assert after.recent.rows > 0
    assert set(after.recent.delay_seconds) == {"0.5", "0.95", "0.99"}


def test_a_table_that_goes_is_told_once_and_so_is_its_return(told: Told) -> None:
    def sql(statement: str) -> None:
        with told.shop.connection.cursor() as cursor:
            cursor.execute(statement)

    told.shop.writer.run(5)
    sql("CREATE TABLE shop.passing (id INT PRIMARY KEY)")
    source = told.flow.source.model_copy(update={"tables": ("shop.orders", "shop.passing", "shop.pass_*")})
    waits = source.model_copy(update={"on_missing_table": "wait"})
    told.flow = told.flow.model_copy(update={"alerts": (AlertWhen(off=(AlertKind.LAG,)), *told.flow.alerts[1:])})
    sql("CREATE TABLE shop.pass_1 (id INT PRIMARY KEY)")
    flow = told.flow.model_copy(update={"source": source})
    try:
        told.shop.world.run(flow)
        evaluate(flow, told.world.connections)
        assert told.posted == []
        sql("DROP TABLE shop.passing, shop.pass_1")
        for _ in range(2):
            evaluate(flow, told.world.connections)
        assert told.posted == [("missing_tables", "raised")] * 2
        bodies = {posted.body["subject"]: posted.body for posted in told.hooks.requests}
        assert set(bodies) == {"shop.passing", "shop.pass_*"}
        assert bodies["shop.passing"]["summary"] == ("nothing more comes of shop.passing: it is not there (any more)")
        assert bodies["shop.passing"]["runbook"].endswith("missing_tables.md")
        with FlowLook(flow.model_copy(update={"source": waits}), told.world.connections, told.world.settings) as look:
            assert look.look().missing_tables == ()
        with FlowLook(flow, told.world.connections, told.world.settings) as look:
            assert look.look().missing_tables == ("shop.pass_*", "shop.passing")
            sql("CREATE TABLE shop.passing (id INT PRIMARY KEY)")
            assert look.look().missing_tables == ("shop.pass_*", "shop.passing")  # asked for once a minute
        evaluate(flow, told.world.connections)
        assert told.posted[2:] == [("missing_tables", "recovered")]
        assert told.hooks.requests[-1].body["subject"] == "shop.passing"
    finally:
        sql("DROP TABLE IF EXISTS shop.passing, shop.pass_1")


def test_a_mail_server_that_is_away_gets_it_later_and_the_webhook_at_once(told: Told) -> None:
    told.mailbox.refuse = "451 later"
    failed = Observation(
        AlertKind.FAILURE, RuleVerdict.OVER, "transfer failed", "transfer", run_id="r1", run_url="http://r/1"
    )
    told.evaluate(failed)
    assert told.posted == [("failure", "raised")]
    assert told.subjects == []
    told.mailbox.refuse = ""
    with told.look() as look:  # as if the pause before another try were over
        book = look.store.alert_book()
        noted = book.load(told.flow.name)["failure/transfer"]
        mail = told.flow.alerts[1].channel_name  # type: ignore[attr-defined]
        assert [owed.channels for owed in noted.state.owed] == [(mail,)]
        state = AlertState.from_json({**noted.state.to_json(), "teller_until": None})
        assert book.swap(told.flow.name, "failure/transfer", noted.version, state) is not None
    told.evaluate(failed)
    assert told.subjects == [f"[CRITICAL] {told.flow.name}: transfer failed"]
    body = told.mailbox.mails[0].get_content()
    assert "http://r/1" in body
    assert "docs/runbooks/failure.md" in body
    assert told.posted == [("failure", "raised")]


def test_an_event_is_told_although_zookeeper_is_away(told: Told) -> None:
    lost = told.world.override("zookeeper_default", port=1, extra={"connect_timeout_s": 1, "operation_timeout_s": 1})
    flow = told.flow.model_copy(update={"zookeeper_conn_id": lost})
    evaluate(
        flow, told.world.connections, [Observation(AlertKind.FAILURE, RuleVerdict.OVER, "transfer failed", "transfer")]
    )
    assert told.posted == [("failure", "raised")]


@pytest.mark.parametrize("broken", ["source", "judge", "book"])
def test_an_event_is_told_although_what_else_is_looked_at_is_broken(
    told: Told, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("year 55900 is out of range, password hunter2")

    places: dict[str, tuple[Any, str]] = {
        "source": (FlowLook, "source"), "judge": (alerts, "judged"), "book": (ZooKeeperAlertBook, "load")
    }  # fmt: skip
    told.shop.writer.run(1)
    told.shop.world.run(told.flow)
    monkeypatch.setattr(*places[broken], fail)
    for _ in range(2):
        told.evaluate(Observation(AlertKind.FAILURE, RuleVerdict.OVER, "transfer failed", "transfer", run_id="r1"))
    once_or_twice = 1 if broken == "source" else 2  # without the book nobody knows what was told already
    assert told.posted == [("failure", "raised")] * once_or_twice
    assert "hunter2" not in str([posted.body for posted in told.hooks.requests])
    assert "ValueError" in caplog.text
    if broken == "source":
        with told.look() as look:
            assert look.look().unreachable == {"source": "ValueError, see the log of who looked"}


def test_the_book_refuses_what_another_has_changed(told: Told) -> None:
    with told.look() as one, told.look() as other:
        mine, theirs = one.store.alert_book(), other.store.alert_book()
        flow, key = told.flow.name, "unreachable/checkpoint store"
        version = mine.swap(flow, key, None, AlertState(number=1))
        assert version is not None
        assert theirs.swap(flow, key, None, AlertState(number=2)) is None
        assert theirs.load(flow)[key].version == version
        assert theirs.swap(flow, key, version, AlertState(number=3)) == version + 1
        assert mine.swap(flow, key, version, AlertState(number=4)) is None
        assert mine.load(flow)[key].state == AlertState(number=3)
        assert mine.load("") is not None


def test_a_state_written_by_hand_is_named_and_stops_no_alert(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    told.shop.writer.run(5)
    told.shop.world.run(told.flow)
    client, lag = start_client(told.world.connections.get("zookeeper_default")), ""
    try:
        lag = f"/databus/flows/{told.flow.name}/alerts/lag"
        client.create(lag, b"{", makepath=True)
        client.set(lag, b"{}")
    finally:
        client.stop()
        client.close()
    told.evaluate(Observation(AlertKind.FAILURE, RuleVerdict.OVER, "transfer failed", "transfer", run_id="r1"))
    assert told.posted == [("failure", "raised")]
    assert f"alert lag of flow {told.flow.name}: stored JSON without a format version: None" in caplog.text
    told.shop.writer.run(60)
    for _ in range(2):
        told.evaluate()
    told.shop.world.run(told.flow)
    told.evaluate()
    assert told.posted[1:] == [("lag", "raised"), ("lag", "recovered")]
    with told.look() as look:
        noted = look.store.alert_book().load(told.flow.name)["lag"]
    assert (noted.problem, noted.state.number) == ("", 3)  # that of no earlier incident: it had been written twice


def test_tellers_are_bounded_by_the_clock_of_zookeeper(told: Told) -> None:
    failed = Observation(AlertKind.FAILURE, RuleVerdict.OVER, "transfer failed", "transfer", run_id="r1")
    told.mailbox.refuse = "451 later"
    for wrong in (timedelta(hours=5), timedelta(hours=-5)):
        evaluate(told.flow, told.world.connections, [replace(failed, subject=str(wrong))], Ahead(wrong))
    with told.look() as look:
        book = look.store.alert_book()
        for key, noted in book.load(told.flow.name).items():
            assert noted.state.teller_until is not None
            assert timedelta(0) < noted.state.teller_until - book.now() < timedelta(seconds=RETRY_S)
            # As an older version wrote it by the clock of its machine, and died.
            ahead = replace(noted.state, teller="gone", teller_until=book.now() + timedelta(hours=5))
            assert book.swap(told.flow.name, key, noted.version, ahead) is not None
    assert told.subjects == []
    told.mailbox.refuse = ""
    told.evaluate()
    assert len(told.subjects) == 2


def test_what_is_away_is_named_in_the_figures(told: Told, tmp_path: Path) -> None:
    away: dict[str, Any] = {"host": "127.0.0.1", "port": 1}
    source = told.flow.source.model_copy(update={"conn_id": told.world.override("mysql_shop", **away)})
    flow = told.flow.model_copy(update={"source": source})
    (tmp_path / "file").write_text("")
    settings = Settings("test", "", f"sqlite:///{tmp_path / 'file' / 'records.db'}")
    with FlowLook(flow, told.world.connections, settings) as look:
        figures = look.look()
    assert set(figures.unreachable) == {"source", "records"}
    assert figures.gaps == ()


def test_two_tellers_at_once_send_one_message(told: Told) -> None:
    observation = Observation(AlertKind.QUALITY, RuleVerdict.OVER, "4 violations")

    def tell(_: int) -> list[AlertEvent]:
        with told.look() as look:
            teller = Teller(look.store.alert_book(), told.world.connections, told.world.settings, SystemClock())
            return [alert.event for alert in teller.tell(told.flow, [observation], ())]

    with ThreadPoolExecutor(6) as six:
        decided = list(six.map(tell, range(6)))
    assert sorted(len(events) for events in decided) == [0, 0, 0, 0, 0, 1]
    assert told.posted == [("quality", "raised")]
    assert len(told.subjects) == 1


def missed(run_id: str, verdict: RuleVerdict = RuleVerdict.OVER) -> Observation:
    said = f"run {run_id} missed its deadline"
    return Observation(AlertKind.DEADLINE, verdict, said, run_id, run_id=run_id, run_url=f"http://airflow/{run_id}")


def at_once(told: Told, *events: Observation, **options: Any) -> list[tuple[str, str]]:
    """Let four evaluators look at the same moment, and return what all of them together told."""
    before = len(told.posted)
    with ThreadPoolExecutor(4) as four:
        list(four.map(lambda _: evaluate(told.flow, told.world.connections, events, **options), range(4)))
    return told.posted[before:]


def late_runs(told: Told) -> dict[str, bool]:
    """Run id → whether its missed deadline is on, of all that ZooKeeper remembers."""
    with told.look() as look:
        book = look.store.alert_book().load(told.flow.name)
    return {run_id: noted.state.raised for key, noted in book.items() if (run_id := rules.late_run(key))}


def test_a_missed_deadline_is_over_with_its_run_and_then_forgotten(told: Told) -> None:
    told.shop.writer.run(5)
    told.shop.world.run(told.flow)
    raised, recovered = [("deadline", "raised")], [("deadline", "recovered")]
    assert at_once(told, missed("by_callback"), missed("by_airflow")) == raised * 2
    assert at_once(told, missed("by_callback")) == []
    # One run's own callback says that it is over; of another one Airflow knows, and is asked of no more.
    assert at_once(told, missed("by_callback", RuleVerdict.CLEAR)) == recovered
    asked: list[set[str]] = []

    def ended(run_ids: Any) -> Any:
        asked.append(set(run_ids))
        return run_ids

    assert at_once(told, ended=ended) == recovered
    assert asked
    assert set.union(*asked) == {"by_airflow"}
    over = Alert.from_json(told.hooks.requests[-1].body)
    assert (over.subject, over.run_id, over.run_url) == ("by_airflow", "by_airflow", "http://airflow/by_airflow")
    assert over.range
    # A callback that is repeated, and who looked before it was over, tell nothing again; after that it is forgotten.
    assert at_once(told, missed("by_callback")) == []
    assert late_runs(told) == {"by_callback": False, "by_airflow": False}
    assert at_once(told, clock=Ahead(timedelta(minutes=6))) == []
    assert late_runs(told) == {}
    assert len(told.posted) == 4


def test_the_deadline_of_an_audited_run_is_over_for_everybody(told: Told) -> None:
    """Its callback was late: the audit, which would have said so, came before it."""
    told.shop.writer.run(5)
    told.shop.world.run(told.flow)
    with RecordStore(told.world.settings.records_url) as records:
        evaluate_run(records, told.flow.name, "r1", datetime.now(UTC))
    told.evaluate(missed("r1"), missed("r2"))
    told.evaluate()
    told.evaluate()
    assert late_runs(told) == {"r1": False, "r2": True}
    assert told.posted == [("deadline", "raised")] * 2 + [("deadline", "recovered")]


def order(told: Told, number: int, note: str) -> None:
    with told.shop.connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO shop.orders VALUES ({number}, 1, 'new', 1, NULL, {note}, NOW(6), NOW())")


def test_quality_and_held_rows_name_the_run_and_range_that_they_are_of(told: Told, heard: Heard) -> None:
    flow = told.flow.model_copy(update={"checks": (NotNull("note", tables=("shop.orders",)),)})
    places = []

    def run(number: int, note: str) -> None:
        order(told, number, note)
        run_locally(told.world, flow, f"r{number}")
        places.append(told.world.checkpoint(flow).offset)

    def audited(run_id: str) -> None:
        with open_services(flow, told.world.connections, told.world.settings) as services:
            audit_run(flow, services, run_id, run_url=f"http://airflow/{run_id}")

    run(1, "'fine'")
    run(2, "NULL")
    run(3, "'fine'")
    audited("r2")  # while its successors move on
    order(told, 4, "'fine'")
    with open_services(flow, told.world.connections, told.world.settings) as services:
        lease = services.store.claim(flow.name, "r4", 0, "http://airflow/r4")
        heard.tell(flow, lag_bytes=1)
        lease.release()
    mine = ("r2", "http://airflow/r2", f"({places[0]}, {places[1]}]")
    for kind in ("quality", "quarantine"):
        (raised,) = heard.of_kind(kind)
        assert (raised.event, raised.flow) == (AlertEvent.RAISED, flow.name)
        assert (raised.run_id, raised.run_url, raised.range) == mine
        assert raised.runbook.endswith(f"{kind}.md")
    assert heard.of_kind("quarantine")[0].figures["quarantine_new_rows"] == 1
    (lag,) = heard.of_kind("lag")  # that is of the run that holds the lease, which has committed nothing yet
    assert (lag.run_id, lag.run_url) == ("r4", "http://airflow/r4")
    audited("r3")
    heard.tell(flow, lag_bytes=1, ahead=timedelta(minutes=61))
    assert heard.events("quality") == heard.events("quarantine") == ["raised", "recovered"]
    assert heard.of_kind("quality")[1].run_id == "r3"


def test_the_command_line_lists_what_is_on_and_tries_the_channels(told: Told, tmp_path: Path) -> None:
    told.shop.flow = told.flow
    told.shop.dag_file(tmp_path)
    told.evaluate(Observation(AlertKind.FAILURE, RuleVerdict.OVER, "transfer failed", "transfer"))
    command = CliHere(told.world, tmp_path)
    command.environment |= {**told.world.environment, "DATABUS_SANDBOX": "none"}
    (row,) = command.json("alerts", "list", told.flow.name)
    assert (row["alert"], row["on"], row["number"], row["owed_to"]) == ("failure/transfer", True, 1, "")
    command("alerts", "test", told.flow.name)
    assert "this is a test" in told.subjects[-1]
    assert told.hooks.requests[-1].body["summary"].startswith("this is a test")
    told.mailbox.refuse = "550 no such box"
    refused = command("alerts", "test", told.flow.name, code=1)
    assert "no such box" in refused.stderr
