"""Delay of a flow's changes while a snapshot of a table of it goes on; ours, and Debezium's incremental one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from databus import Flow, Kafka, MysqlBinlog
from databus.bench import delays, turns
from databus.bench.delays import Reader
from databus.bench.freshness import WITHIN_S, running, timed, written
from databus.bench.loads import TABLE as FRESH
from databus.bench.loads import Load, LoadReceipt, create_tables
from databus.bench.log_files import LogWriter, log_writer
from databus.bench.options import SnapshotBenchOptions
from databus.bench.our_path import settings_of
from databus.bench.peer import DebeziumPeer
from databus.bench.processes import CpuMeter, fresh_servers, path_servers
from databus.bench.results import Bar, Result
from databus.bench.snapshots.debezium import IncrementalSnapshots, incremental_settings
from databus.bench.snapshots.tables import ORDERS, BusyOrders, fill, let_debezium_read, topic_count
from databus.bench.snapshots.throughput import peaks
from databus.bench.turns import SideRun
from databus.connections.environment import EnvironmentConnections
from databus.core.errors.batch import ReconciliationError
from databus.core.errors.config import SandboxError
from databus.ops import snapshots
from databus.ops.checkpoint.amend import Attribution
from databus.ops.services import open_services
from databus.sandbox import Sandbox
from databus.sandbox.connections import airflow_connections

BARS = (Bar("p99_s", at_most=3.0), Bar("worker_peak_rss_mb", at_most=512))
_NAME = "bench_snapshot_lag"
_WITHIN_S = 7200.0
_LOOK_S = 2.0


@dataclass(frozen=True)
class SideLag:
    """Delays of one side's stream.

    Attributes:
        before: while no snapshot is under way.
        under: while one is.
        seconds: that the snapshot took.
        rows: rows of the table that it read.
        peak_rss_mb: highest resident set of one process of the side.
    """

    before: SideRun
    under: SideRun
    seconds: float
    rows: int
    peak_rss_mb: float

    def told(self, who: str) -> str:
        """Return two lines about it."""
        rate = self.rows / self.seconds
        return f"{self.before.told(f'{who}, before')}\n{self.under.told(f'{who}, {rate:,.0f} rows/s of a snapshot')}"

    def figures(self, prefix: str = "") -> dict[str, float]:
        """Return its figures."""
        found = {f"{prefix}{name}_s": turns.percentile(self.under.delays_s, s) for name, s in turns.SHARES.items()}
        quiet = {name: turns.percentile(self.before.delays_s, share) for name, share in turns.SHARES.items()}
        return {
            **found,
            f"{prefix}max_s": self.under.delays_s[-1],
            **{f"{prefix}before_{name}_s": delay for name, delay in quiet.items() if name != "p95"},
            f"{prefix}snapshot_rows_per_second": self.rows / self.seconds,
            f"{prefix}rows_written_per_second": self.under.rows_per_second * 2,
        }


def run(options: SnapshotBenchOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers and measure.

    Raises:
        ReconciliationError: our path lost or repeated a row.
        SandboxError: a server, our run or the peer failed.
    """
    with fresh_servers(path_servers(debezium=options.debezium), say, ports_from) as sandbox:
        return measure(sandbox, options, say)


