"""Benchmark of mirrors: ours, exactly once, and MirrorMaker 2 with exactly once and without, in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import timedelta
from statistics import median
from typing import Any, cast

import psutil

from databus import Batching, Flow, Mirror
from databus.bench.mirror import records as mirror_records
from databus.bench.mirror.mirror_maker import MirrorMaker
from databus.bench.mirror.records import Digest
from databus.bench.mirror.watch import Movement, TopicWatch
from databus.bench.options import MirrorOptions
from databus.bench.our_path import OurPath
from databus.bench.processes import CpuMeter, fresh_servers
from databus.bench.results import Bar, Result
from databus.core.errors.batch import ReconciliationError
from databus.sandbox import Sandbox
from databus.sinks.kafka.spec import Compression

BARS = (
    Bar("ratio_to_mm2_exactly_once", at_least=1.2),
    Bar("ratio_to_mm2_at_least_once", at_least=1.0),
    Bar("worker_peak_rss_mb", at_most=512),
)
SERVERS = ("zookeeper", "kafka", "kafka-b", "spark")
_TOPIC = "records"
_WITHIN_S = 3600.0


@dataclass(frozen=True)
class MirrorRun:
    """Run of one side.

    Attributes:
        movement: what was seen at the target.
        cpu_seconds: of all of the run, with its start: Spark, its workers and the driver; or the JVM.
        details: further facts.
    """

    movement: Movement
    cpu_seconds: float
    details: dict[str, Any]


def run(options: MirrorOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers, fill the source, and mirror it.

    Raises:
        ReconciliationError: a target of ours does not hold exactly the source's records.
        SandboxError: a server or the peer failed.
    """
    with fresh_servers(SERVERS, say, ports_from) as sandbox, closing(OurPath(sandbox)) as ours:
        return measure(sandbox, ours.timed, options, say)


def measure(
    sandbox: Sandbox, timed: Callable[[Flow], Any], options: MirrorOptions, say: Callable[[str], None]
) -> Result:
    """Measure on running servers.

    Args:
        sandbox: ZooKeeper and the two clusters, and what `timed` needs.
        timed: runs a flow until it has caught up and returns a dataclass of facts with `cpu_seconds`.
        options: sizes and parts.
        say: called with the progress.
    """
    servers = sandbox.address("kafka")
    say(f"filling the source with {options.records + options.warm_up:,} records of {options.record_bytes} bytes")
    mirror_records.create(servers, _TOPIC, options.partitions)
    value_bytes = options.record_bytes - mirror_records.KEY_BYTES
    size = options.records + options.warm_up, value_bytes, options.partitions, options.compression
    bench = _ThroughputBench(sandbox, timed, options, say, mirror_records.load(servers, _TOPIC, *size))
    turns: dict[str, list[MirrorRun]] = {}
    for number in range(1, options.rounds + 1):
        turns.setdefault("ours", []).append(bench.ours(number))
        for peer in options.peers:
            turns.setdefault(f"mm2_{peer}", []).append(bench.theirs(peer, number))
    return _result(options, turns)


