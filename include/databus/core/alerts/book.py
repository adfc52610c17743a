"""Alert book: alert states and pending notifications, as kept for all who evaluate rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from databus.core.alerts.alert import Alert
from databus.core.stored_form import Form

ALERT_STATE = Form(
    "alert state",
    "raised number over_since since told_at seen_at owed teller teller_until range run_id run_url",
)


@dataclass(frozen=True)
class PendingNotification:
    """An alert that some channels have not been given yet.

    Attributes:
        alert: the alert.
        channels: names of those channels.
    """

    alert: Alert
    channels: tuple[str, ...]


@dataclass(frozen=True)
class AlertState:
    """Alert state of one alert of a flow.

    Attributes:
        raised: whether it is on.
        number: how often it was raised.
        over_since: since when the rule is violated without a break, None while it is not; an alert that has to hold
            for a while is raised after that.
        since: when it was last raised.
        told_at: when the last raise or reminder was decided.
        seen_at: when that was seen by which it was last raised or recovered; who looked before that knows less.
        owed: pending notifications, oldest first.
        teller: who is giving it to them; "" for nobody.
        teller_until: until then, by the book's clock, everybody else leaves it to the teller, or waits before trying
            again.
        range: range of the log it was raised for, "" when there is none.
        run_id: run it was raised for, "" when there is none.
        run_url: address of that run's page, "" when unknown.
    """

    raised: bool = False
    number: int = 0
    over_since: datetime | None = None
    since: datetime | None = None
    told_at: datetime | None = None
    seen_at: datetime | None = None
    owed: tuple[PendingNotification, ...] = ()
    teller: str = ""
    teller_until: datetime | None = None
    range: str = ""
    run_id: str = ""
    run_url: str = ""

    @property
    def settled(self) -> bool:
        """Return whether it is over and all notifications were sent."""
        return not (self.raised or self.owed or self.over_since)

    def given(self, alert: Alert, channel: str) -> AlertState:
        """Return the state after a channel was given an alert."""
        left = [
            replace(o, channels=tuple(c for c in o.channels if c != channel)) if o.alert == alert else o
            for o in self.owed
        ]
        return replace(self, owed=tuple(o for o in left if o.channels))

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return ALERT_STATE.write(
            {
                "raised": self.raised,
                "number": self.number,
                "over_since": _text(self.over_since),
                "since": _text(self.since),
                "told_at": _text(self.told_at),
                "seen_at": _text(self.seen_at),
                "owed": [{"alert": o.alert.to_json(), "channels": list(o.channels)} for o in self.owed],
                "teller": self.teller,
                "teller_until": _text(self.teller_until),
                "range": self.range,
                "run_id": self.run_id,
                "run_url": self.run_url,
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AlertState:
        """Read what `to_json` wrote."""
        data = ALERT_STATE.read(data)
        return cls(
            raised=data["raised"],
            number=data["number"],
            over_since=_time(data["over_since"]),
            since=_time(data["since"]),
            told_at=_time(data["told_at"]),
            seen_at=_time(data.get("seen_at")),  # not in what older versions wrote
            owed=tuple(PendingNotification(Alert.from_json(o["alert"]), tuple(o["channels"])) for o in data["owed"]),
            teller=data["teller"],
            teller_until=_time(data["teller_until"]),
            range=data.get("range", ""),  # nor are these
            run_id=data.get("run_id", ""),
            run_url=data.get("run_url", ""),
        )


def _text(when: datetime | None) -> str | None:
    return when.isoformat() if when else None


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


@dataclass(frozen=True)
class StoredAlertState:
    """A state as it was read.

    Attributes:
        state: the state.
        version: to be given back when it is replaced; None for a state that is not stored yet.
        problem: why what is stored cannot be read; then `state` is a fresh one whose number no incident has had, which
            takes its place once the alert is raised. "" for a state that was read.
    """

    state: AlertState
    version: int | None
    problem: str = ""


class AlertBook(Protocol):
    """Remembers alert states for all who evaluate rules: tasks of two schedulers, their retries, `databus watch`."""

    def now(self) -> datetime:
        """Return the time by one clock for all who share the book, aware UTC; it never goes back while a book lives.

        Raises:
            CheckpointError: the store does not answer.
        """
        ...

    def load(self, flow: str) -> Mapping[str, StoredAlertState]:
        """Return the flow's states by "kind" or "kind/subject"; one that cannot be read hides no other.

        Raises:
            CheckpointError: the store does not answer.
        """
        ...

    def swap(self, flow: str, key: str, version: int | None, state: AlertState) -> int | None:
        """Replace a state that nobody changed since it was read; return its new version, None when somebody did.

        Raises:
            CheckpointError: the store does not answer; the state was replaced, or not.
        """
        ...

    def remove(self, flow: str, key: str, version: int) -> None:
        """Forget a state that nobody changed since it was read; one that somebody did stays.

        Idempotent.

        Raises:
            CheckpointError: the store does not answer; the state was removed, or not.
        """
        ...
