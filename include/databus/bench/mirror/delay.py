"""Delay of a mirror that a real Airflow runs: written to one Kafka, readable in the other; MirrorMaker 2 in turns.

MirrorMaker runs on its defaults, which are at least once. It follows the same topic, from its start on in its first
turn, and starts anew in each: its own names make each a mirror of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from databus import Flow, Mirror
from databus.bench import delays, turns
from databus.bench.airflow.flows import airflow_flows, airflow_options
from databus.bench.airflow.freshness import HANDOVERS, OurTurns
from databus.bench.freshness import WITHIN_S, timed
from databus.bench.loads import Load, TopicLoad
from databus.bench.mirror import records as mirror_records
from databus.bench.mirror.mirror_maker import MirrorMaker
from databus.bench.options import MirrorDelayOptions
from databus.bench.processes import CpuMeter, fresh_servers
from databus.bench.results import Result
from databus.bench.turns import SideRun
from databus.core.errors.config import SandboxError
from databus.sandbox import Sandbox

SERVERS = ("zookeeper", "kafka", "kafka-b", "spark")
BARS = (*turns.BARS, HANDOVERS)
"""MirrorMaker 2's delays stand beside them: always on, at least once, it waits for no transaction's end."""

NAME = "bench_mirror"
TOPIC = "fresh_records"
_PORTS_APART = 200


def run(options: MirrorDelayOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers and measure.

    Raises:
        ReconciliationError: our mirror lost or repeated a record.
        SandboxError: a server, a run of Airflow or the peer failed.
    """
    with fresh_servers(SERVERS, say, ports_from, lambda home: airflow_options(home, 1, options.plugins)) as sandbox:
        return measure(sandbox, options, say)


def measure(sandbox: Sandbox, options: MirrorDelayOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers, to which Airflow comes."""
    east, west = sandbox.address("kafka"), sandbox.address("kafka-b")
    mirror_records.create(east, TOPIC, options.partitions)
    load = TopicLoad(east, TOPIC, options.records_per_second, options.together)
    theirs: list[SideRun] = []
    say("starting Airflow")
    with airflow_flows(sandbox, [mirror()], options.window, "mirror_dag") as running:
        ours = OurTurns(sandbox, running, load, west, [NAME], [TOPIC])
        for turn in range(options.turns):
            if options.mirror_maker:
                say(f"MirrorMaker 2, turn {turn + 1}")
                theirs.append(_peer(sandbox, load, turn, options))
                say(theirs[-1].told("MirrorMaker 2"))
            say(f"our mirror, turn {turn + 1}")
            say(ours.take(options.seconds).told("our mirror"))
    settings = asdict(options) | {"plugins": options.plugins is not None, "mirror_maker": "its defaults"}
    return ours.result("mirror_delay", "mm2", theirs, settings, BARS)


def mirror() -> Flow:
    """Return the mirror that is measured."""
    return Mirror(name=NAME, source_conn_id="kafka_east", target_conn_id="kafka_west", topics=TOPIC, mode="live")


def _peer(sandbox: Sandbox, load: Load, turn: int, options: MirrorDelayOptions) -> SideRun:
    """Let MirrorMaker 2 catch up with the topic, and time a turn."""
    east, west = sandbox.address("kafka"), sandbox.address("kafka-b")
    peer = MirrorMaker(f"delay_{turn + 1}", east, west, TOPIC, exactly_once=False, fast=False)
    ports_from = max(status.port for status in sandbox.status()) + _PORTS_APART
    with peer.running(sandbox.home, ports_from) as process:

        def alive() -> None:
            if process.poll() is not None:
                raise SandboxError(f"MirrorMaker 2 ended with {process.returncode}")

        topics = (peer.target_topic,)
        delays.until_followed(load, west, topics, WITHIN_S, alive)
        found = timed(load, west, topics, options.peer_seconds, {"mm2": CpuMeter([process.pid])})
    mirror_records.delete(west, peer.target_topic)
    return found
