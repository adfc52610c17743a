"""Alerts: what an operator is told about a flow, and what is remembered so that it is told once."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Protocol

from databus.core.connections import ConnectionSource
from databus.core.spec import Spec
from databus.core.stored_json import FORMAT_VERSION, require_version


class AlertKind(enum.StrEnum):
    """What an alert is about; each has a page of the same name under docs/runbooks."""

    LAG = "lag"
    GAP = "gap"
    HEADROOM = "headroom"
    QUALITY = "quality"
    QUARANTINE = "quarantine"
    FAILURE = "failure"
    DEADLINE = "deadline"
    NO_RUN = "no_run"
    SINK_BEHIND = "sink_behind"
    UNREACHABLE = "unreachable"
    AIRFLOW = "airflow"


class AlertEvent(enum.StrEnum):
    """What happened to an alert."""

    RAISED = "raised"
    REMINDER = "reminder"
    RECOVERED = "recovered"


class Severity(enum.StrEnum):
    """How bad it is: CRITICAL may lose data or stops the flow, WARNING may wait for the morning."""

    WARNING = "warning"
    CRITICAL = "critical"


SEVERITIES: Mapping[AlertKind, Severity] = {
    kind: Severity.CRITICAL
    if kind in {AlertKind.GAP, AlertKind.HEADROOM, AlertKind.FAILURE, AlertKind.NO_RUN, AlertKind.UNREACHABLE}
    else Severity.WARNING
    for kind in AlertKind
}


@dataclass(frozen=True)
class Alert:
    """One message to an operator.

    Attributes:
        installation: the installation's name.
        flow: flow name; "" for what concerns all flows.
        kind: what it is about.
        subject: tells alerts of a kind apart: number of a gap, task id, sink; "" where there is one.
        number: counts how often this alert was raised; with the fields above it names the incident.
        event: raised, reminder or recovered.
        summary: one line.
        at: when it was decided, aware UTC.
        since: when the incident was raised.
        figures: name → figure, in words of docs/metrics.md where there is such a metric.
        range: range of the log it concerns, in text form; "" when there is none.
        run_id: run it concerns, "" when none.
        run_url: address of that run's page, "" when unknown.
        runbook: address of the page that says what to do.
    """

    installation: str
    flow: str
    kind: AlertKind
    subject: str
    number: int
    event: AlertEvent
    summary: str
    at: datetime
    since: datetime
    figures: Mapping[str, Any] = field(default_factory=dict)
    range: str = ""
    run_id: str = ""
    run_url: str = ""
    runbook: str = ""

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return SEVERITIES[self.kind]

    @property
    def incident(self) -> str:
        """Name of the incident: the same when it is told again, reminded of or recovered from."""
        subject = f"/{self.subject}" if self.subject else ""
        return f"{self.installation}/{self.flow or '-'}/{self.kind}{subject}#{self.number}"

    @property
    def title(self) -> str:
        """Return a subject line."""
        word = {AlertEvent.RAISED: self.severity.upper(), AlertEvent.REMINDER: "STILL", AlertEvent.RECOVERED: "OK"}
        return f"[{word[self.event]}] {self.flow or self.installation}: {self.summary}"

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON; `incident`, `severity` and `title` are told along for readers."""
        return {
            "v": FORMAT_VERSION,
            "incident": self.incident,
            "severity": str(self.severity),
            "title": self.title,
            "installation": self.installation,
            "flow": self.flow,
            "kind": str(self.kind),
            "subject": self.subject,
            "number": self.number,
            "event": str(self.event),
            "summary": self.summary,
            "at": self.at.isoformat(),
            "since": self.since.isoformat(),
            "figures": dict(self.figures),
            "range": self.range,
            "run_id": self.run_id,
            "run_url": self.run_url,
            "runbook": self.runbook,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Alert:
        """Read what `to_json` wrote."""
        require_version(data, "alert")
        return cls(
            data["installation"],
            data["flow"],
            AlertKind(data["kind"]),
            data["subject"],
            data["number"],
            AlertEvent(data["event"]),
            data["summary"],
            datetime.fromisoformat(data["at"]),
            datetime.fromisoformat(data["since"]),
            data["figures"],
            data["range"],
            data["run_id"],
            data["run_url"],
            data["runbook"],
        )


@dataclass(frozen=True)
class Owed:
    """An alert that some channels have not been given yet.

    Attributes:
        alert: the alert.
        channels: names of those channels.
    """

    alert: Alert
    channels: tuple[str, ...]


@dataclass(frozen=True)
class AlertState:
    """What is remembered of one alert of a flow.

    Attributes:
        raised: whether it is on.
        number: how often it was raised.
        over_since: since when the rule is violated without a break, None while it is not; an alert that has to hold
            for a while is raised after that.
        since: when it was last raised.
        told_at: when the last raise or reminder was decided.
        owed: what channels were not given yet, oldest first.
        teller: who is giving it to them; "" for nobody.
        teller_until: until then everybody else leaves it to the teller, or waits before trying again.
    """

    raised: bool = False
    number: int = 0
    over_since: datetime | None = None
    since: datetime | None = None
    told_at: datetime | None = None
    owed: tuple[Owed, ...] = ()
    teller: str = ""
    teller_until: datetime | None = None

    def given(self, alert: Alert, channel: str) -> AlertState:
        """Return the state after a channel was given an alert."""
        left = [
            replace(o, channels=tuple(c for c in o.channels if c != channel)) if o.alert == alert else o
            for o in self.owed
        ]
        return replace(self, owed=tuple(o for o in left if o.channels))

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return {
            "v": FORMAT_VERSION,
            "raised": self.raised,
            "number": self.number,
            "over_since": _text(self.over_since),
            "since": _text(self.since),
            "told_at": _text(self.told_at),
            "owed": [{"alert": o.alert.to_json(), "channels": list(o.channels)} for o in self.owed],
            "teller": self.teller,
            "teller_until": _text(self.teller_until),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AlertState:
        """Read what `to_json` wrote."""
        require_version(data, "alert state")
        return cls(
            data["raised"],
            data["number"],
            _time(data["over_since"]),
            _time(data["since"]),
            _time(data["told_at"]),
            tuple(Owed(Alert.from_json(o["alert"]), tuple(o["channels"])) for o in data["owed"]),
            data["teller"],
            _time(data["teller_until"]),
        )


def _text(when: datetime | None) -> str | None:
    return when.isoformat() if when else None


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


@dataclass(frozen=True)
class Noted:
    """A state as it was read.

    Attributes:
        state: the state.
        version: to be given back when it is replaced; None for a state that is not stored yet.
    """

    state: AlertState
    version: int | None


class AlertBook(Protocol):
    """Remembers alert states for all who evaluate rules: tasks of two schedulers, their retries, `databus watch`."""

    def load(self, flow: str) -> Mapping[str, Noted]:
        """Return the flow's states by "kind" or "kind/subject".

        Raises:
            CheckpointError: the store does not answer, or holds what is not ours.
        """
        ...

    def swap(self, flow: str, key: str, version: int | None, state: AlertState) -> int | None:
        """Replace a state that nobody changed since it was read; return its new version, None when somebody did.

        Raises:
            CheckpointError: the store does not answer; the state was replaced, or not.
        """
        ...


class AlertSpec(Spec):
    """Base of what stands in a flow's `alerts`: rules and channels."""


class ChannelSpec(AlertSpec):
    """Base of channels.

    Attributes:
        name: name inside the flow; made of its options by default.
        events: which events it is given.
        kinds: which kinds it is given; empty for all.
    """

    fields_in_name: ClassVar[tuple[str, ...]] = ("conn_id",)

    name: str = ""
    events: tuple[AlertEvent, ...] = tuple(AlertEvent)
    kinds: tuple[AlertKind, ...] = ()

    @property
    def channel_name(self) -> str:
        """The name, or kind and options when none was given."""
        return self.name or ":".join([self.kind, *(_words(getattr(self, part)) for part in self.fields_in_name)])

    def takes(self, alert: Alert) -> bool:
        """Tell whether it is given an alert."""
        return alert.event in self.events and (not self.kinds or alert.kind in self.kinds)

    def send(self, alert: Alert, connections: ConnectionSource) -> None:
        """Give it an alert; a repetition carries the same incident and time.

        Raises:
            AlertingError: it was not taken.
            ConnectionMissingError: its conn_id is unknown.
        """
        raise NotImplementedError

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return (conn_id, expected conn_type) pairs."""
        return ()


def _words(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
