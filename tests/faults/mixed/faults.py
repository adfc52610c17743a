"""The faults of a mixed schedule: each begins, lasts and ends, and returns the moment from which recovery counts."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from databus.core.errors import SandboxError
from tests.faults.mixed.cluster import ENGINE, KAFKA, MEMBERS, SEARCH, SOURCE, ZOOKEEPER, Cluster, until
from tests.faults.mixed.step_clock import StepClock
from tests.faults.mixed.supervisor import Supervisor
from tests.faults.report import Report
from tests.faults.world import Run, World

LASTS_S = (1.0, 3.0, 6.0, 10.0)
_ZOMBIE_ENDS_S = 90.0
CLOCK_OFFSETS_S = (-3600, 3600)


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


# --- the run and its executors ---


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
    _up(scene, ENGINE)
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


# --- servers ---


def member_killed(server: str, role: Callable[[Scene], str]) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        chosen = role(scene)
        scene.report.note(f"{server} {chosen} is killed")
        scene.world.sandbox.kill(server, chosen)
        scene.lasts()
        _again(scene, server, chosen)
        return time.time()

    return fault


def member_restarted(server: str, role: Callable[[Scene], str]) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        _again(scene, server, role(scene))
        return time.time()

    return fault


def member_paused(server: str, role: Callable[[Scene], str], lasts_s: float) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        chosen = role(scene)
        scene.world.sandbox.pause(server, chosen)
        time.sleep(lasts_s)
        scene.world.sandbox.resume(server, chosen)
        return time.time()

    return fault


def majority_lost(scene: Scene) -> float:
    """Two of three members of the ensemble are down."""
    gone = scene.chance.sample(MEMBERS, 2)
    for member in gone:
        scene.world.sandbox.kill(ZOOKEEPER, f"server-{member}")
    scene.lasts()
    _up(scene, ZOOKEEPER)
    return time.time()


def server_killed(server: str) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        scene.world.sandbox.kill(server)
        scene.lasts()
        _up(scene, server)
        return time.time()

    return fault


def server_restarted(server: str) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        _again(scene, server)
        return time.time()

    return fault


def server_paused(server: str) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        scene.world.sandbox.pause(server)
        scene.lasts()
        scene.world.sandbox.resume(server)
        return time.time()

    return fault


def cut(server: str) -> Callable[[Scene], float]:
    """Connections are lost again and again."""

    def fault(scene: Scene) -> float:
        for _ in range(6):
            scene.world.proxies[server].cut()
            time.sleep(scene.chance.uniform(0.1, 1.0))
        return time.time()

    return fault


def delayed(server: str) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        scene.world.proxies[server].delay(scene.chance.choice((0.05, 0.2, 0.5)))
        scene.lasts()
        scene.world.proxies[server].heal()
        return time.time()

    return fault


def partitioned(server: str) -> Callable[[Scene], float]:
    """Nothing passes to the server, or from it, or neither way; connections stay open."""

    def fault(scene: Scene) -> float:
        ways = scene.chance.choice((("to",), ("from",), ("to", "from")))
        scene.report.note(f"nothing passes {' or '.join(ways)} {server}")
        scene.world.proxies[server].stop(*ways)
        scene.lasts()
        scene.world.proxies[server].heal()
        return time.time()

    return fault


def _up(scene: Scene, server: str) -> None:
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


def _again(scene: Scene, server: str, process: str | None = None) -> None:
    """Start a server or one of its processes anew; one that runs is stopped in order."""
    try:
        scene.world.sandbox.restart(server, process, progress=quiet)
    except SandboxError as error:
        scene.report.note(f"{server} does not come up: {error.message[:300]}")
        _up(scene, server)


def _any_broker(scene: Scene) -> str:
    return f"broker-{scene.chance.choice(MEMBERS)}"


def _coordinator(scene: Scene) -> str:
    return f"broker-{scene.cluster.coordinator(scene.transactional_id)}"


def _leader(scene: Scene) -> str:
    return f"server-{scene.cluster.zookeeper_member('leader')}"


def _any_member(scene: Scene) -> str:
    return f"server-{scene.cluster.zookeeper_member(scene.chance.choice(('leader', 'follower')))}"


FAULTS: dict[str, Callable[[Scene], float]] = {
    "run killed": run_killed,
    "run stopped": run_stopped,
    "executor killed": executor_killed,
    "executor stopped": executor_stopped,
    "executors killed": executors_killed,
    "clock step": clock_step,
    "disk full": disk_full,
    "broker killed": member_killed(KAFKA, _any_broker),
    "broker restarted": member_restarted(KAFKA, _any_broker),
    "broker paused": member_paused(KAFKA, _any_broker, 12.0),
    "coordinator killed": member_killed(KAFKA, _coordinator),
    "Kafka cut": cut(KAFKA),
    "Kafka delayed": delayed(KAFKA),
    "Kafka partitioned": partitioned(KAFKA),
    "ZooKeeper member killed": member_killed(ZOOKEEPER, _any_member),
    "ZooKeeper member restarted": member_restarted(ZOOKEEPER, _any_member),
    "ZooKeeper leader paused": member_paused(ZOOKEEPER, _leader, 8.0),
    "ZooKeeper majority lost": majority_lost,
    "ZooKeeper cut": cut(ZOOKEEPER),
    "ZooKeeper delayed": delayed(ZOOKEEPER),
    "ZooKeeper partitioned": partitioned(ZOOKEEPER),
    "OpenSearch killed": server_killed(SEARCH),
    "OpenSearch restarted": server_restarted(SEARCH),
    "OpenSearch paused": server_paused(SEARCH),
    "OpenSearch cut": cut(SEARCH),
    "OpenSearch delayed": delayed(SEARCH),
    "OpenSearch partitioned": partitioned(SEARCH),
    "MySQL killed": server_killed(SOURCE),
    "MySQL restarted": server_restarted(SOURCE),
    "MySQL cut": cut(SOURCE),
    "MySQL delayed": delayed(SOURCE),
    "MySQL partitioned": partitioned(SOURCE),
}
"""Kind → what does it. `member_*` befalls one of three, the others the whole server or all connections to it."""

ON_SPARK: dict[str, Callable[[Scene], float]] = {
    **{kind: FAULTS[kind] for kind in ("run killed", "run stopped", "executor killed", "executor stopped")},
    "Connect server killed": connect_server_killed,
}
"""Kinds of the slow loop, whose tasks run in a real Spark Connect server."""

EVERY = FAULTS | ON_SPARK


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


def quiet(_event: object) -> None:
    """Report nothing of a server's start."""
