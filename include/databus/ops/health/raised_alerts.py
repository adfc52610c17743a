"""Alerts of a flow that are raised, or that a channel was not told of yet."""

from __future__ import annotations

from typing import Any

from databus.core.connections import ConnectionSource
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.ops.health.status import FlowLook


def raised_alerts(
    flow: Flow, connections: ConnectionSource, settings: Settings, *, every: bool
) -> list[dict[str, Any]]:
    """Return plain JSON of a flow's alerts, by their name.

    Args:
        flow: the flow.
        connections: resolves its conn_ids.
        settings: the installation's.
        every: whether resolved ones are listed too.

    Raises:
        CheckpointError: ZooKeeper does not answer.
    """
    with FlowLook(flow, connections, settings) as look:
        return [
            {
                "flow": flow.name,
                "alert": key,
                "on": None if noted.problem else noted.state.raised,
                "since": noted.state.since.isoformat(timespec="seconds") if noted.state.since else None,
                "number": None if noted.problem else noted.state.number,
                "owed_to": ", ".join(sorted({c for owed in noted.state.owed for c in owed.channels})),
                "problem": noted.problem,
            }
            for key, noted in sorted(look.store.alert_book().load(flow.name).items())
            if every or noted.state.raised or noted.state.owed or noted.problem
        ]
