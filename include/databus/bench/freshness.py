"""Delay from a commit at MySQL to a read_committed reader: our live lane and Debezium, in turns on the same servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from databus import Flow, Kafka, MysqlBinlog
from databus.bench import delays
from databus.bench.delays import Delays
from databus.bench.log_files import LogWriter, log_writer
from databus.bench.options import FreshnessOptions
from databus.bench.peer import DEFAULTS, DebeziumPeer
from databus.bench.processes import CpuMeter
from databus.bench.results import Bar, Result
from databus.bench.servers import fresh_servers, path_servers
from databus.core.errors import ReconciliationError, SandboxError
from databus.sandbox import Sandbox
from databus.sandbox.connections import airflow_connections

BARS = (Bar("p50_s", at_most=0.15), Bar("p99_s", at_most=1.0), Bar("p50_to_debezium", at_most=1.0))
_NAME = "bench_fresh"
_WITHIN_S = 300.0
_SETTLE_S = 3
_END_WITHIN_S = 60.0


@dataclass(frozen=True)
class Turn:
    """One turn of a side.

    Attributes:
        delays_s: ascending.
        rows: rows committed.
        rows_per_second: rate that the writer reached.
        lost: rows that never arrived.
        repeated: arrivals beyond the first of a row.
        cpu_seconds: of the side's processes during the turn.
    """

    delays_s: Sequence[float]
    rows: int
    rows_per_second: float
    lost: int
    repeated: int
    cpu_seconds: float


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
    ours: list[Turn] = []
    theirs: list[Turn] = []
    idle = 0.0
    with log_writer(sandbox, "mysql") as writer:
        delays.create(writer.connection)
        rates = _Rates(sandbox, writer, options)
        peer = DebeziumPeer(sandbox, "fresh_peer", delays.TABLE, DEFAULTS) if options.debezium else None
        folder = flow_folder(sandbox.home, writer)
        for turn in range(options.turns):
            say(f"our path, turn {turn + 1}")
            with running(sandbox, folder) as process:
                meter = CpuMeter([process.pid, rates.pid("spark")])
                ours.append(rates.turn(_NAME, meter))
                say(_told("our path", ours[-1]))
                idle = _idle(meter, options.idle_seconds) if turn + 1 == options.turns else idle
            if peer is not None:
                say(f"Debezium, turn {turn + 1}")
                rates.written += delays.write(writer.connection, *rates.size(_SETTLE_S))[1]
                peer.catch_up(rates.written, _WITHIN_S, known=0 if turn == 0 else rates.written)
                theirs.append(rates.turn(peer.topic, CpuMeter([rates.pid("debezium")])))
                say(_told("Debezium", theirs[-1]))
                peer.stop()
    return _result(options, ours, theirs, idle)


class _Rates:
    """Writes at the options' rate, and counts all that was written."""

    def __init__(self, sandbox: Sandbox, writer: LogWriter, options: FreshnessOptions) -> None:
        self._sandbox, self._writer, self._options = sandbox, writer, options
        self._pids = {server.name: server.pid or 0 for server in sandbox.status()}
        self.written = 0

    def pid(self, server: str) -> int:
        return self._pids[server]

    def size(self, seconds: int) -> tuple[int, int, int]:
        rate = self._options.rows_per_second
        return rate, rate * seconds, self._options.rows_per_transaction

    def turn(self, topic: str, meter: CpuMeter) -> Turn:
        """Wait until a side follows, let it settle, and time a turn."""
        bootstrap = self._sandbox.address("kafka")
        self.written += until_it_follows(self._writer, bootstrap, topic, self.size(1))
        self.written += delays.write(self._writer.connection, *self.size(_SETTLE_S))[1]
        before = meter.seconds()
        found: Delays = delays.measured(self._writer.connection, bootstrap, topic, self.size(self._options.seconds))
        self.written += found.rows
        cpu = meter.seconds() - before
        return Turn(found.delays_s, found.rows, found.rows / found.seconds, found.lost, found.repeated, cpu)