@dataclass(frozen=True)
class _ThroughputBench:
    sandbox: Sandbox
    timed: Callable[[Flow], Any]
    options: MirrorOptions
    say: Callable[[str], None]
    source: Digest

    def ours(self, number: int) -> MirrorRun:
        """Mirror the source with a flow of ours."""
        options, topic = self.options, f"{_TOPIC}.ours_{number}"
        flow = Mirror(
            name=f"bench_mirror_{number}",
            source_conn_id="kafka_east",
            target_conn_id="kafka_west",
            topics=_TOPIC,
            renames={_TOPIC: topic},
            slots=options.slots,
            compression=cast("Compression", options.compression),
            batching=Batching(max_rows=options.batch_rows, max_bytes=1 << 30, max_wait=timedelta(seconds=0.1)),
        )
        self.say(f"our mirror, round {number}")
        with self._watched(topic, self._workers) as watch:
            found = self.timed(flow)
            watch.until_settled(self.source.records, _WITHIN_S, lambda: True)
        turn = MirrorRun(watch.movement(self.source.records, options.warm_up), found.cpu_seconds, asdict(found))
        return self._verified("our mirror", topic, turn, strict=True)

    def theirs(self, name: str, number: int) -> MirrorRun:
        """Mirror the source with MirrorMaker 2."""
        exactly_once = name == "exactly_once"
        east, west = self.sandbox.address("kafka"), self.sandbox.address("kafka-b")
        peer = MirrorMaker(
            f"{name}_{number}", east, west, _TOPIC, exactly_once, self.options.tasks, True, self.options.compression
        )
        who = f"MirrorMaker 2, {name.replace('_', ' ')}"
        self.say(f"{who}, round {number}")
        ports_from = max(status.port for status in self.sandbox.status()) + 200
        with peer.running(self.sandbox.home, ports_from) as process:
            meter = CpuMeter([process.pid])
            with self._watched(peer.target_topic, lambda: [psutil.Process(process.pid)]) as watch:
                watch.until_settled(self.source.records, _WITHIN_S, lambda: process.poll() is None)
                cpu = meter.seconds()
        turn = MirrorRun(watch.movement(self.source.records, self.options.warm_up), cpu, {})
        return self._verified(who, peer.target_topic, turn, strict=False)

    def _watched(self, topic: str, processes: Callable[[], Iterable[psutil.Process]]) -> TopicWatch:
        return TopicWatch(self.sandbox.address("kafka-b"), topic, self.options.partitions, processes)

    def _workers(self) -> list[psutil.Process]:
        """Return Spark's Python workers, or this process where Spark does not run."""
        spark = next((server.pid for server in self.sandbox.status() if server.name == "spark"), None)
        if spark is None:
            return [psutil.Process()]
        return [p for p in psutil.Process(spark).children(recursive=True) if "python" in p.name()]

    def _verified(self, who: str, topic: str, turn: MirrorRun, *, strict: bool) -> MirrorRun:
        """Compare the target's records with the source's, print it, and delete the target.

        Raises:
            ReconciliationError: a run that promises exactly once holds others.
        """
        west = self.sandbox.address("kafka-b")
        found = mirror_records.read(west, topic)
        if found != self.source and strict:
            raise ReconciliationError(
                f"{who}: the source holds {self.source.records} records, {found.records} are in {topic}; by partition "
                f"{self.source.counts} and {found.counts}, checksums equal: {found.sums == self.source.sums}"
            )
        mirror_records.delete(west, topic)
        said = "all equal" if found == self.source else f"{found.records} of {self.source.records} records"
        turn.details["target"] = said
        self.say(
            f"{who}: {turn.movement.records_per_second:,.0f} records/s, {turn.movement.with_start_s:.1f} s with its "
            f"start, {self.source.records / turn.cpu_seconds:,.0f} records per CPU-second, "
            f"{turn.movement.peak_rss_mb:.0f} MB; {said}"
        )
        return turn


def _result(options: MirrorOptions, turns: dict[str, list[MirrorRun]]) -> Result:
    every = options.records + options.warm_up
    rates = {name: median(t.movement.records_per_second for t in found) for name, found in turns.items()}
    figures = {"records_per_second": rates["ours"], "mb_per_second": rates["ours"] * options.record_bytes / 1e6}
    figures["records_per_cpu_second"] = median(every / t.cpu_seconds for t in turns["ours"])
    figures["with_start_s"] = median(t.movement.with_start_s for t in turns["ours"])
    figures["worker_peak_rss_mb"] = max(t.movement.peak_rss_mb for t in turns["ours"])
    for name, found in turns.items():
        if name == "ours":
            continue
        figures[f"{name}_records_per_second"] = rates[name]
        figures[f"{name}_records_per_cpu_second"] = median(every / t.cpu_seconds for t in found)
        figures[f"{name}_with_start_s"] = median(t.movement.with_start_s for t in found)
        figures[f"{name}_peak_rss_mb"] = max(t.movement.peak_rss_mb for t in found)
        figures[f"ratio_to_{name}"] = rates["ours"] / rates[name]
    details = {name: [asdict(turn) for turn in found] for name, found in turns.items()}
    settings = asdict(options) | {"spark": "Connect, local[2]", "kafka": "two clusters of one broker, acks=all"}
    if options.peers:
        peer = MirrorMaker("mm2", "east:9092", "west:9092", _TOPIC, exactly_once=True, tasks=options.tasks)
        settings["mirror_maker"] = peer.throughput()
    rounded = {key: float(f"{value:.4g}") for key, value in figures.items()}
    headline = "ratio_to_mm2_exactly_once" if "exactly_once" in options.peers else "worker_peak_rss_mb"
    return Result("mirror", rounded, BARS, settings, details, headline)
