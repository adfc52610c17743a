"""The loop of faults on a mirror: runs of the real path between two clusters, and the oracle after each round."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from confluent_kafka import KafkaException

from databus import Mirror
from databus.core.errors import SandboxError
from databus.sandbox import Sandbox
from databus.sinks.kafka.markers import MarkerKey
from tests.faults.harness import Harness
from tests.faults.mirror.by_hand import Operator
from tests.faults.mirror.oracle import MirrorOracle
from tests.faults.mirror.world import SOURCE, TARGET, MirrorWorld
from tests.faults.mirror.writer import MirrorWriter
from tests.faults.mixed.cluster import coordinator
from tests.faults.mixed.loop import STUCK_S as MIXED_STUCK_S
from tests.faults.report import Report
from tests.faults.schedule import Fault

_STARTED_S = 600.0

SERVER_FAULTS = (
    *(
        f"{side} {what}"
        for side in (SOURCE, TARGET)
        for what in (
            "killed",
            "restarted",
            "paused",
            "coordinator killed",
            "link down",
            "cut",
            "delayed",
            "hears not",
            "unheard",
        )
    ),
    "zookeeper killed",
    "zookeeper paused",
    "zookeeper cut",
    "zookeeper unheard",
)
"""What befalls the clusters, the links to them, and ZooKeeper; of a cluster of three, one broker at a time."""


class MirrorHarness(Harness):
    """One mirror of two topics, two writers at its source, and readers on both sides."""

    world: MirrorWorld

    def __init__(self, world: MirrorWorld, name: str, seed: int, tell: Callable[[str], None] = lambda _line: None):
        source, target = world.sides[SOURCE], world.sides[TARGET]
        topics = {f"{name}.a": 5, f"{name}.b": 3}
        flow = Mirror(
            name=name,
            source_conn_id=f"kafka_{SOURCE}",
            target_conn_id=f"kafka_{TARGET}",
            topics=f"{name}.*",
            slots=2,
            chunk_rows=10,
            timeout=timedelta(seconds=20),
            replication_factor=target.brokers,
            topic_config={"min.insync.replicas": str(max(1, target.brokers - 1))},
        )
        self._writer = MirrorWriter(source.address, topics, seed, replicas=source.brokers)
        oracle = MirrorOracle(source.address, target.address, tuple(topics))
        self._open(world, flow, seed, tell, (self._writer, oracle))
        self._operator = Operator(source.sandbox, source.server, topics, self.report.note)
        self._brokers = 0
        if source.brokers + target.brokers > 2:
            self.runs.stuck_s = MIXED_STUCK_S  # clusters choose leaders, as in the mixed loop

    def play(self, faults: Sequence[Fault], until: float = float("inf")) -> Report:
        """As ever, once a first batch has come through: fresh clusters are busy making their own topics."""
        self._writer.start()
        self.runs.fault = "at the start"
        run = self.runs.committing(1, within_s=_STARTED_S)
        if run is not None:
            self.runs.stop_in_order(run)
        return super().play(faults, until)

    def judge(self) -> None:
        """As ever; brokers may be on their way up still."""
        try:
            super().judge()
        except KafkaException as error:
            self.report.note(f"not judged now: {error}")

    def settle(self) -> None:
        """As ever; how often an operator had to step in is told."""
        super().settle()
        self.report.facts["aborted by hand"] = self._operator.aborted

    def _relieve(self) -> None:
        super()._relieve()
        self._operator.look()

    def _drop(self) -> None:
        """Topics stay: they have names of their own."""
        self._operator.close()

    def _befall(self, server: str, what: str, fault: Fault) -> None:
        side = self.world.sides.get(server)
        if what == "link down":
            self.world.proxies[server].go_down()
            time.sleep(fault.lasts_s)
            self.world.proxies[server].heal()
        elif side is None or what in ("cut", "delayed", "hears not", "unheard"):
            super()._befall(server, what, fault)
        else:
            self._brokers += 1
            broker = f"broker-{self._brokers % side.brokers + 1}"
            if what == "coordinator killed":
                broker = f"broker-{coordinator(side.address, self._transactional_id(server, fault.slot))}"
            self.report.note(f"{server}: {broker} is {what}")
            if what == "restarted":
                side.sandbox.restart(side.server, broker, progress=_quiet)
            elif what == "paused":
                side.sandbox.pause(side.server, broker)
                time.sleep(fault.lasts_s)
                side.sandbox.resume(side.server, broker)
            else:
                side.sandbox.kill(side.server, broker)
                time.sleep(fault.lasts_s)
                _bring_up(side.sandbox, side.server, self.report.note)

    def _transactional_id(self, side: str, slot: int) -> str:
        if side == SOURCE:
            return self._writer.transactional_id(slot)
        return MarkerKey("faults", self.name, "mirror").transactional_id(slot)


def _bring_up(sandbox: Sandbox, server: str, note: Callable[[str], None]) -> None:
    """Start what is missing; on a busy machine it may take longer than the sandbox waits for it."""
    for left in (2, 1, 0):
        try:
            sandbox.up([server], progress=_quiet)
        except SandboxError as error:
            note(f"{server} does not come up: {error.message[:300]}")
            if not left:
                raise
        else:
            return


def _quiet(_event: object) -> None:
    pass


def name_of(seed: int) -> str:
    """Return a flow name that no other run on the same servers has."""
    return f"mirror_{os.getpid()}_{seed}"
