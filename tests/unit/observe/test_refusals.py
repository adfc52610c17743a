"""What becomes of an alert that a receiver refuses in part, sends elsewhere, or that fails as nobody foresaw."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import SecretStr

from databus import Email, Notifier, Webhook
from databus.core.alerts.alert import Alert
from databus.core.errors import AlertingError, ConfigError
from databus.observe.alerts.outbox import GIVE_UP, RETRY_S
from tests.unit.observe.alert_place import CLEAR, OVER, Place
from tests.unit.observe.receivers import Hooks, Mailbox, answering
from tests.unit.observe.test_channels import (
    RAISED,
    SECRET,
    Known,
    hooks,  # noqa: F401 - a fixture
    http,
    mailbox,  # noqa: F401 - a fixture
    smtp,
)


def test_an_address_that_is_refused_costs_the_others_no_second_mail(
    mailbox: Mailbox,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    mailbox.refuse, mailbox.refuse_only = "550 no such box", "gone@"
    place = Place()
    outbox = replace(place.outbox(Email(to="ops@example.com, gone@example.com")), connections=smtp(mailbox))
    for _ in range(4):
        place.say(outbox, OVER)
        place.clock.wait(RETRY_S + 1)
    place.say(outbox, CLEAR)
    assert [str(mail["Subject"]).partition(" ")[0] for mail in mailbox.mails] == ["[WARNING]", "[OK]"]
    assert mailbox.recipients == [["TO:<ops@example.com>"]] * 2
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 2
    assert errors[0].endswith("127.0.0.1 refused gone@example.com (550 no such box)")


def test_where_every_address_is_refused_the_mail_stays_owed(mailbox: Mailbox) -> None:  # noqa: F811
    mailbox.refuse = "451 later"
    place = Place()
    outbox = replace(place.outbox(Email(to="ops@example.com, night@example.com")), connections=smtp(mailbox))
    place.say(outbox, OVER)
    assert mailbox.mails == []
    mailbox.refuse = ""
    place.clock.wait(RETRY_S + 1)
    place.say(outbox, OVER)
    assert mailbox.recipients == [["TO:<ops@example.com>", "TO:<night@example.com>"]]


def test_a_mail_that_was_taken_is_taken_however_the_server_parts(mailbox: Mailbox) -> None:  # noqa: F811
    mailbox.farewell = "500 not understood"
    Email(to="ops@example.com").send(RAISED, smtp(mailbox))
    assert len(mailbox.mails) == 1


@pytest.mark.parametrize("word", ["grün-geheim", "geheim-ß"])
def test_a_password_that_smtp_cannot_say_is_an_error_of_the_channel(mailbox: Mailbox, word: str) -> None:  # noqa: F811
    with pytest.raises(AlertingError, match=r"127\.0\.0\.1: UnicodeEncodeError") as refused:
        Email(to="ops@example.com").send(RAISED, smtp(mailbox, login="me", password=SecretStr(word)))
    assert "geheim" not in str(refused.value)
    assert "\\x" not in str(refused.value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_refusal_and_is_not_followed(hooks: Hooks, status: int) -> None:  # noqa: F811
    hooks.status, hooks.location = status, f"http://127.0.0.1:{hooks.port}/login"
    with pytest.raises(AlertingError, match=f"HTTP {status}: said so"):
        Webhook(conn_id="there").send(RAISED, http(hooks, extra={"headers": {"X-Token": SECRET}}))
    assert len(hooks.requests) == 1
    assert hooks.asked == []


@pytest.mark.parametrize(
    "answer",
    [b"well, well\r\n\r\n", b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\nnonsense", b""],
)
def test_a_receiver_that_does_not_speak_http_is_an_error_of_the_channel(answer: bytes) -> None:
    with answering(answer) as port, pytest.raises(AlertingError, match="connection there"):
        Webhook(conn_id="there").send(RAISED, Known(host="127.0.0.1", port=port, db_schema="http"))


def test_an_address_or_header_that_cannot_be_sent_is_an_error_without_its_text(hooks: Hooks) -> None:  # noqa: F811
    address = SecretStr(f"http://127.0.0.1:{hooks.port}/services/{SECRET} x")
    for known in (
        Known(password=address),
        Known(host="127.0.0.1:port", db_schema="http", extra={"path": SECRET}),
        http(hooks, extra={"headers": {"X-Thing": f"{SECRET}\nx"}}),
        http(hooks, extra={"headers": {"X-Thing": f"{SECRET} €"}}),
    ):
        with pytest.raises(AlertingError) as refused:
            Webhook(conn_id="there").send(RAISED, known)
        assert SECRET not in str(refused.value)
    assert hooks.requests == []


@pytest.mark.parametrize("headers", ["X-Token: 1", ["X-Token"], 7])
def test_headers_that_are_no_mapping_are_named(hooks: Hooks, headers: object) -> None:  # noqa: F811
    with pytest.raises(ConfigError, match="headers in extra is no mapping"):
        Webhook(conn_id="there").send(RAISED, http(hooks, extra={"headers": headers}))


class Refusing:
    def __init__(self) -> None:
        raise RuntimeError("no options")


def test_a_notifier_that_cannot_be_made_is_an_error_of_the_channel() -> None:
    with pytest.raises(AlertingError, match="RuntimeError: no options"):
        Notifier(path=f"{__name__}.Refusing").send(RAISED, Known())


def test_a_channel_that_raises_what_nobody_foresaw_starves_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_alert: Alert) -> None:
        raise ValueError(SECRET)

    place = Place()
    outbox = place.outbox(place.channel("bad", fail), place.channel("good"))
    place.say(outbox, OVER)
    place.say(outbox, CLEAR)
    assert place.events == ["good raised", "good recovered"]
    place.clock.wait(RETRY_S + 1)
    place.say(outbox)
    assert [owed.channels for owed in place.book.load("orders")["lag"].state.owed] == [("bad",), ("bad",)]
    place.clock.wait(GIVE_UP.total_seconds())
    place.say(outbox)
    assert place.book.load("orders")["lag"].state.owed == ()
    assert place.events == ["good raised", "good recovered"]
    assert "channel bad: ValueError; tried again" in caplog.text
    assert f"channel bad did not take it for {GIVE_UP}, dropped: ValueError" in caplog.text
    assert SECRET not in caplog.text
