"""A replay of the quarantine in a process of its own that kills itself (SIGKILL) at one of its stages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from databus import Flow, __version__
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.ops.checkpoint.amend import Attribution
from databus.ops.quarantine.replay import replay_rows
from databus.ops.services import open_services
from databus.records.quarantine.rows import HeldRows, Selection
from databus.registry import flow_from_json
from databus.runtime.beside import replay as replay_module
from databus.runtime.context import RunIdentity
from databus.runtime.spark.session import connect_session
from databus.sandbox import Sandbox, SandboxOptions
from tests.integration.conftest import World

STAGES: dict[str, tuple[Any, str, int]] = {
    "taken up": (HeldRows, "take_up", 1),
    "written to the first of two sinks": (replay_module, "dispatch", 1),
    "written to both sinks": (replay_module, "dispatch", 2),
    "planned": (ZooKeeperCheckpoints, "write_plan", 1),
    "settled": (HeldRows, "settle", 1),
    "committed": (ZooKeeperCheckpoints, "commit", 1),
}
"""Stage → the call whose n-th return ends it."""


def replay_until(stage: str, world: World, flow: Flow, row: str) -> None:
    """Replay one row in a process that is killed at a stage.

    Raises:
        AssertionError: it ended in another way.
    """
    told = {
        "stage": stage, "home": str(world.home), "sandbox": str(world.sandbox.home), "flow": flow.to_json(), "row": row,
        "environment": world.environment, "session": world.session_of(flow.name),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-m", __name__, json.dumps(told)], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, (stage, done.returncode, done.stderr.decode()[-4000:])


def _killed_after(owner: Any, name: str, nth: int) -> None:
    real: Callable[..., Any] = getattr(owner, name)
    calls: list[int] = []

    def call(*arguments: Any, **named: Any) -> Any:
        done = real(*arguments, **named)
        calls.append(1)
        if len(calls) == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(owner, name, call)


def _main(told: dict[str, Any]) -> None:
    sandbox = Sandbox(Path(told["sandbox"]), options=SandboxOptions())
    world, flow = World(sandbox, Path(told["home"]), told["environment"]), flow_from_json(told["flow"])
    _killed_after(*STAGES[told["stage"]])
    with open_services(flow, world.connections, world.settings) as services:
        # The session of the flow, as every process of it takes.
        spark = connect_session(f"sc://{sandbox.address('spark')}", told["session"])
        run = spark, RunIdentity("replay", "", __version__)
        replay_rows(
            flow, services, run, Selection(event_ids=(told["row"],)), Attribution("ada", "the check was lifted")
        )


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