def until_it_follows(writer: LogWriter, bootstrap: str, topic: str, size: tuple[int, int, int]) -> int:
    """Write a little again and again until the topic's end moves with it; return the rows written.

    Raises:
        SandboxError: it does not follow.
    """
    deadline, written = time.monotonic() + _WITHIN_S, 0
    while time.monotonic() < deadline:
        before = delays.end_of(bootstrap, topic)
        written += delays.write(writer.connection, *size)[1]
        time.sleep(1)
        if delays.end_of(bootstrap, topic) > before > 0:
            return written
    raise SandboxError(f"the topic {topic} does not follow within {_WITHIN_S:.0f} s")


def flow_folder(home: Path, writer: LogWriter) -> Path:
    """Write our flow, from the log's present end on, as a file that the command line finds."""
    file, position = writer.run("SHOW MASTER STATUS")[0][:2]
    flow = Flow(
        name=_NAME,
        source=MysqlBinlog(conn_id="mysql_shop", tables=(delays.TABLE,), start=f"{file}:{position}"),
        sinks=(Kafka(conn_id="kafka_east", topic=_NAME, tombstones=False),),
        mode="live",
    )
    folder = home / "flows"
    folder.mkdir()
    lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({flow.to_json()!r})")
    (folder / "fresh.py").write_text("\n".join(lines))
    return folder


@contextmanager
def running(sandbox: Sandbox, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run our flow in a process of its own, as Airflow's task would."""
    command, environment = run_command(sandbox, folder)
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


def run_command(sandbox: Sandbox, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs our flow, and its environment."""
    environment = {
        **os.environ,
        **airflow_connections(sandbox.status()),
        "DATABUS_INSTALLATION": "bench",
        "DATABUS_SEGMENT_STORE": str(sandbox.home / "segments"),
        "DATABUS_RECORDS_URL": f"sqlite:///{sandbox.home / 'records.db'}",
    }
    command = [sys.executable, "-m", "databus.cli.main", "-v", "run", _NAME, "--dags", str(folder)]
    return [*command, "--spark", f"sc://{sandbox.address('spark')}"], environment


def _idle(meter: CpuMeter, seconds: int) -> float:
    """Return the share of a core that our path takes while nothing is written."""
    if not seconds:
        return 0.0
    time.sleep(2)
    before, began = meter.seconds(), time.monotonic()
    time.sleep(seconds)
    return (meter.seconds() - before) / (time.monotonic() - began)


def _result(options: FreshnessOptions, ours: Sequence[Turn], theirs: Sequence[Turn], idle: float) -> Result:
    for turn in ours:
        if turn.lost or turn.repeated:
            raise ReconciliationError(f"of {turn.rows} rows {turn.lost} were lost and {turn.repeated} came twice")
    figures = dict(_figures("", ours))
    if options.idle_seconds:
        figures["idle_cpu_share"] = idle
    if theirs:
        figures |= _figures("debezium_", theirs)
        figures |= {f"{name}_to_debezium": figures[f"{name}_s"] / figures[f"debezium_{name}_s"] for name in _SHARES}
    details: dict[str, Any] = {
        side: [{k: v for k, v in asdict(turn).items() if k != "delays_s"} for turn in turns]
        for side, turns in (("ours", ours), ("debezium", theirs))
    }
    settings = asdict(options) | {"spark": "Connect, local[2]", "kafka": "one broker, acks=all", "debezium": DEFAULTS}
    rounded = {key: float(f"{value:.4g}") for key, value in figures.items()}
    return Result("freshness", rounded, BARS, settings, details, "p50_s")


def _told(who: str, turn: Turn) -> str:
    found = " ".join(
        f"{name} {turn.delays_s[int((len(turn.delays_s) - 1) * share)]:.3f}" for name, share in _SHARES.items()
    )
    return f"{who}: delay in seconds {found}; {turn.rows_per_second:,.0f} rows/s were written"


_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def _figures(prefix: str, turns: Sequence[Turn]) -> dict[str, float]:
    together = sorted(delay for turn in turns for delay in turn.delays_s)
    found = {f"{prefix}{name}_s": together[int((len(together) - 1) * share)] for name, share in _SHARES.items()}
    found[f"{prefix}max_s"] = together[-1]
    found[f"{prefix}cpu_seconds_per_1000_rows"] = (
        sum(turn.cpu_seconds for turn in turns) / sum(turn.rows for turn in turns) * 1000
    )
    return found
