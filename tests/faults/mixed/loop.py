"""The mixed loop: a fault of each kind in turn, the oracles between them, and a settlement at the end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from typing import Any

from confluent_kafka import KafkaException
from opensearchpy.exceptions import OpenSearchException

from databus import Elasticsearch, Flow, Kafka
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.connections import Connection
from databus.core.errors import CheckpointUnavailableError
from databus.sinks.kafka.markers import MarkerKey
from tests.faults.changes import ChangeWriter
from tests.faults.mixed.cluster import ENGINE, KAFKA, SEARCH, ZOOKEEPER, Cluster
from tests.faults.mixed.faults import EVERY
from tests.faults.mixed.index_oracle import IndexOracle
from tests.faults.mixed.scene import Scene
from tests.faults.mixed.step_clock import StepClock
from tests.faults.mixed.supervisor import Supervisor
from tests.faults.oracle import TopicOracle, judge_history, judge_index
from tests.faults.report import Report
from tests.faults.world import World

_BACKLOG = 1500
"""The writer waits while so many changes were not yet seen."""

_CHANGES_PER_S = 40
"""What it writes at most: the tables grow slowly then, and are read whole after each round."""

STUCK_S = 180.0
_STARTED_S = 600.0
_SETTLED_S = 300.0
_OUTAGE_S = 6.0
"""A sink that is away for longer leaves the flow and catches up later (ADR 16): some of OpenSearch's faults do that."""


def in_turn(kinds: Sequence[str], chance: random.Random) -> Iterator[str]:
    """Yield every kind once in a random order, then every kind again in another."""
    while True:
        yield from chance.sample(kinds, len(kinds))


