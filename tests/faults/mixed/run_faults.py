"""Faults of the run, its executors, its clock and its disk; each returns the moment from which recovery counts."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from tests.faults.mixed.cluster import ENGINE, until
from tests.faults.mixed.scene import Scene, bring_up
from tests.faults.world import Run

CLOCK_OFFSETS_S = (-3600, 3600)
_ZOMBIE_ENDS_S = 90.0


def in_mid_batch(scene: Scene) -> Run:
    """Return the run that holds the lease at a random moment after it has planned a batch.

    Raises:
        TimeoutError: none plans any.
    """
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        run = scene.supervisor.claimed()
        known = len(run.told("planned"))
        # A window may end here; then the next run is waited for.
        if run.wait_for("planned", timeout_s=10, count=known + 1) is not None:
            time.sleep(scene.chance.uniform(0, 1.5))
            if run.status is None:
                return run
    raise TimeoutError("no run plans a batch")


def run_killed(scene: Scene) -> float:
    """Kill the driver; its executors go on with the tasks in hand."""
    run = in_mid_batch(scene)
    _signal(run.pid, signal.SIGKILL)
    return time.time()


def run_stopped(scene: Scene) -> float:
    """SIGSTOP until the session has expired and another run has committed; then the zombie wakes, and must end."""
    run = in_mid_batch(scene)
    run.signal_group(signal.SIGSTOP)
    stopped = time.time()
    scene.supervisor.let_go()
    _heir_commits(scene, stopped)
    _wake(scene, run)
    return stopped


def executor_killed(scene: Scene) -> float:
    """Kill one executor while a batch is under way."""
    _signal(scene.chance.choice(scene.executors(in_mid_batch(scene))), signal.SIGKILL)
    return time.time()


def executors_killed(scene: Scene) -> float:
    """Kill all executors of the run at once, as when their machine goes down."""
    for executor in scene.executors(in_mid_batch(scene)):
        _signal(executor, signal.SIGKILL)
    return time.time()


def executor_stopped(scene: Scene) -> float:
    """Stop the executors, kill the run, and wake the orphaned tasks after another run has committed."""
    run = in_mid_batch(scene)
    executors = scene.executors(run)
    for executor in executors:
        _signal(executor, signal.SIGSTOP)
    _signal(run.pid, signal.SIGKILL)
    stopped = time.time()
    try:
        _heir_commits(scene, stopped)
    finally:
        for executor in executors:
            _signal(executor, signal.SIGCONT)
    scene.report.fates["zombies"] += 1
    return stopped


def connect_server_killed(scene: Scene) -> float:
    """Kill the Spark Connect server, and with it all executors."""
    in_mid_batch(scene)
    scene.world.sandbox.kill(ENGINE)
    bring_up(scene, ENGINE)
    return time.time()


def clock_step(scene: Scene) -> float:
    """The clock of the runs steps an hour in mid-batch, and back after a commit; half of them are killed between."""
    run = in_mid_batch(scene)
    scene.clock.step(scene.chance.choice(CLOCK_OFFSETS_S))
    stepped = time.time()
    if scene.chance.random() < 0.5:
        time.sleep(scene.chance.uniform(0, 1.0))
        _signal(run.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        until(lambda: scene.supervisor.commits(stepped), 60)
    scene.clock.step(0)
    return time.time()


def disk_full(scene: Scene) -> float:
    scene.world.fill_disk()
    scene.lasts()
    scene.world.free_disk()
    return time.time()


def _heir_commits(scene: Scene, after: float) -> None:
    wanted = scene.chance.randint(1, 3)
    with suppress(TimeoutError):  # the loop says that nothing is committed
        until(lambda: len(scene.supervisor.commits(after)) >= wanted, 90)


def _wake(scene: Scene, run: Run) -> None:
    """Let a stopped run go on; it must end by itself."""
    run.signal_group(signal.SIGCONT)
    if run.wait_end(_ZOMBIE_ENDS_S) is None:
        scene.report.find(
            "zombie", "run stopped", f"run {run.number} does not end after it was woken: {run.events[-1:]}"
        )
        run.signal_group(signal.SIGKILL)
        run.wait_end(10)
    scene.report.fates.update(f"run stopped: {e['event']} {e.get('code', '')}" for e in run.told("failed"))
    scene.report.fates["zombies"] += 1
    scene.report.note_end(run, "zombie: ")


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
