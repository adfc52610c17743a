"""Benchmark of a plan over thousands of topic-partitions: CPU seconds, and requests to the source's broker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from databus import Batching, Flow, Mirror, __version__
from databus.bench.options import PlanOptions
from databus.bench.processes import fresh_servers
from databus.bench.results import Bar, Result
from databus.connections.environment import EnvironmentConnections
from databus.core.errors.batch import ReconciliationError
from databus.core.positions.offsets import KafkaOffsets
from databus.core.settings import Settings
from databus.ops.services import open_services
from databus.runtime.commit import commit
from databus.runtime.context import FlowSession, RunIdentity, open_session
from databus.runtime.pacing.batch_sizing import Pace
from databus.runtime.plan import next_plan
from databus.sandbox import Sandbox
from databus.sandbox.connections import airflow_connections
from databus.testing.request_counter import RequestCounter

SERVERS = ("zookeeper", "kafka", "kafka-b")
BARS = (
    Bar("plan_cpu_seconds", at_most=2.0),
    Bar("list_offsets_requests", at_most=2),
    Bar("metadata_requests", at_most=6),
)
_TOPICS = 5
_SEGMENT = {"segment.index.bytes": "4096", "segment.bytes": str(1 << 20)}
"""A partition takes the brokers two small files, not two of 10 MiB."""


def run(options: PlanOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers and measure.

    Raises:
        ReconciliationError: a plan does not hold what was written.
        SandboxError: a server failed.
    """
    with fresh_servers(SERVERS, say, ports_from) as sandbox:
        return measure(sandbox, options, say)


def measure(sandbox: Sandbox, options: PlanOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers.

    Each round writes a record into every partition, plans, and moves the checkpoint without moving a record: what is
    timed is the source's plan, what the mirror's sink asks of both clusters, and ZooKeeper's plan and commit.
    """
    servers = sandbox.address("kafka")
    say(f"making {_TOPICS} topics of {options.partitions // _TOPICS} partitions")
    _create(servers, options.partitions // _TOPICS)
    _write(servers, options.partitions // _TOPICS)  # the broker leads every partition once that is through
    plans, commits = [], []
    with RequestCounter(servers) as counter:
        # Counted through a proxy, whose own work would be taken for the plan's: timed without.
        for counted in (True, False):
            address = f"127.0.0.1:{counter.port}" if counted else servers
            with _opened(sandbox, address, options, counted=counted) as (session, lease):
                checkpoint = session.store.start(session.flow.name, lease, session.source.start_offset(), "bench")
                for number in range(options.rounds + 1):
                    _write(servers, options.partitions // _TOPICS)
                    before, began = counter.requests.copy(), time.process_time()
                    planned = next_plan(session, lease, checkpoint)
                    plan_s, asked = time.process_time() - began, counter.requests - before
                    if planned is None or planned.source.rows < options.partitions:
                        raise ReconciliationError(f"{options.partitions} partitions had a record: planned {planned}")
                    began = time.process_time()
                    checkpoint = commit(session, lease, planned, {}, (), Pace())
                    if not number:  # the target's topics are made now, and clients connected
                        continue
                    if counted:
                        break
                    plans.append(plan_s)
                    commits.append(time.process_time() - began)
                    say(f"round {number}: plan {plan_s:.3f} s of CPU, commit {commits[-1]:.3f} s")
                stored = session.store.load(session.flow.name)
            if counted:
                requests = Counter(asked)
            positions = len(stored.offset.places()) if stored and isinstance(stored.offset, KafkaOffsets) else 0
    figures = {
        "plan_cpu_seconds": max(plans),
        "commit_cpu_seconds": max(commits),
        "list_offsets_requests": requests["ListOffsets"],
        "metadata_requests": requests["Metadata"],
        "requests": sum(requests.values()),
        "positions": positions,
    }
    rounded = {key: round(float(value), 3) for key, value in figures.items()}
    settings = {"partitions": options.partitions, "topics": _TOPICS, "rounds": options.rounds, "brokers": 1}
    details: dict[str, Any] = {"plans": plans, "commits": commits, "requests": dict(requests)}
    return Result("plan", rounded, BARS, settings, details, "plan_cpu_seconds")


@contextmanager
def _opened(
    sandbox: Sandbox, servers: str, options: PlanOptions, *, counted: bool
) -> Iterator[tuple[FlowSession, Any]]:
    flow = _flow("counted" if counted else "timed", options)
    environment = dict(airflow_connections(sandbox.status()))
    environment["AIRFLOW_CONN_KAFKA_EAST"] = f'{{"conn_type": "kafka", "extra": {{"bootstrap.servers": "{servers}"}}}}'
    settings = Settings("bench", str(sandbox.home / "segments"), f"sqlite:///{sandbox.home / 'records.db'}")
    identity = RunIdentity("bench", "", __version__)
    with (
        open_services(flow, EnvironmentConnections(environment), settings) as services,
        open_session(flow, services, None, identity) as session,
    ):
        lease = services.store.claim(flow.name, "bench", 10.0)
        try:
            yield session, lease
        finally:
            lease.release()


def _flow(name: str, options: PlanOptions) -> Flow:
    return Mirror(
        name=f"bench_plan_{name}",
        source_conn_id="kafka_east",
        target_conn_id="kafka_west",
        topics="planned_*",
        batching=Batching(max_rows=100 * options.partitions, max_wait=timedelta(seconds=1)),
    )


def _create(servers: str, partitions: int) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    for number in range(_TOPICS):
        topic = NewTopic(f"planned_{number}", partitions, 1, config=_SEGMENT)
        admin.create_topics([topic], request_timeout=120)[topic.topic].result()


def _write(servers: str, partitions: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 200_000})
    for topic in range(_TOPICS):
        for partition in range(partitions):
            producer.produce(f"planned_{topic}", b"a record", partition=partition)
        producer.poll(0)
    if left := producer.flush(300):
        raise ReconciliationError(f"{left} records were not acknowledged")
