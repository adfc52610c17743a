"""What a fault works on, and how servers come up again after it."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from databus.core.errors import SandboxError
from tests.faults.mixed.cluster import Cluster, until
from tests.faults.mixed.step_clock import StepClock
from tests.faults.mixed.supervisor import Supervisor
from tests.faults.report import Report
from tests.faults.world import Run, World

LASTS_S = (1.0, 3.0, 6.0, 10.0)


@dataclass(frozen=True)
class Scene:
    """What a fault works on.

    Attributes:
        world: servers and proxies.
        cluster: who leads.
        supervisor: the runs.
        clock: of the runs.
        report: timeline and findings.
        chance: decides what is drawn inside a fault.
        transactional_id: of a slot of the Kafka sink.
    """

    world: World
    cluster: Cluster
    supervisor: Supervisor
    clock: StepClock
    report: Report
    chance: random.Random
    transactional_id: str

    def lasts(self) -> None:
        """Let the fault last."""
        time.sleep(self.chance.choice(LASTS_S))

    def executors(self, run: Run) -> list[int]:
        """Return the processes that hold the run's tasks: its own, or the Python workers of the Spark server."""
        return run.executors or until(self.cluster.workers, 30)


def bring_up(scene: Scene, server: str) -> None:
    """Start a server; on a busy machine one may take longer than the sandbox waits for it."""
    for left in (2, 1, 0):
        try:
            scene.world.sandbox.up([server], progress=quiet)
        except SandboxError as error:
            scene.report.note(f"{server} does not come up: {error.message[:300]}")
            if not left:
                raise
        else:
            return


def restart(scene: Scene, server: str, process: str | None = None) -> None:
    """Start a server or one of its processes anew; one that runs is stopped in order."""
    try:
        scene.world.sandbox.restart(server, process, progress=quiet)
    except SandboxError as error:
        scene.report.note(f"{server} does not come up: {error.message[:300]}")
        bring_up(scene, server)


def quiet(_event: object) -> None:
    """Report nothing of a server's start."""
