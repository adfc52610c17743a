"""A mail server and a webhook for the alerts of any test's flow, which itself runs as it is."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from databus import AlertWhen, Email, Flow, Webhook
from databus.core.alerts.alert import Alert
from databus.core.times import SystemClock
from databus.ops.health.alerts import evaluate
from tests.unit.observe.receivers import Hooks, Mailbox, http_receiver, smtp_sink

if TYPE_CHECKING:
    from datetime import datetime

    from tests.integration.conftest import World

_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Ahead(SystemClock):
    """A clock that is ahead of time."""

    by: timedelta = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.by


@dataclass
class Heard:
    """Channels to real receivers, and what these were given."""

    world: World
    mailbox: Mailbox
    hooks: Hooks
    channels: tuple[Email | Webhook, ...]

    def tell(self, flow: Flow, *events: Any, ahead: timedelta = timedelta(0), **when: Any) -> None:
        """Judge a flow as a task of it does, twice: what is told again then is told too often."""
        told = flow.model_copy(update={"alerts": (AlertWhen(**when), *self.channels)})
        for _ in range(2):
            evaluate(told, self.world.connections, events, Ahead(ahead))

    def of_kind(self, kind: str) -> list[Alert]:
        """Return what was told of a kind; both channels were given the same."""
        posted = [Alert.from_json(request.body) for request in self.hooks.requests]
        titles = [" ".join(alert.title.split())[:200] for alert in posted]
        subjects = [str(mail["Subject"]).strip() for mail in self.mailbox.mails]  # a long one begins on its second line
        assert titles == subjects, (titles, subjects)
        return [alert for alert in posted if alert.kind == kind]

    def events(self, kind: str) -> list[str]:
        return [str(alert.event) for alert in self.of_kind(kind)]


@contextlib.contextmanager
def receivers(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    """Run both receivers while the block runs; tasks find the world's settings in the environment."""
    monkeypatch.setenv("DATABUS_INSTALLATION", world.settings.installation)
    monkeypatch.setenv("DATABUS_RECORDS_URL", world.settings.records_url)
    monkeypatch.setenv("DATABUS_SEGMENT_STORE", world.settings.segment_store)
    with smtp_sink() as mailbox, http_receiver() as hooks:
        mail, hook = (f"alerts_{kind}_{next(_NUMBERS)}" for kind in ("mail", "hook"))
        extra = {"disable_ssl": True, "disable_tls": True}
        smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": mailbox.port, "extra": extra}
        http = {"conn_type": "http", "host": "127.0.0.1", "port": hooks.port, "schema": "http"}
        world.environment[f"AIRFLOW_CONN_{mail.upper()}"] = json.dumps(smtp)
        world.environment[f"AIRFLOW_CONN_{hook.upper()}"] = json.dumps(http)
        channels = (Email(to="ops@example.com", conn_id=mail), Webhook(conn_id=hook))
        yield Heard(world, mailbox, hooks, channels)


@pytest.fixture
def heard(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    with receivers(world, monkeypatch) as heard:
        yield heard
