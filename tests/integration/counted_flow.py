"""One window of a flow of the example packages, in a process of its own: run by the interpreter that has them.

Its one argument is JSON: the flow, and where its installation is. Tasks run here, one after the other (`OneProcess`).
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pyarrow as pa

from databus import __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.ops.ledger.verify import verify
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.registry import flow_from_json
from databus.runtime.context import RunIdentity
from databus.runtime.window_limits import WindowControl, WindowLimits
from tests.direct_engine import DirectEngine, Task


class OneProcess(DirectEngine):
    def run(self, task: Task, numbers: range) -> list[dict[str, Any]]:
        batches = ([pa.RecordBatch.from_pydict({"id": pa.array([n], pa.int64())})] for n in numbers)
        return [row for batch in batches for answer in task(batch) for row in answer.to_pylist()]


def main(told: dict[str, Any]) -> None:
    """Run until the flow has caught up, then print the ledger's verdict."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.info("begins")  # noqa: LOG015 - of this script
    flow = flow_from_json(told["flow"])
    settings = Settings("test", f"{told['home']}/segments", f"sqlite:///{told['home']}/records.db")
    control = WindowControl(WindowLimits(max_seconds=60, until_caught_up=True, lease_wait_s=30))
    identity = RunIdentity("run", "http://airflow/run", __version__)
    with open_services(flow, EnvironmentConnections(told["connections"]), settings) as services:
        run_flow(flow, services, OneProcess(), identity, control)
        logging.info("verifies")  # noqa: LOG015
        found = verify(flow, services, None)
        checkpoint = services.store.load(flow.name)
    assert checkpoint is not None
    json.dump(
        {
            "problems": [str(problem) for problem in found.problems],
            "looked_at": [f"{subject}: {what}" for subject, what in found.looked_at],
            "read": {table: counts.read for table, counts in found.state.ledger.tables.items()},
            "offset": checkpoint.offset.to_json(),
            "epoch": checkpoint.epoch,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