class MixedLoop:
    """One flow with two sinks, its writer, its oracles and its report."""

    def __init__(
        self,
        world: World,
        clock: StepClock,
        name: str,
        seed: int,
        tell: Callable[[str], None] = lambda _line: None,
        *,
        on_spark: bool = False,
    ):
        """Make the flow; its tasks run in processes of each run's own, or on the sandbox's Spark server."""
        self.world, self.clock, self.name, self._tell = world, clock, name, tell
        self.report = Report(seed)
        self.cluster = Cluster(world.sandbox)
        self.writer = ChangeWriter(world.sql, name, seed)
        self.flow = Flow(
            name=name,
            source=self.writer.create(),
            sinks=(
                Kafka(
                    conn_id="kafka_three",
                    topic=name,
                    partitions=5,
                    slots=2,
                    chunk_rows=50,
                    timeout=timedelta(seconds=20),
                ),
                Elasticsearch(conn_id="opensearch_default", slots=2, bulk_bytes=100_000),
            ),
            zookeeper_conn_id="zookeeper_three",
            sink_outage=timedelta(seconds=_OUTAGE_S),
        )
        self.writer.write(30)
        self.topic = TopicOracle(world.sandbox.address(KAFKA), name)
        self.index = IndexOracle(world.sandbox.address(SEARCH), name, self.topic.verdict)
        self._store = ZooKeeperCheckpoints(
            Connection(conn_id="oracle", conn_type="zookeeper", extra={"hosts": world.sandbox.address(ZOOKEEPER)})
        )
        self._fault = "none"
        began, before = time.monotonic(), self.writer.total
        self.writer.full = lambda: (
            self.writer.total - self.topic.seen > _BACKLOG
            or self.writer.total - before > _CHANGES_PER_S * (time.monotonic() - began)
        )
        world.warm(self.flow)
        self.supervisor = Supervisor(
            world,
            self.flow,
            self.report,
            spark=(lambda: f"sc://{world.sandbox.address(ENGINE)}") if on_spark else str,
            batching={"max_rows": 200, "max_seconds": 0.5},
            limits={"max_seconds": 60, "lease_wait_s": 60},
        )

    def close(self) -> None:
        """Stop the writer and all runs."""
        try:
            self.supervisor.stop()
            self.writer.stop()
        finally:
            self.writer.close()
            self.topic.close()
            self.index.close()
            self._store.close()

    def play(self, kinds: Sequence[str], rounds: int, until: float) -> Report:
        """Play faults until one leaves a finding, so many rounds are over, or the monotonic clock passes `until`."""
        self.writer.start()
        self.supervisor.start()
        self._fault = "at the start"
        self._recovered(time.time(), "at the start", _STARTED_S)
        self.report.recovery_s.clear()
        chance = random.Random(f"mixed {self.report.seed}")
        scene = Scene(
            self.world,
            self.cluster,
            self.supervisor,
            self.clock,
            self.report,
            random.Random(f"inside {self.report.seed}"),
            MarkerKey("faults", self.name, "kafka").transactional_id(0),
        )
        for number, kind in enumerate(in_turn(kinds, chance)):
            if number >= rounds or time.monotonic() > until or not self.report.clean:
                break
            self._round(number, kind, scene)
        self._fault = "at the end"
        self.settle()
        return self.report

    def _round(self, number: int, kind: str, scene: Scene) -> None:
        self._fault = kind
        self.report.note(f"round {number}: {kind}")
        began = time.time()
        try:
            ended = EVERY[kind](scene)
        except TimeoutError as error:
            self.report.find("stuck", kind, f"{error}; {self.supervisor.last_told()}")
            return
        self.report.note(f"round {number}: {kind} is over")
        took = self._recovered(ended, kind)
        self.report.rounds[kind] += 1
        times = [began, *self.supervisor.commits(began)]
        stall = max((later - before for before, later in pairwise(times)), default=0.0)
        self.report.facts.setdefault("stall_s", {}).setdefault(kind, []).append(round(stall, 2))
        self.look()
        self._tell(
            f"round {number}: {kind}: lasted {ended - began:.1f} s, next batch after {took:.1f} s, "
            f"stall {stall:.1f} s; {self.topic.seen} changes seen, {len(self.report.findings)} findings"
        )

    def _recovered(self, ended: float, kind: str, within_s: float = STUCK_S) -> float:
        """Wait until a batch is committed after a fault with all sinks; return how long that took."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            commits = self.supervisor.commits(ended)
            if commits and not self._behind():
                took = (time.time() if kind.startswith("OpenSearch") and self._left else commits[0]) - ended
                self._left = False
                self.report.recovery_s.setdefault(kind, []).append(took)
                return took
            self.topic_looks()
            time.sleep(0.1)
        self.report.find("stuck", kind, f"no commit within {within_s:.0f} s; {self.supervisor.last_told()}")
        return within_s

    _left = False

    def _behind(self) -> bool:
        try:
            behind = bool(self._store.sinks_behind(self.name))
        except CheckpointUnavailableError:
            return True
        self._left = self._left or behind
        return behind

    def topic_looks(self) -> None:
        """Let the topic's oracle read on; brokers may be away."""
        with suppress(KafkaException):
            self.topic.poll(1.0)

    def look(self) -> None:
        """Let both oracles read, and take over what they found."""
        self.topic_looks()
        with suppress(OpenSearchException):
            documents = self.index.documents()
            self.index.look(documents, self.writer.snapshot())
        with suppress(CheckpointUnavailableError):
            self._check_history(60)
        self.report.take(self.topic.verdict, self._fault)

    def settle(self) -> None:
        """Stop the writer, let the path catch up, and compare every change and every document."""
        self.writer.stop()
        deadline = time.monotonic() + _SETTLED_S
        while time.monotonic() < deadline:
            self.topic_looks()
            with suppress(OpenSearchException):
                if self.topic.seen >= self.writer.total and not self._behind() and self._as_the_table():
                    break
            time.sleep(0.5)
        self.supervisor.stop()
        self.look()
        documents = self.index.documents()
        self.topic.settle(self.writer.snapshot())
        judge_index(documents, self.writer.rows(), self.topic.verdict)
        self._check_history(1000)
        self.report.take(self.topic.verdict, self._fault)
        self.report.facts.update(
            changes=self.writer.total,
            transactions=self.writer.transactions,
            documents=len(documents),
            runs=len(self.supervisor.runs),
        )

    def _check_history(self, last: int) -> None:
        for found, text in judge_history(self._store.history(self.name, last)):
            self.report.find(found, self._fault, text)

    def _as_the_table(self) -> bool:
        documents: dict[Any, Any] = self.index.documents()
        return {key: found["v"] for key, found in documents.items()} == self.writer.rows()
