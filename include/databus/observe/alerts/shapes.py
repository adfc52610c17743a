"""Alerts in words, and the bodies that Slack, Microsoft Teams and PagerDuty take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from databus.core.alerts.alert import Alert, AlertEvent, Severity

_RED, _AMBER, _GREEN = "#a30200", "#daa038", "#2eb886"


def slack(alert: Alert) -> dict[str, Any]:
    """Return a message for a Slack incoming webhook (Slack, "Sending messages using incoming webhooks")."""

    def escaped(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    fields = [{"title": name, "value": escaped(value), "short": len(value) < 40} for name, value in facts(alert)]
    return {
        "text": escaped(alert.title),
        "attachments": [{"color": _color(alert), "fallback": escaped(alert.title), "fields": fields}],
    }


def teams(alert: Alert) -> dict[str, Any]:
    """Return a message with an Adaptive Card for a Teams workflow ("Post to a channel when a webhook is received")."""
    links = (("Open the run", alert.run_url), ("Open the runbook", alert.runbook))
    style = "Good" if alert.event is AlertEvent.RECOVERED else "Attention"
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "text": alert.title, "weight": "Bolder", "wrap": True, "color": style},
            {"type": "FactSet", "facts": [{"title": name, "value": value} for name, value in facts(alert)]},
        ],
        "actions": [
            {"type": "Action.OpenUrl", "title": title, "url": url}
            for title, url in links
            if url.startswith(("https://", "http://"))
        ],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def pagerduty(alert: Alert) -> dict[str, Any]:
    """Return an event for PagerDuty's Events API v2; the routing key is added by the channel."""
    body: dict[str, Any] = {
        "event_action": "resolve" if alert.event is AlertEvent.RECOVERED else "trigger",
        "dedup_key": alert.incident[:255],
        "payload": {
            "summary": alert.title[:1024],
            "source": f"databus/{alert.installation}",
            "severity": str(alert.severity),
            "timestamp": alert.at.isoformat(),
            "component": alert.flow,
            "group": alert.installation,
            "class": str(alert.kind),
            "custom_details": {**alert.figures, "range": alert.range, "run_id": alert.run_id, "runbook": alert.runbook},
        },
    }
    if alert.run_url.startswith(("https://", "http://")):
        body["links"] = [{"href": alert.run_url, "text": "Airflow run"}]
    return body


def _color(alert: Alert) -> str:
    if alert.event is AlertEvent.RECOVERED:
        return _GREEN
    return _RED if alert.severity is Severity.CRITICAL else _AMBER


def facts(alert: Alert) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of all that is known, in the order an operator asks for it."""
    pairs = (
        ("Flow", alert.flow),
        ("Event", str(alert.event)),
        ("Severity", str(alert.severity)),
        ("Range", alert.range),
        ("Run", alert.run_id),
        ("Run page", alert.run_url),
        *((name.replace("_", " "), _figure(value)) for name, value in alert.figures.items() if value is not None),
        ("Since", alert.since.isoformat(timespec="seconds")),
        ("At", alert.at.isoformat(timespec="seconds")),
        ("Runbook", alert.runbook),
        ("Incident", alert.incident),
    )
    return ((name, value) for name, value in pairs if value)


def text(alert: Alert) -> str:
    """Return the alert as plain text."""
    return "\n".join([alert.title, "", *(f"{name}: {value}" for name, value in facts(alert)), ""])


def _figure(value: object) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
