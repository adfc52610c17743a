"""Snapshot of a table into Kafka: ours, exactly once, beside Debezium's initial and incremental ones."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from databus import Batching, Flow, Kafka, MysqlBinlog
from databus.bench import turns
from databus.bench.decoding.peak_memory import peak_rss_mb
from databus.bench.log_files import LogWriter, log_writer
from databus.bench.mirror.records import delete
from databus.bench.options import SnapshotBenchOptions
from databus.bench.our_path import OurPath
from databus.bench.peer import DebeziumPeer
from databus.bench.processes import CpuMeter, fresh_servers, path_servers
from databus.bench.results import Bar, Result
from databus.bench.snapshots.debezium import IncrementalSnapshots, incremental_settings, initial_settings
from databus.bench.snapshots.tables import ORDERS, WARM, TopicCount, fill, let_debezium_read, topic_count
from databus.core.errors.batch import ReconciliationError
from databus.sandbox import Sandbox

PEERS = ("debezium_initial", "debezium_incremental")
BARS = (
    Bar("ratio_to_debezium_initial", at_least=3),
    Bar("ratio_to_debezium_incremental", at_least=5),
    Bar("ratio_to_debezium_initial_rows_per_cpu_second", at_least=4),
    Bar("ratio_to_debezium_incremental_rows_per_cpu_second", at_least=4),
    Bar("worker_peak_rss_mb", at_most=512),
)
_WITHIN_S = 7200.0
_LOOK_S = 0.2


@dataclass(frozen=True)
class SnapshotRun:
    """Snapshot of the table by one side.

    Attributes:
        rows: rows of the table.
        seconds: from the command to the last row readable, with all that a start takes.
        cpu_seconds: of the side's processes: Spark, its workers and the driver; or Debezium's JVM.
        peak_rss_mb: highest resident set of one of its processes that run Python; of the JVM at the end.
        servers_cpu_seconds: server → CPU seconds that it cost there.
        arrived: what a read_committed consumer found.
        details: further facts.
    """

    rows: int
    seconds: float
    cpu_seconds: float
    peak_rss_mb: float
    servers_cpu_seconds: Mapping[str, float]
    arrived: TopicCount
    details: Mapping[str, Any] = field(default_factory=dict)

    def told(self, who: str) -> str:
        """Return a line about it."""
        return (
            f"{who}: {self.rows / self.seconds:,.0f} rows/s, {self.rows / self.cpu_seconds:,.0f} rows per CPU-second, "
            f"{self.peak_rss_mb:.0f} MB; {self.arrived.said}"
        )


def run(options: SnapshotBenchOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers, fill a table, and read it by each side.

    Raises:
        ReconciliationError: our topic does not hold exactly the table's rows.
        SandboxError: a server or the peer failed.
    """
    servers = path_servers(debezium=options.debezium)
    with fresh_servers(servers, say, ports_from) as sandbox, closing(OurPath(sandbox)) as ours:
        return measure(sandbox, ours, options, say)


