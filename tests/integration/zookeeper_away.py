"""A flow of made-up rows into Kafka behind a ZooKeeper that can be cut off, and the oracle: what a consumer sees."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from databus import Batching, Flow, Kafka, Mock, __version__
from databus.checkpoints.spool import PlanSpool
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.positions.offsets import SequenceOffset
from databus.core.settings import Settings
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.drain import Drain
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.runtime.window_result import WindowResult
from databus.sinks.kafka import session_cache as kept_sessions
from databus.testing.zookeeper_proxy import ZooKeeperProxy
from tests.collecting import collect_garbage
from tests.integration.conftest import World
from tests.integration.kafka_target import consume, event_id, wait_until

_NUMBERS = itertools.count(1)
PER_BATCH, PER_TRANSACTION = 40, 10


class Killed(BaseException):
    """Ends a run where it stands, as kill -9 does: no handler of ours catches it."""


class InProcess:
    """Runs the direct lane's tasks here, one after the other, in place of Spark; what they do is the product's own."""

    def interruptTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """Nothing runs elsewhere."""

    def addTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """Nothing runs elsewhere."""

    def range(self, start: int, end: int, _step: int, _partitions: int) -> Any:
        def collect(task: Any) -> list[Any]:
            batches = [pa.RecordBatch.from_pydict({"id": [slot]}) for slot in range(start, end)]
            return [row for batch in batches for done in task([batch]) for row in done.to_pylist()]

        return SimpleNamespace(mapInArrow=lambda task, _schema: SimpleNamespace(collect=lambda: collect(task)))


class Away:
    """One flow with a topic, a spool and a proxy of its own."""

    def __init__(self, world: World, proxy: ZooKeeperProxy, folder: Path, batches: int = 5, **options: Any):
        """Describe the flow.

        Args:
            world: the servers.
            proxy: in front of the ZooKeeper to use.
            folder: for the segment store and records.
            batches: full batches that the source holds.
            options: of the flow.
        """
        self.world, self.proxy = world, proxy
        self.settings = Settings("away", str(folder / "segments"), f"sqlite:///{folder / 'records.db'}")
        extra = {"session_timeout_s": 2, "operation_timeout_s": 0.8, "connect_timeout_s": 20}
        self.cut = world.override("zookeeper_default", port=proxy.port, extra=extra)
        straight = {**extra, "operation_timeout_s": 20}
        self.straight = world.override("zookeeper_default", port=proxy.target_port, extra=straight)
        self.rows = batches * PER_BATCH
        name = f"away_{uuid.uuid4().hex[:8]}"
        self.flow = Flow(
            name=name,
            source=Mock(rows=self.rows, rows_per_transaction=PER_TRANSACTION),
            sinks=(Kafka(conn_id="kafka_east", topic=name, partitions=4, slots=2, tombstones=False),),
            batching=Batching(
                max_rows=PER_BATCH, max_wait=timedelta(seconds=0.2), dispatch_time=timedelta(seconds=1e9)
            ),
            zookeeper_conn_id=self.cut,
            **options,
        )
        self.spool = PlanSpool(self.settings.segment_store, "away", self.flow.name)

    @property
    def topic(self) -> str:
        return self.flow.sinks[0].to_json()["topic"]

    def run(self, zookeeper: str = "", wait_s: float = 30, spark: Any = None, **control: Any) -> WindowResult:
        """Run until caught up, by the cut connection unless another is given; tasks run in this process without Spark.

        Killed tasks leave their producers behind, as in another process; a new run opens its own.
        """
        kept_sessions._kept.clear()
        flow = self.flow.model_copy(update={"zookeeper_conn_id": zookeeper or self.cut})
        limits = WindowLimits(
            600, until_caught_up=True, lease_wait_s=wait_s, store_wait_s=control.pop("store_wait_s", 60)
        )
        with open_services(flow, self.world.connections, self.settings) as services:
            self.connected = services.store.connected
            identity = RunIdentity(f"run-{next(_NUMBERS)}", "", __version__)
            try:
                return run_flow(flow, services, spark or InProcess(), identity, WindowControl(limits, **control))
            finally:
                collect_garbage()

    def run_until(self, batch: int) -> WindowResult:
        """Run by the straight connection up to a batch number."""
        drain = Drain()

        def stop(report: Any) -> None:
            if report.plan.batch >= batch:
                drain.request()

        return self.run(self.straight, drain=drain, on_batch=stop)

    def grow(self, batches: int) -> None:
        """Let the source hold more rows."""
        self.rows += batches * PER_BATCH
        source = self.flow.source.model_copy(update={"rows": self.rows})
        self.flow = self.flow.model_copy(update={"source": source})

    def come_back(self) -> None:
        """Let ZooKeeper be reached again; returns when the run's own client has noticed."""
        self.proxy.come_back()
        wait_until(self.connected, "connection to ZooKeeper")

    def start(self) -> None:
        """Write the flow's first checkpoint."""
        with self.store() as store:
            lease = store.claim(self.flow.name, "start", 0)
            store.start(self.flow.name, lease, SequenceOffset(0), "start")
            lease.release()

    @contextmanager
    def store(self) -> Iterator[ZooKeeperCheckpoints]:
        """A store that is not cut off."""
        with ZooKeeperCheckpoints.open(self.world.connections.get(self.straight)) as store:
            yield store

    def committed(self) -> int:
        with self.store() as store:
            return store.load(self.flow.name).batch

    def history(self) -> list[Any]:
        with self.store() as store:
            return list(reversed(store.history(self.flow.name, 1000)))

    def assert_exact(self, repeated: int = 0) -> None:
        """Each row is seen once and in order; history is whole, without a hole, and its counts are those rows."""
        messages = consume(self.world.sandbox.address("kafka"), self.topic)
        ids = [event_id(m) for m in messages]
        times = Counter(ids)
        assert len(times) == self.rows
        assert sum(times.values()) - self.rows == repeated
        if not repeated:
            for partition in range(4):
                places = [_place(event_id(m)) for m in messages if m.partition() == partition]
                assert places == sorted(places)
        entries = self.history()
        for before, after in itertools.pairwise(entries):
            assert after.previous == before.offset
            assert after.batch > before.batch
        with self.store() as store:
            assert store.load(self.flow.name).offset.sequence == self.rows // PER_TRANSACTION
            assert store.pending_plan(self.flow.name) is None
        assert self.spool.is_empty()

    def assert_counted(self) -> None:
        """Every row is in the history once."""
        entries = self.history()
        assert sum(c.dispatched for e in entries for c in e.counts.values()) == self.rows
        written = sum(r["written"] for e in entries for r in e.receipts)
        assert written == self.rows


def _place(text: str) -> list[int]:
    """Return the numbers of an event id, which rise with the log."""
    return [int(part) for part in text.replace(":", "-").replace("/", "-").split("-") if part.isdigit()]
