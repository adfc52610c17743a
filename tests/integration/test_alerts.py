"""Alerts over real servers: a flow's figures, what is told to a mail server and a webhook, and that it is told once."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from databus import AlertWhen, Email, Flow, Webhook
from databus.checkpoints.session import start_client
from databus.core.alert_book import AlertState
from databus.core.alerts import AlertEvent, AlertKind
from databus.core.errors import CheckpointFormatError
from databus.core.settings import Settings
from databus.observe.alerts.hysteresis import Verdict
from databus.observe.alerts.rules import Observation
from databus.observe.clock import SystemClock
from databus.ops.alerts import Teller, evaluate
from databus.ops.figures import FlowLook
from databus.sandbox.connections import airflow_connections
from tests.integration.conftest import World
from tests.integration.one_process import OneProcessWorld
from tests.integration.shop_flow import Shop
from tests.unit.observe.receivers import Hooks, Mailbox, http_receiver, smtp_sink

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
def told(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setenv("DATABUS_INSTALLATION", world.settings.installation)
    monkeypatch.setenv("DATABUS_RECORDS_URL", world.settings.records_url)
    monkeypatch.setenv("DATABUS_SEGMENT_STORE", world.settings.segment_store)
    with contextlib.ExitStack() as stack:
        mailbox, hooks = stack.enter_context(smtp_sink()), stack.enter_context(http_receiver())
        name = f"alerts_{datetime.now(UTC):%H%M%S%f}"
        shop = Shop(OneProcessWorld(world.sandbox, world.home, world.environment), name)  # type: ignore[arg-type]
        stack.callback(shop.connection.close)
        extra = {"disable_ssl": True, "disable_tls": True}
        smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": mailbox.port, "extra": extra}
        http = {"conn_type": "http", "host": "127.0.0.1", "port": hooks.port, "schema": "http"}
        world.environment["AIRFLOW_CONN_ALERTS_MAIL"] = json.dumps(smtp)
        world.environment["AIRFLOW_CONN_ALERTS_HOOK"] = json.dumps(http)
        channels = (Email(to="ops@example.com", conn_id="alerts_mail"), Webhook(conn_id="alerts_hook"))
        flow = shop.flow.model_copy(update={"alerts": (AlertWhen(lag_bytes=500, clear_ratio=0.5), *channels)})
        shop.flow = flow
        yield Told(world, shop, flow, mailbox, hooks)


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


def test_a_mail_server_that_is_away_gets_it_later_and_the_webhook_at_once(told: Told) -> None:
    told.mailbox.refuse = "451 later"
    failed = Observation(
        AlertKind.FAILURE, Verdict.OVER, "transfer failed", "transfer", run_id="r1", run_url="http://r/1"
    )
    told.evaluate(failed)
    assert told.posted == [("failure", "raised")]
    assert told.subjects == []
    told.mailbox.refuse = ""
    with told.look() as look:  # as if the pause before another try were over
        book = look.store.alert_book()
        noted = book.load(told.flow.name)["failure/transfer"]
        assert [owed.channels for owed in noted.state.owed] == [("email:alerts_mail:ops@example.com",)]
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
    flow = told.flow.model_copy(update={"zookeeper": lost})
    evaluate(
        flow, told.world.connections, [Observation(AlertKind.FAILURE, Verdict.OVER, "transfer failed", "transfer")]
    )
    assert told.posted == [("failure", "raised")]


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


def test_a_state_written_by_hand_is_named_and_harms_no_run(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    client = start_client(told.world.connections.get("zookeeper_default"))
    try:
        client.create(f"/databus/flows/{told.flow.name}/alerts/lag", b"{}", makepath=True)
    finally:
        client.stop()
        client.close()
    with told.look() as look, pytest.raises(CheckpointFormatError, match="alert lag"):
        look.store.alert_book().load(told.flow.name)
    told.evaluate()
    assert "alerts were not evaluated" in caplog.text


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
    observation = Observation(AlertKind.QUALITY, Verdict.OVER, "4 violations")

    def tell(_: int) -> list[AlertEvent]:
        with told.look() as look:
            teller = Teller(look.store.alert_book(), told.world.connections, told.world.settings, SystemClock())
            return [alert.event for alert in teller.tell(told.flow, [observation], ())]

    with ThreadPoolExecutor(6) as six:
        decided = list(six.map(tell, range(6)))
    assert sorted(len(events) for events in decided) == [0, 0, 0, 0, 0, 1]
    assert told.posted == [("quality", "raised")]
    assert len(told.subjects) == 1


def test_the_command_line_lists_what_is_on_and_tries_the_channels(told: Told, tmp_path: Path) -> None:
    told.shop.flow = told.flow
    told.shop.dag_file(tmp_path)
    told.evaluate(Observation(AlertKind.FAILURE, Verdict.OVER, "transfer failed", "transfer"))
    listed = command(told, "alerts", "list", told.flow.name, "--dags", str(tmp_path), "--output", "json")
    (row,) = json.loads(listed.stdout)
    assert (row["alert"], row["on"], row["number"], row["owed_to"]) == ("failure/transfer", True, 1, "")
    assert command(told, "alerts", "test", told.flow.name, "--dags", str(tmp_path)).returncode == 0
    assert "this is a test" in told.subjects[-1]
    assert told.hooks.requests[-1].body["summary"].startswith("this is a test")
    told.mailbox.refuse = "550 no such box"
    refused = command(told, "alerts", "test", told.flow.name, "--dags", str(tmp_path))
    assert refused.returncode == 1
    assert "no such box" in refused.stderr


def command(told: Told, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        **airflow_connections(told.world.sandbox.status()),
        **told.world.environment,
        "DATABUS_SANDBOX": "none",
    }
    return subprocess.run(
        [sys.executable, "-m", "databus.cli.main", *words],
        env=environment, capture_output=True, text=True, check=False, timeout=250,
    )  # fmt: skip
