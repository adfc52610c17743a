"""Place of alerts: a book, channels that hear or fail, and a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from databus.core.alerts.alert import Alert, AlertKind, ChannelSpec
from databus.core.connections import ConnectionSource
from databus.core.settings import Settings
from databus.observe.alerts.hysteresis import NotificationTiming, RuleVerdict
from databus.observe.alerts.outbox import MemoryBook, Outbox
from databus.observe.alerts.rules import Observation

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

OVER = Observation(
    AlertKind.LAG, RuleVerdict.OVER, "lag 400 of 300 s", range="(a:4, a:9]", figures={"lag_seconds": 400.0}
)
CLEAR = Observation(AlertKind.LAG, RuleVerdict.CLEAR, "lag 0 of 300 s")


class DiedError(BaseException):
    """A process that was killed: nothing in it can take note of that."""


@dataclass
class TestClock:
    __test__ = False
    at: datetime = NOON

    def now(self) -> datetime:
        return self.at

    def wait(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class Heard(ChannelSpec):
    kind: ClassVar[str] = "heard"
    fields_in_name: ClassVar[tuple[str, ...]] = ()
    log: Any = None
    before: Any = None

    def send(self, alert: Alert, connections: ConnectionSource) -> None:
        if self.before is not None:
            self.before(alert)
        self.log.append((self.channel_name, alert))


class Connections:
    def get(self, conn_id: str) -> Any:
        raise AssertionError(conn_id)


@dataclass
class Place:
    """A book that several evaluators share, and what the channels heard."""

    clock: TestClock = field(default_factory=TestClock)
    book: Any = None
    heard: list[tuple[str, Alert]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.book = self.book or MemoryBook(self.clock)

    def channel(self, name: str = "a", before: Callable[[Alert], None] | None = None, **options: Any) -> Heard:
        return Heard(name=name, log=self.heard, before=before, **options)

    def outbox(self, *channels: ChannelSpec, book: Any = None, clock: TestClock | None = None) -> Outbox:
        settings = Settings("test", "", "", runbooks_url="https://runbooks.example/")
        return Outbox("orders", book or self.book, channels, Connections(), clock or self.clock, settings)

    def say(self, outbox: Outbox, *observations: Observation) -> list[Alert]:
        return outbox.consider(observations, {AlertKind.GAP}, lambda _kind: NotificationTiming())

    @property
    def events(self) -> list[str]:
        return [f"{name} {alert.event}" for name, alert in self.heard]
