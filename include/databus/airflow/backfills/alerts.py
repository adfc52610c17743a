"""Backfill alerts: one when a range failed, and one when a run has moved it after all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from databus.airflow.backfills.params import asked_of
from databus.airflow.notifiers import AlertNotifier
from databus.airflow.reporting.alert_events import error_of, event_of, over
from databus.airflow.reporting.flow_callbacks import listed
from databus.core.alerts.alert import AlertKind, ChannelSpec
from databus.core.flow import Flow
from databus.observe.alerts.rules import Observation


class BackfillNotifier(AlertNotifier):
    """Notifies the flow's channels that a backfill failed, or with `kind=None` that it is done after all.

    The alert's subject is the range and what was to be done with it, not the task: a range that was moved says nothing
    of another that was not. Whichever run moves it, the same run cleared or a new one, ends the alert.
    """

    def events(self, context: Any) -> list[Observation]:
        """Return what happened to the range that the context's run was asked for."""
        asked = asked_of(context)
        if self.kind is None:
            return [over(AlertKind.FAILURE, asked.subject, context)]
        said, range_ = f"{asked.title} failed: {error_of(context)}", f"[{asked.start}, {asked.end})"
        return [replace(event_of(self.kind, context), summary=said, subject=asked.subject, range=range_)]


class ScheduledLookNotifier(BackfillNotifier):
    """Notes that scheduled runs can look again at what is missing; other runs that were skipped say nothing."""

    def events(self, context: Any) -> list[Observation]:
        """Return that the failure of scheduled runs is over, if the context's run is one."""
        return super().events(context) if asked_of(context).scheduled else []


def backfill_callbacks(flow: Flow, defaults: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the callbacks of the backfill DAG's task; those of the DAG's `default_args` are kept.

    Args:
        flow: the flow; one without channels adds nothing.
        defaults: the DAG's `default_args`.
    """
    if not any(isinstance(spec, ChannelSpec) for spec in flow.alerts):
        return {}
    told = {
        "on_failure_callback": BackfillNotifier(flow),
        "on_success_callback": BackfillNotifier(flow, None),
        "on_skipped_callback": ScheduledLookNotifier(flow, None),
    }
    return {name: [*listed(defaults.get(name)), notifier] for name, notifier in told.items()}
