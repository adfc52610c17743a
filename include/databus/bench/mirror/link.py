"""The link of a mirror goes down for minutes while records keep coming: how long it then takes to catch up."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from databus import Batching, Flow, Mirror, __version__
from databus.bench.mirror import records as mirror_records
from databus.bench.mirror.records import Digest
from databus.bench.options import MirrorLinkOptions
from databus.bench.processes import fresh_servers
from databus.bench.results import Bar, Result
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.report import BatchReport
from databus.core.errors.config import SandboxError
from databus.core.errors.root import DatabusError
from databus.core.settings import Settings
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.drain import Drain
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.sandbox import Sandbox
from databus.sandbox.connections import airflow_connections
from databus.testing.tcp_proxy import TcpProxy

SERVERS = ("zookeeper", "kafka", "kafka-b", "spark")
BARS = (
    Bar("catch_up_seconds", at_most=120),
    Bar("lost", at_most=0),
    Bar("duplicated", at_most=0),
    Bar("partitions_out_of_order", at_most=0),
)
TOPIC = "records_over_a_link"
_WITHIN_S = 3600.0
_RETRY_S = 0.5


def run(options: MirrorLinkOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers and Spark, and measure.

    Raises:
        SandboxError: a server failed, or the mirror does not catch up within an hour.
    """
    from databus.runtime.spark.session import connect_session

    with fresh_servers(SERVERS, say, ports_from) as sandbox:
        spark = connect_session(f"sc://{sandbox.address('spark')}", "bench/mirror-link")
        try:
            return measure(sandbox, spark, options, say)
        finally:
            spark.stop()


@dataclass
class _Runs:
    """Runs of the mirror, one after the other, as a scheduler that retries starts them.

    Attributes:
        moved: records of committed batches.
        errors: with which codes runs ended.
    """

    flow: Flow
    connections: EnvironmentConnections
    settings: Settings
    engine: Any
    moved: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    failed: Exception | None = None
    _drain: Drain = field(default_factory=Drain)

    def go_on(self) -> None:
        """Run until `stop`; errors that a retry may mend are counted."""
        limits = WindowLimits(max_seconds=_WITHIN_S, lease_wait_s=30)
        try:
            while not self._drain.requested:
                try:
                    with open_services(self.flow, self.connections, self.settings) as services:
                        control = WindowControl(limits, self._drain, self._committed)
                        run_flow(self.flow, services, self.engine, RunIdentity("bench", "", __version__), control)
                except DatabusError as error:
                    if not error.retryable:
                        raise
                    self.errors[error.code] += 1
                    self._drain.wait(_RETRY_S)
        except Exception as error:  # noqa: BLE001 - raised by the caller's thread
            self.failed = error

    def stop(self) -> None:
        """Ask for the end."""
        self._drain.request()

    def _committed(self, report: BatchReport) -> None:
        self.moved += sum(counts.read for counts in report.tables.values())


def measure(sandbox: Sandbox, engine: Any, options: MirrorLinkOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers.

    Args:
        sandbox: ZooKeeper and the two clusters.
        engine: the Spark session in which records are moved.
        options: sizes.
        say: called with the progress.

    Raises:
        SandboxError: the mirror failed for good, or does not catch up within an hour.
    """
    east, west = sandbox.address("kafka"), sandbox.address("kafka-b")
    mirror_records.create(east, TOPIC, options.partitions)
    with TcpProxy(east, kafka=True) as link:
        runs = _runs(sandbox, engine, options, link.port)
        value_bytes = options.record_bytes - mirror_records.KEY_BYTES
        writer = mirror_records.SteadyWriter(east, TOPIC, options.records_per_second, value_bytes, options.partitions)
        mover = threading.Thread(target=runs.go_on, name="bench-mirror", daemon=True)
        writer.start()
        mover.start()
        try:
            caught_up = _cut(link, runs, writer, options, say)
        finally:
            written = writer.stop()
            _await(runs, lambda: runs.moved >= written.records)
            runs.stop()
            mover.join()
    say("comparing both sides")
    return _result(options, written, mirror_records.read(west, TOPIC), caught_up, runs)


def _runs(sandbox: Sandbox, engine: Any, options: MirrorLinkOptions, port: int) -> _Runs:
    environment = dict(airflow_connections(sandbox.status()))
    address = f"127.0.0.1:{port}"
    environment["AIRFLOW_CONN_KAFKA_EAST"] = f'{{"conn_type": "kafka", "extra": {{"bootstrap.servers": "{address}"}}}}'
    flow = Mirror(
        name="bench_mirror_link",
        source_conn_id="kafka_east",
        target_conn_id="kafka_west",
        topics=TOPIC,
        slots=options.slots,
        batching=Batching(max_rows=500_000, max_bytes=1 << 30, max_wait=timedelta(seconds=0.5)),
    )
    settings = Settings("bench", str(sandbox.home / "segments"), f"sqlite:///{sandbox.home / 'records.db'}")
    return _Runs(flow, EnvironmentConnections(environment), settings, engine)


def _cut(
    link: TcpProxy,
    runs: _Runs,
    writer: mirror_records.SteadyWriter,
    options: MirrorLinkOptions,
    say: Callable[[str], None],
) -> dict[str, float]:
    """Let the link go down and come back; return how it was caught up."""
    _await(runs, lambda: runs.moved > 0)
    time.sleep(options.before_s)
    at_the_cut = runs.moved
    say(f"the link goes down for {options.down_s / 60:g} minutes")
    link.go_down()
    time.sleep(options.down_s)
    backlog = writer.written - runs.moved
    link.come_back()
    began = time.perf_counter()
    say(f"the link is up again: {backlog:,} records behind")
    first: list[float] = []

    def even() -> bool:
        moved = runs.moved
        if not first and moved > at_the_cut + options.records_per_second:
            first.append(time.perf_counter() - began)
        return writer.written - moved <= options.behind_s * options.records_per_second

    _await(runs, even)
    took = time.perf_counter() - began
    say(f"caught up after {took:.1f} s")
    return {"catch_up_seconds": took, "first_batch_seconds": first[0] if first else took, "backlog_records": backlog}


def _await(runs: _Runs, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not condition():
        if runs.failed is not None:
            raise SandboxError(f"the mirror failed: {runs.failed}") from runs.failed
        if time.monotonic() > deadline:
            raise SandboxError(f"the mirror moved {runs.moved} records, and no more within {_WITHIN_S:.0f} s")
        time.sleep(0.05)


def _result(
    options: MirrorLinkOptions, written: Digest, found: Digest, caught_up: dict[str, float], runs: _Runs
) -> Result:
    pairs = list(zip(written.counts, found.counts, strict=True))
    figures = {
        **caught_up,
        "records": written.records,
        "lost": sum(max(0, there - here) for there, here in pairs),
        "duplicated": sum(max(0, here - there) for there, here in pairs),
        # Checksums are over all records of a partition in their order.
        "partitions_out_of_order": sum(a != b for a, b in zip(written.sums, found.sums, strict=True)),
    }
    rounded = {key: round(float(value), 3) for key, value in figures.items()}
    details = {"runs_ended_with": dict(runs.errors)}
    return Result("mirror-link", rounded, BARS, asdict(options), details, "catch_up_seconds")