def measure(sandbox: Sandbox, options: SnapshotBenchOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers."""
    with log_writer(sandbox, "mysql") as writer:
        say(f"MySQL gets a table of {options.rows:,} rows")
        fill(writer, options.rows, options.warm_up)
        create_tables(writer.connection)
        together = min(options.rows_per_transaction, options.writes_per_second)
        load = BusyOrders(writer.connection, options.rows, options.writes_per_second, together)
        say(f"our snapshot under {options.writes_per_second:,} writes/s")
        ours = _ours(sandbox, writer, load, options)
        say(ours.told("our stream"))
        turns.require_once([ours.before, ours.under])
        _require_each_key(sandbox, "ours_orders", options.rows)
        figures = ours.figures() | {"worker_peak_rss_mb": ours.peak_rss_mb}
        details: dict[str, Any] = {"ours": turns.details([ours.before, ours.under])}
        settings = asdict(options) | {"spark": "Connect, local[2]", "kafka": "one broker, acks=all, lz4"}
        if options.debezium:
            say(f"Debezium's incremental snapshot under {options.writes_per_second:,} writes/s")
            let_debezium_read(writer)
            theirs = _theirs(sandbox, writer, load, options)
            say(theirs.told("Debezium's stream"))
            figures |= theirs.figures("debezium_")
            details |= {"debezium": turns.details([theirs.before, theirs.under])}
            settings |= {"debezium": incremental_settings(options, live=True)}
    return Result("snapshot-lag", turns.rounded(figures), BARS, settings, details, "p99_s")


def _ours(sandbox: Sandbox, writer: LogWriter, load: Load, options: SnapshotBenchOptions) -> SideLag:
    file, position = writer.run("SHOW MASTER STATUS")[0][:2]
    flow = Flow(
        name=_NAME,
        source=MysqlBinlog(conn_id="mysql_shop", tables=(FRESH, ORDERS), start=f"{file}:{position}", snapshot="never"),
        sinks=(Kafka(conn_id="kafka_east", topic="ours_{table}", tombstones=False),),
        mode="live",
    )
    connections = EnvironmentConnections(airflow_connections(sandbox.status()))
    spark = sandbox.status_of("spark").pid or 0
    with (
        running(sandbox, written(flow, sandbox.home / "flows"), _NAME) as process,
        open_services(flow, connections, settings_of(sandbox)) as services,
    ):
        meters = {"spark": CpuMeter([spark]), "run": CpuMeter([process.pid])}

        def begin() -> None:
            wanted = snapshots.proposed(flow, services, (ORDERS,))
            snapshots.begin(flow, services, wanted, Attribution("databus bench", "measures the stream meanwhile"))

        def finished() -> bool:
            if process.poll() is not None:
                raise SandboxError(f"our run ended with {process.returncode}")
            snapshot = services.store.snapshot(flow.name)
            return snapshot is not None and not snapshot.unfinished

        def pythons() -> list[psutil.Process]:
            children = psutil.Process(spark).children(recursive=True)
            return [psutil.Process(process.pid), *(p for p in children if "python" in p.name())]

        with peaks(pythons) as peak:
            before, under, seconds = _side(sandbox, load, "ours_fresh", options, meters, begin, finished)
    return SideLag(before, under, seconds, options.rows, max(peak.values()))


def _theirs(sandbox: Sandbox, writer: LogWriter, load: Load, options: SnapshotBenchOptions) -> SideLag:
    peer = DebeziumPeer(sandbox, "lag_peer", (FRESH, ORDERS), incremental_settings(options, live=True))
    peer.create()
    with _deleted(peer):
        # The writer's connection writes the load meanwhile: signals are sent between two transactions of it.
        signals = IncrementalSnapshots(sandbox, writer, peer)
        meters = {"debezium": CpuMeter([sandbox.status_of("debezium").pid or 0])}
        found = _side(sandbox, load, peer.topics[0], options, meters, signals.begin, signals.finished)
        peak = meters["debezium"].peak_rss_mb()
    return SideLag(*found, options.rows, peak)


def _side(  # noqa: PLR0913, PLR0917 - one side of the bench
    sandbox: Sandbox,
    load: Load,
    topic: str,
    options: SnapshotBenchOptions,
    meters: dict[str, CpuMeter],
    begin: Callable[[], None],
    finished: Callable[[], bool],
) -> tuple[SideRun, SideRun, float]:
    """Time the stream without a snapshot, then with one from its begin to its end."""
    kafka = sandbox.address("kafka")
    delays.until_followed(load, kafka, (topic,), WITHIN_S, lambda: None)
    before = timed(load, kafka, (topic,), options.before_s, meters)
    used = {name: meter.seconds() for name, meter in meters.items()}
    reader = Reader(kafka, (topic,))
    reader.start()
    reader.ready()
    try:
        began = time.perf_counter()
        begin()
        under = written_until(load, finished, _WITHIN_S)
        seconds = time.perf_counter() - began
        reader.wait_for(under)
    finally:
        reader.stop()
    cost = {name: meter.seconds() - used[name] for name, meter in meters.items()}
    return before, SideRun.of(reader.delays(under), cost), seconds


def written_until(load: Load, finished: Callable[[], bool], within_s: float, look_s: float = _LOOK_S) -> LoadReceipt:
    """Write at the rate until something is finished; return all that was written.

    Args:
        load: what is written.
        finished: asked each `look_s` seconds.
        within_s: how long it may take.
        look_s: how long is written between two looks.

    Raises:
        SandboxError: it takes longer.
    """
    first, rows, seconds = load.written + 1, 0, 0.0
    while not rows or not finished():
        if seconds > within_s:
            raise SandboxError(f"the snapshot is not finished after {seconds:.0f} s")
        wrote = load.write(look_s)
        rows, seconds = rows + wrote.rows, seconds + wrote.seconds
    return LoadReceipt(first, rows, seconds)


def _require_each_key(sandbox: Sandbox, topic: str, rows: int) -> None:
    """Count the table's rows in our topic; changed ones come as changes alone.

    Raises:
        ReconciliationError: a row is missing.
    """
    found = topic_count(sandbox.address("kafka"), topic, rows)
    if found.keys != rows or found.strays:
        raise ReconciliationError(
            f"the table has {rows} rows; the topic has {found.keys} of them and {found.strays} others"
        )


@contextmanager
def _deleted(peer: DebeziumPeer) -> Iterator[None]:
    try:
        yield
    finally:
        peer.delete()
