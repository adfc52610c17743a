"""Channels against real receivers: what arrives, and what a refusal says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from databus import AlertWhen, Email, Flow, Mock, Noop, Notifier, Webhook
from databus.core.alerts.alert import Alert, AlertEvent, AlertKind, ChannelSpec
from databus.core.connections import Connection
from databus.core.errors import AlertingError, ConfigError
from databus.registry import flow_from_json
from tests.unit.observe.receivers import Hooks, Mailbox, http_receiver, smtp_sink

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RAISED = Alert(
    installation="test", flow="orders", kind=AlertKind.LAG, subject="", number=2, event=AlertEvent.RAISED,
    summary="lag 400 of 300 s <b>", at=NOON, since=NOON,
    figures={"lag_seconds": 400.0, "lag_rows": 12345, "none": None},
    range="(mysql-bin.000001:4, mysql-bin.000001:900]", run_id="scheduled__1", run_url="https://airflow.example/r/1",
    runbook="https://docs.example/lag.md",
)  # fmt: skip
RECOVERED = replace(RAISED, event=AlertEvent.RECOVERED, summary="lag 0 of 300 s")
SECRET = "s3cret-token"


class Known:
    def __init__(self, **connection: Any) -> None:
        self.connection = Connection(conn_id="there", conn_type="any", **connection)

    def get(self, _conn_id: str) -> Connection:
        return self.connection


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with smtp_sink() as box:
        yield box


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    with http_receiver() as found:
        yield found


def smtp(box: Mailbox, **more: Any) -> Known:
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "databus@example.com"}
    return Known(host="127.0.0.1", port=box.port, extra=extra, **more)


def http(hooks: Hooks, **more: Any) -> Known:
    return Known(host="127.0.0.1", port=hooks.port, db_schema="http", **more)


def test_an_e_mail_carries_flow_range_figures_run_and_runbook(mailbox: Mailbox) -> None:
    Email(to="ops@example.com, night@example.com").send(RAISED, smtp(mailbox))
    (mail,) = mailbox.mails
    assert mailbox.recipients == [["TO:<ops@example.com>", "TO:<night@example.com>"]]
    assert (mail["Subject"], mail["From"]) == ("[WARNING] orders: lag 400 of 300 s <b>", "databus@example.com")
    body = mail.get_content()
    for part in ("lag rows: 12,345", RAISED.range, RAISED.run_url, RAISED.runbook, "test/orders/lag#2", "400.0"):
        assert part in body
    assert "none" not in body


def test_a_repetition_has_the_same_message_id_and_an_incident_one_thread(mailbox: Mailbox) -> None:
    channel = Email(to=("ops@example.com",))
    for alert in (RAISED, RAISED, RECOVERED):
        channel.send(alert, smtp(mailbox))
    first, again, over = mailbox.mails
    assert first["Message-ID"] == again["Message-ID"] != over["Message-ID"]
    assert first["References"] == over["References"]
    assert over["Subject"].startswith("[OK] orders")


def test_a_login_is_used(mailbox: Mailbox) -> None:
    Email(to="ops@example.com").send(RAISED, smtp(mailbox, login="me", password=SecretStr(SECRET)))
    assert len(mailbox.logins) == len(mailbox.mails) == 1


def test_a_summary_cannot_add_headers(mailbox: Mailbox) -> None:
    Email(to="ops@example.com").send(replace(RAISED, summary="x\r\nBcc: evil@example.com"), smtp(mailbox))
    assert mailbox.mails[0]["Bcc"] is None


def test_a_mail_server_that_refuses_or_is_away_is_named(mailbox: Mailbox) -> None:
    mailbox.refuse = "451 later"
    with pytest.raises(AlertingError, match="later"):
        Email(to="ops@example.com").send(RAISED, smtp(mailbox))
    assert mailbox.mails == []
    with pytest.raises(AlertingError, match=r"127\.0\.0\.1") as away:
        Email(to="ops@example.com").send(RAISED, Known(host="127.0.0.1", port=1, extra={"disable_ssl": True}))
    assert "disable_ssl" in away.value.hint


def test_a_webhook_gets_the_whole_alert(hooks: Hooks) -> None:
    Webhook(conn_id="there").send(RAISED, http(hooks, extra={"path": "/in", "headers": {"X-Token": SECRET}}))
    (posted,) = hooks.requests
    assert (posted.path, posted.headers["X-Token"]) == ("/in", SECRET)
    assert Alert.from_json(posted.body) == RAISED
    assert posted.body["title"] == RAISED.title


def test_slack_gets_text_and_fields_escaped(hooks: Hooks) -> None:
    url = SecretStr(f"http://127.0.0.1:{hooks.port}/services/T0/B0/{SECRET}")
    for alert in (RAISED, RECOVERED):
        Webhook(conn_id="there", shape="slack").send(alert, Known(password=url))
    raised, recovered = (posted.body for posted in hooks.requests)
    assert hooks.requests[0].path == f"/services/T0/B0/{SECRET}"
    assert raised["text"] == "[WARNING] orders: lag 400 of 300 s &lt;b&gt;"
    fields = {f["title"]: f["value"] for f in raised["attachments"][0]["fields"]}
    assert fields["Range"] == RAISED.range
    assert fields["Run page"] == RAISED.run_url
    assert raised["attachments"][0]["color"] != recovered["attachments"][0]["color"]


def test_teams_gets_an_adaptive_card(hooks: Hooks) -> None:
    Webhook(conn_id="there", shape="teams").send(RAISED, http(hooks))
    (attachment,) = hooks.requests[0].body["attachments"]
    card = attachment["content"]
    assert (hooks.requests[0].body["type"], card["type"]) == ("message", "AdaptiveCard")
    assert {"title": "Range", "value": RAISED.range} in card["body"][1]["facts"]
    assert [action["url"] for action in card["actions"]] == [RAISED.run_url, RAISED.runbook]


def test_pagerduty_triggers_and_resolves_one_incident(hooks: Hooks) -> None:
    channel = Webhook(conn_id="there", shape="pagerduty")
    for alert in (RAISED, RECOVERED):
        channel.send(alert, http(hooks, password=SecretStr(SECRET)))
    trigger, resolve = (posted.body for posted in hooks.requests)
    assert (trigger["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    assert trigger["dedup_key"] == resolve["dedup_key"] == RAISED.incident
    assert trigger["routing_key"] == SECRET
    assert trigger["payload"]["severity"] == "warning"
    assert trigger["payload"]["custom_details"]["range"] == RAISED.range


def test_pagerduty_needs_no_host() -> None:
    url, _ = Webhook(conn_id="p", shape="pagerduty").request(RAISED, Connection(conn_id="p", conn_type="http"))
    assert url == "https://events.pagerduty.com/v2/enqueue"


def test_a_refusal_names_status_and_answer_and_no_secret(hooks: Hooks) -> None:
    hooks.status = 503
    with pytest.raises(AlertingError, match="HTTP 503: said so"):
        Webhook(conn_id="there").send(RAISED, http(hooks))
    url = SecretStr(f"http://127.0.0.1:1/{SECRET}")
    with pytest.raises(AlertingError) as away:
        Webhook(conn_id="there", shape="teams").send(RAISED, Known(password=url))
    assert SECRET not in str(away.value)
    with pytest.raises(ConfigError, match="names no address"):
        Webhook(conn_id="there").send(RAISED, Known())
    with pytest.raises(ConfigError, match="file is not http"):
        Webhook(conn_id="there").send(RAISED, Known(host="file:///etc/passwd"))


def test_any_notifier_of_airflow_is_called_with_the_alert(tmp_path: Any) -> None:
    into = tmp_path / "told"
    path = f"{__name__}.Recorded"
    Notifier(path=path, options={"into": str(into), "said": "{{ alert.title }} {{ run_id }}"}).send(RAISED, Known())
    assert into.read_text() == f"{RAISED.title} scheduled__1"
    with pytest.raises(AlertingError, match="IsADirectoryError"):
        Notifier(path=path, options={"into": str(tmp_path), "said": ""}).send(RAISED, Known())
    with pytest.raises(ConfigError, match="no_such"):
        Notifier(path="no_such.Thing").send(RAISED, Known())


def test_a_notifier_that_comes_with_airflow_tells_a_mail_server(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "airflow@example.com"}
    smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": mailbox.port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_OPS_MAIL", json.dumps(smtp))
    options = {
        "to": "ops@example.com",
        "smtp_conn_id": "ops_mail",
        "subject": "{{ alert.title }}",
        "html_content": "<pre>{{ text | e }}</pre>",
    }
    Notifier(path="airflow.providers.smtp.notifications.smtp.SmtpNotifier", options=options).send(RAISED, Known())
    (mail,) = mailbox.mails
    assert (mail["Subject"], mail["From"], mail["To"]) == (RAISED.title, "airflow@example.com", "ops@example.com")
    body = "".join(part.get_content() for part in mail.walk() if part.get_content_type() == "text/html")
    for part in (f"Range: {RAISED.range}", f"Run page: {RAISED.run_url}", f"Runbook: {RAISED.runbook}", "&lt;b&gt;"):
        assert part in body


def __getattr__(name: str) -> Any:  # Airflow is imported by the one test that needs it
    if name != "Recorded":
        raise AttributeError(name)
    from airflow.sdk import BaseNotifier

    class Recorded(BaseNotifier):
        template_fields = ("said",)

        def __init__(self, into: str, said: str) -> None:
            self.into, self.said = into, said
            super().__init__()

        def notify(self, context: Any) -> None:
            from pathlib import Path

            Path(self.into).write_text(self.said)

    return Recorded


FLOW = {"name": "orders", "source": Mock(rows=1), "sinks": (Noop(),)}


def test_a_flow_names_its_alerts_in_one_line() -> None:
    alerts = (
        AlertWhen(lag=timedelta(seconds=60)),
        Email(to="ops@example.com"),
        Webhook(conn_id="slack_ops", shape="slack"),
    )
    flow = Flow(**FLOW, alerts=alerts)
    assert flow_from_json(flow.to_json()) == flow
    assert flow.spec_hash("1") == Flow(**FLOW).spec_hash("1")  # who is told changes no output
    names = [spec.channel_name for spec in flow.alerts if isinstance(spec, ChannelSpec)]
    assert names == ["email:smtp_default:ops@example.com", "webhook:slack:slack_ops"]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Email(to="nobody"), "not an e-mail address"),
        (lambda: Email(to=()), "to"),
        (lambda: Webhook(conn_id="x", shape="fax"), "shape"),
        (lambda: AlertWhen(lag=timedelta(seconds=-1)), "lag: "),
        (lambda: AlertWhen(remind=timedelta(hours=0.001)), "shorter than a minute"),
        (lambda: Notifier(path="rm -rf"), "is not module.Class"),
        (lambda: Flow(**FLOW, alerts=(Webhook(conn_id="a"), Webhook(conn_id="a"))), "must be unique"),
        (lambda: Flow(**FLOW, alerts=(AlertWhen(), AlertWhen())), "one AlertWhen"),
    ],
)
def test_wrong_settings_name_the_line(build: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        build()
    assert f"{__file__}:" in refused.value.message
