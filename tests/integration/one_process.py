"""The direct lane in this process: tasks run one after the other, servers and path are real.

For tests whose subject is what a run leaves behind, not the engine: many short runs cost seconds instead of minutes.
"""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from databus import Flow, __version__
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.direct.lane import may_be_direct
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.runtime.window_result import WindowResult
from tests.direct_engine import DirectEngine, Task
from tests.integration.conftest import World

_NUMBERS = itertools.count(1)


class OneProcess(DirectEngine):
    """Runs each task here, when its rows are asked for."""

    def run(self, task: Task, numbers: range) -> list[dict[str, Any]]:
        batches = ([pa.RecordBatch.from_pydict({"id": pa.array([n], pa.int64())})] for n in numbers)
        return [row for batch in batches for answer in task(batch) for row in answer.to_pylist()]


def run_locally(world: World, flow: Flow, run_id: str = "", **limits: Any) -> WindowResult:
    """Run a window of a direct-lane flow until it has caught up; the run's page is at http://airflow/<run id>."""
    assert may_be_direct(flow)
    bounds: dict[str, Any] = {"max_seconds": 240, "until_caught_up": True, "lease_wait_s": 0, **limits}
    control = WindowControl(WindowLimits(**bounds))
    run_id = run_id or f"local-{next(_NUMBERS)}"
    identity = RunIdentity(run_id, f"http://airflow/{run_id}", __version__)
    with open_services(flow, world.connections, world.settings) as services:
        return run_flow(flow, services, OneProcess(), identity, control)


class OneProcessWorld(World):
    """Servers without Spark; flows must take the direct lane."""

    def run(self, flow: Flow, **limits: Any) -> WindowResult:
        return run_locally(self, flow, f"run of {flow.name}", **limits)