def measure(sandbox: Sandbox, ours: OurPath, options: SnapshotBenchOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers."""
    found: dict[str, list[SnapshotRun]] = {}
    with log_writer(sandbox, "mysql") as writer:
        say(f"MySQL gets a table of {options.rows:,} rows")
        fill(writer, options.rows, options.warm_up)
        bench = _SnapshotBench(sandbox, ours, options, say, writer)
        say(f"warming up with {options.warm_up:,} rows")
        bench.ours(0, WARM)
        if options.debezium:
            let_debezium_read(writer)
            bench.initial(0, WARM)
        for number in range(1, options.rounds + 1):
            found.setdefault("ours", []).append(bench.ours(number))
            if options.debezium:
                found.setdefault(PEERS[0], []).append(bench.initial(number))
                found.setdefault(PEERS[1], []).append(bench.incremental(number))
    settings = asdict(options) | {"spark": "Connect, local[2]", "kafka": "one broker, one partition, acks=all, lz4"}
    if options.debezium:
        settings |= {PEERS[0]: initial_settings(options), PEERS[1]: incremental_settings(options)}
    details = {name: [asdict(turn) for turn in runs] for name, runs in found.items()}
    headline = "ratio_to_debezium_initial" if options.debezium else "worker_peak_rss_mb"
    return Result("snapshot", turns.rounded(compared(found)), BARS, settings, details, headline)


@dataclass(frozen=True)
class _SnapshotBench:
    sandbox: Sandbox
    paths: OurPath
    options: SnapshotBenchOptions
    say: Callable[[str], None]
    writer: LogWriter

    def ours(self, number: int, table: str = ORDERS) -> SnapshotRun:
        """Let a new flow begin with the table's rows."""
        self.say(f"our snapshot, round {number}")
        name = f"ours_{number}"
        flow = Flow(
            name=name,
            source=MysqlBinlog(conn_id="mysql_shop", tables=(table,), snapshot="initial"),
            sinks=(Kafka(conn_id="kafka_east", topic=name, tombstones=False),),
            batching=Batching(max_rows=self.options.batch_rows),
        )
        cost = self._cost()
        with peaks(self._pythons) as peak:
            moved = self.paths.timed(flow, snapshot=True)
        driver = peak[str(os.getpid())]
        details = {"batches": moved.batches, "stages_ms": moved.stages_ms, "driver_peak_mb": driver, "peaks_mb": peak}
        measures = (moved.seconds, moved.cpu_seconds, max(peak.values()), cost())
        return self._counted("our snapshot", name, self._rows(table), measures, details, strict=True)

    def initial(self, number: int, table: str = ORDERS) -> SnapshotRun:
        """Let a new connector read the table, and stop."""
        self.say(f"Debezium's initial snapshot, round {number}")
        peer = DebeziumPeer(self.sandbox, f"initial_{number}", (table,), initial_settings(self.options))
        cost = self._cost()
        moved = peer.catch_up(self._rows(table), _WITHIN_S)
        measures = (moved.seconds, moved.cpu_seconds, moved.rss_mb, cost())
        peer.delete()
        details = {"first_row_s": moved.first_row_s}
        return self._counted("Debezium's initial snapshot", peer.topics[0], self._rows(table), measures, details)

    def incremental(self, number: int) -> SnapshotRun:
        """Let a connector that streams read the table by chunks, after one of the warm-up."""
        self.say(f"Debezium's incremental snapshot, round {number}")
        settings = incremental_settings(self.options)
        peer = DebeziumPeer(self.sandbox, f"incremental_{number}", (WARM, ORDERS), settings)
        peer.create()
        snapshots = IncrementalSnapshots(self.sandbox, self.writer, peer)
        known, warm = snapshots.until_it_streams(), self._rows(WARM)
        peer.timed(lambda: snapshots.begin(WARM), known + warm, _WITHIN_S, known=known)
        known += warm
        cost, rows = self._cost(), self.options.rows
        moved = peer.timed(snapshots.begin, known + rows, _WITHIN_S, known=known)
        measures = (moved.seconds, moved.cpu_seconds, moved.rss_mb, cost())
        peer.delete()
        details = {"first_row_s": moved.first_row_s}
        return self._counted("Debezium's incremental snapshot", peer.topics[1], rows, measures, details)

    def _rows(self, table: str) -> int:
        return min(self.options.warm_up, self.options.rows) if table == WARM else self.options.rows

    def _pythons(self) -> list[psutil.Process]:
        """Return this process, which drives, and Spark's Python workers."""
        spark = psutil.Process(self.sandbox.status_of("spark").pid)
        return [psutil.Process(), *(p for p in spark.children(recursive=True) if "python" in p.name())]

    def _cost(self) -> Callable[[], dict[str, float]]:
        """Return what says how many CPU seconds the servers spent since."""
        meters = {name: CpuMeter([self.sandbox.status_of(name).pid or 0]) for name in ("mysql", "kafka")}
        return lambda: {name: meter.seconds() for name, meter in meters.items()}

    def _counted(
        self,
        who: str,
        topic: str,
        rows: int,
        measures: tuple[float, float, float, Mapping[str, float]],
        details: Mapping[str, Any],
        *,
        strict: bool = False,
    ) -> SnapshotRun:
        """Count what arrived, print it, and delete the topic.

        Raises:
            ReconciliationError: a run that promises exactly once did not deliver each row once.
        """
        kafka = self.sandbox.address("kafka")
        found = SnapshotRun(rows, *measures, topic_count(kafka, topic, rows), details)
        require_each_row(found, once=strict)
        delete(kafka, topic)
        self.say(found.told(who))
        return found


def require_each_row(found: SnapshotRun, *, once: bool) -> None:
    """Judge what arrived: a snapshot that is not whole is no figure.

    Raises:
        ReconciliationError: a row is missing, or came twice where each comes once.
    """
    arrived = found.arrived
    whole = arrived.keys == arrived.reads == arrived.records if once else arrived.keys <= arrived.reads
    if arrived.keys != found.rows or arrived.strays or not whole:
        raise ReconciliationError(
            f"the table has {found.rows} rows; the topic has {arrived.records} records of {arrived.keys} of them, "
            f"{arrived.reads} of op r, and {arrived.strays} of others"
        )


def compared(found: Mapping[str, Sequence[SnapshotRun]]) -> dict[str, float]:
    """Return the figures: medians over the rounds, and ours over each of the peer's.

    Args:
        found: "ours" and, where they ran, names of `PEERS` → rounds.
    """
    rates = {name: median(run.rows / run.seconds for run in runs) for name, runs in found.items()}
    per_cpu = {name: median(run.rows / run.cpu_seconds for run in runs) for name, runs in found.items()}
    figures = {"rows_per_second": rates["ours"], "rows_per_cpu_second": per_cpu["ours"]}
    figures["worker_peak_rss_mb"] = max(run.peak_rss_mb for run in found["ours"])
    figures["mysql_cpu_seconds_per_million_rows"] = _cost_of_mysql(found["ours"])
    for name in PEERS:
        if name not in found:
            continue
        figures[f"{name}_rows_per_second"] = rates[name]
        figures[f"{name}_rows_per_cpu_second"] = per_cpu[name]
        figures[f"{name}_peak_rss_mb"] = max(run.peak_rss_mb for run in found[name])
        figures[f"{name}_mysql_cpu_seconds_per_million_rows"] = _cost_of_mysql(found[name])
        figures[f"ratio_to_{name}"] = rates["ours"] / rates[name]
        figures[f"ratio_to_{name}_rows_per_cpu_second"] = per_cpu["ours"] / per_cpu[name]
    return figures


def _cost_of_mysql(runs: Sequence[SnapshotRun]) -> float:
    return median(1e6 * run.servers_cpu_seconds["mysql"] / run.rows for run in runs)


@contextmanager
def peaks(processes: Callable[[], list[psutil.Process]]) -> Iterator[dict[str, float]]:
    """Give a table of process → highest resident set in MiB since now, filled while the block runs."""
    found: dict[str, float] = {}
    done = threading.Event()

    def look() -> None:
        for process in processes():
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                found[str(process.pid)] = max(found.get(str(process.pid), 0.0), peak_rss_mb(process.pid))

    def watch() -> None:
        while not done.wait(_LOOK_S):
            look()

    for process in processes():
        with contextlib.suppress(OSError):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # proc(5): the peak begins anew
    thread = threading.Thread(target=watch, name="bench-peaks", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()
        look()
