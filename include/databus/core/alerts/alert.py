"""Alerts of a flow: messages to operators, and their channels."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from databus.core.connections import ConnectionSource
from databus.core.spec import Spec
from databus.core.stored_form import Form

ALERT = Form(
    "alert",
    "incident severity title installation flow kind subject number event summary at since figures range run_id run_url "
    "runbook",
)


class AlertKind(enum.StrEnum):
    """Alert kind; each has a page of the same name under docs/runbooks."""

    LAG = "lag"
    GAP = "gap"
    HEADROOM = "headroom"
    QUALITY = "quality"
    QUARANTINE = "quarantine"
    REJECTED = "rejected"
    FAILURE = "failure"
    DEADLINE = "deadline"
    NO_RUN = "no_run"
    SINK_BEHIND = "sink_behind"
    MISSING_TABLES = "missing_tables"
    UNREACHABLE = "unreachable"
    AIRFLOW = "airflow"


class AlertEvent(enum.StrEnum):
    """Alert transition."""

    RAISED = "raised"
    REMINDER = "reminder"
    RECOVERED = "recovered"


class Severity(enum.StrEnum):
    """Alert severity: CRITICAL may lose data or stops the flow, WARNING may wait for the morning."""

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
    """Alert message to an operator.

    Attributes:
        installation: the installation's name.
        flow: flow name; "" for what concerns all flows.
        kind: what it is about.
        subject: distinguishes alerts of a kind: number of a gap, task id, sink; "" where there is one.
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
        """Severity of the alert."""
        return SEVERITIES[self.kind]

    @property
    def incident(self) -> str:
        """Name of the incident: the same when it is sent again, reminded of or recovered from."""
        subject = f"/{self.subject}" if self.subject else ""
        return f"{self.installation}/{self.flow or '-'}/{self.kind}{subject}#{self.number}"

    @property
    def title(self) -> str:
        """Return a subject line."""
        word = {AlertEvent.RAISED: self.severity.upper(), AlertEvent.REMINDER: "STILL", AlertEvent.RECOVERED: "OK"}
        return f"[{word[self.event]}] {self.flow or self.installation}: {self.summary}"

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON; `incident`, `severity` and `title` are added for readers."""
        return ALERT.write(
            {
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
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Alert:
        """Read what `to_json` wrote."""
        data = ALERT.read(data)
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


class AlertSpec(Spec):
    """Base of what stands in a flow's `alerts`: rules and channels."""


class ChannelSpec(AlertSpec):
    """Base of channels.

    Attributes:
        name: name inside the flow, e.g. "night"; default "", made of its options.
        events: events that it is given, e.g. ("raised",); default all.
        kinds: kinds of alerts that it is given, e.g. ("lag",); default (), all.
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
        """Return whether it is given an alert."""
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
