"""Delay from a commit at MySQL to a read_committed reader: our live lane and Debezium, in turns on the same servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from databus import Flow, Kafka, MysqlBinlog
from databus.bench import delays, turns
from databus.bench.loads import TABLE, Load, TableLoad, create_tables
from databus.bench.log_files import LogWriter, log_writer
from databus.bench.options import FreshnessOptions
from databus.bench.peer import DEFAULTS, DebeziumPeer
from databus.bench.processes import CpuMeter, fresh_servers, path_servers
from databus.bench.results import Result
from databus.bench.turns import SideRun
from databus.core.errors.config import SandboxError
from databus.sandbox import Sandbox
from databus.sandbox.connections import airflow_connections

BARS = turns.bars("debezium")
NAME = "bench_fresh"
WITHIN_S = 900.0
"""On a machine that is busy with other things a run of Airflow takes minutes to begin."""
SETTLE_S = 3
_END_WITHIN_S = 60.0


def run(options: FreshnessOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers and measure.

    Raises:
        ReconciliationError: our path lost or repeated a row.
        SandboxError: a server, our run or the peer failed.
    """
    with fresh_servers(path_servers(debezium=options.debezium), say, ports_from) as sandbox:
        return measure(sandbox, options, say)


def measure(sandbox: Sandbox, options: FreshnessOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers."""
    ours: list[SideRun] = []
    theirs: list[SideRun] = []
    idle = 0.0
    with log_writer(sandbox, "mysql") as writer:
        create_tables(writer.connection)
        load = TableLoad(writer.connection, (TABLE,), options.rows_per_second, options.rows_per_transaction)
        peer = Peer(sandbox, load) if options.debezium else None
        folder, spark = flow_folder(sandbox.home, writer), sandbox.status_of("spark").pid or 0
        for turn in range(options.turns):
            say(f"our path, turn {turn + 1}")
            with running(sandbox, folder) as process:
                meters = {"spark": CpuMeter([spark]), "run": CpuMeter([process.pid])}
                ours.append(one_turn(sandbox, load, (NAME,), options.seconds, meters))
                say(ours[-1].told("our path"))
                idle = _idle(meters, options.idle_seconds) if turn + 1 == options.turns else idle
            if peer is not None:
                say(f"Debezium, turn {turn + 1}")
                theirs.append(peer.turn(options.seconds))
                say(theirs[-1].told("Debezium"))
    turns.require_once(ours)
    figures = turns.compared("debezium", ours, theirs) | ({"idle_cpu_share": idle} if options.idle_seconds else {})
    settings = asdict(options) | {"spark": "Connect, local[2]", "kafka": "one broker, acks=all", "debezium": DEFAULTS}
    details = {"ours": turns.details(ours), "debezium": turns.details(theirs)}
    return Result("freshness", turns.rounded(figures), BARS, settings, details, "p50_s")


def one_turn(
    sandbox: Sandbox, load: Load, topics: Sequence[str], seconds: float, meters: Mapping[str, CpuMeter]
) -> SideRun:
    """Wait until a side follows what is written, let it settle, and time a turn of so many seconds."""
    bootstrap = sandbox.address("kafka")
    delays.until_followed(load, bootstrap, topics, WITHIN_S, lambda: None)
    return timed(load, bootstrap, topics, seconds, meters)


def timed(load: Load, bootstrap: str, topics: Sequence[str], seconds: float, meters: Mapping[str, CpuMeter]) -> SideRun:
    """Let a side that follows settle, and time a turn."""
    load.write(SETTLE_S)
    before = {name: meter.seconds() for name, meter in meters.items()}
    found = delays.measured(load, bootstrap, topics, seconds)
    return SideRun.of(found, {name: meter.seconds() - before[name] for name, meter in meters.items()})


class Peer:
    """Debezium connector on its defaults, from the first row of its tables on, in turns.

    Args:
        sandbox: with its worker.
        load: what it follows.
        tables: of the load.
    """

    def __init__(self, sandbox: Sandbox, load: Load, tables: Sequence[str] = (TABLE,)) -> None:
        self._sandbox, self._load = sandbox, load
        self._connector = DebeziumPeer(sandbox, "fresh_peer", tables, DEFAULTS)
        self._known = 0

    def turn(self, seconds: float) -> SideRun:
        """Start it, let it catch up, time a turn, and stop it."""
        self._load.write(SETTLE_S)
        self._connector.catch_up(self._load.written, WITHIN_S, known=self._known)
        self._known = self._load.written
        meters = {"debezium": CpuMeter([self._sandbox.status_of("debezium").pid or 0])}
        found = one_turn(self._sandbox, self._load, self._connector.topics, seconds, meters)
        self._connector.stop()
        return found


def flow_folder(home: Path, writer: LogWriter) -> Path:
    """Write our flow, from the log's present end on, as a file that the command line finds."""
    file, position = writer.run("SHOW MASTER STATUS")[0][:2]
    flow = Flow(
        name=NAME,
        source=MysqlBinlog(conn_id="mysql_shop", tables=(TABLE,), start=f"{file}:{position}"),
        sinks=(Kafka(conn_id="kafka_east", topic=NAME, tombstones=False),),
        mode="live",
    )
    return written(flow, home / "flows")


def written(flow: Flow, folder: Path) -> Path:
    """Write a flow as a file that the command line finds; return its folder."""
    folder.mkdir()
    lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({flow.to_json()!r})")
    (folder / f"{flow.name}.py").write_text("\n".join(lines))
    return folder


@contextmanager
def running(sandbox: Sandbox, folder: Path, name: str = NAME) -> Iterator[subprocess.Popen[bytes]]:
    """Run our flow of this name in a process of its own, as Airflow's task would."""
    command, environment = run_command(sandbox, folder, name)
    log = sandbox.home / "run.log"
    with log.open("ab") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield process
        if process.poll() is not None:
            raise SandboxError(f"our run ended with {process.returncode}: {log.read_text()[-1500:]}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_END_WITHIN_S)


def run_command(sandbox: Sandbox, folder: Path, name: str = NAME) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs our flow, and its environment."""
    environment = {
        **os.environ,
        **airflow_connections(sandbox.status()),
        "DATABUS_INSTALLATION": "bench",
        "DATABUS_SEGMENT_STORE": str(sandbox.home / "segments"),
        "DATABUS_RECORDS_URL": f"sqlite:///{sandbox.home / 'records.db'}",
    }
    command = [sys.executable, "-m", "databus.cli.main", "-v", "run", name, "--dags", str(folder)]
    return [*command, "--spark", f"sc://{sandbox.address('spark')}"], environment


def _idle(meters: Mapping[str, CpuMeter], seconds: int) -> float:
    """Return the share of a core that our path takes while nothing is written."""
    if not seconds:
        return 0.0
    time.sleep(2)
    before, began = sum(m.seconds() for m in meters.values()), time.monotonic()
    time.sleep(seconds)
    return (sum(m.seconds() for m in meters.values()) - before) / (time.monotonic() - began)
