"""Metrics that a real flow shows as `databus watch` gives them; four tests together see every one of them.

What no flow shows by itself is seen where it arises: partitions in `test_mirror_lag.py`, snapshots in
`test_snapshot_commands.py`, refused rows in `test_rejected_first_batch.py`, outages in `test_watch.py`, which sees all
the others.
"""

from __future__ import annotations

import re

from databus import Flow
from databus.observe.metric_names import WATCH_METRICS
from databus.observe.prometheus import of_flow, render
from databus.ops.health.status import FlowLook
from tests.integration.conftest import World

EVERY = frozenset(metric.prometheus for metric in WATCH_METRICS)
OF_PARTITIONS = frozenset(name for name in EVERY if name.startswith("databus_partition_"))
OF_SNAPSHOTS = frozenset(name for name in EVERY if name.startswith("databus_snapshot_"))
OF_REFUSED_ROWS = frozenset(name for name in EVERY if name.startswith("databus_rejected_"))
OF_OUTAGES = frozenset({"databus_unreachable"})
OF_ANY_FLOW = EVERY - OF_PARTITIONS - OF_SNAPSHOTS - OF_REFUSED_ROWS - OF_OUTAGES


def shown(flow: Flow, world: World) -> set[str]:
    """Return the names of a flow's metrics at one look."""
    with FlowLook(flow, world.connections, world.settings) as look:
        return set(re.findall(r"^# TYPE (\w+) ", render(of_flow(look.look())), re.MULTILINE))
