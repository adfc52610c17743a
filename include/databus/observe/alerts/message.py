"""An alert in words."""

from __future__ import annotations

from collections.abc import Iterator

from databus.core.alerts.alert import Alert


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
