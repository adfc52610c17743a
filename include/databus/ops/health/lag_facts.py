"""Lag of a flow as plain JSON, and back: the API measures it, and the command shows it as its own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from databus.core.positions.lag import Headroom, Lag
from databus.core.state.snapshot_progress import SnapshotProgress
from databus.ops.health.lag import Beginning, FlowLag


def lag_facts(found: FlowLag) -> dict[str, Any]:
    """Return a flow's lag as plain JSON; its error is not in it."""
    lag = {**vars(found.lag), "measured_at": found.lag.measured_at.isoformat()} if found.lag else None
    return {
        "flow": found.flow,
        "committed": found.committed,
        "lag": lag,
        "headroom": vars(found.headroom) if found.headroom else None,
        "eta_s": found.eta_s,
        "beginning": {**vars(found.beginning), "text": str(found.beginning)} if found.beginning else None,
        "snapshot": found.snapshot.to_json() if found.snapshot else None,
    }


def lag_of(facts: Mapping[str, Any]) -> FlowLag:
    """Return what `lag_facts` told of."""
    lag, headroom, beginning, snapshot = (facts[name] for name in ("lag", "headroom", "beginning", "snapshot"))
    return FlowLag(
        facts["flow"],
        facts["committed"],
        Lag(**{**lag, "measured_at": datetime.fromisoformat(lag["measured_at"])}) if lag else None,
        Headroom(**headroom) if headroom else None,
        facts["eta_s"],
        beginning=Beginning(**{n: v for n, v in beginning.items() if n != "text"}) if beginning else None,
        snapshot=SnapshotProgress.from_json(snapshot) if snapshot else None,
    )
