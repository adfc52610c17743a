"""`databus validate` timed: a table of many rows, one of which is altered in its topic, at rest and under writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from databus import Batching, Flow, Kafka, MysqlBinlog
from databus.bench import orders, turns
from databus.bench.freshness import run_command, running, written
from databus.bench.loads import Load
from databus.bench.log_files import LogWriter, log_writer
from databus.bench.options import ValidateBenchOptions
from databus.bench.our_path import OurPath
from databus.bench.processes import CpuMeter, fresh_servers, path_servers
from databus.bench.results import Bar, Result
from databus.bench.snapshots.tables import ORDERS, fill
from databus.bench.snapshots.throughput import peaks
from databus.core.errors.batch import ReconciliationError
from databus.core.errors.config import SandboxError
from databus.sandbox import Sandbox

BARS = (
    Bar("seconds_per_10_million_rows", at_most=600),
    Bar("cpu_us_per_row", at_most=12),
    Bar("peak_rss_mb", at_most=1024),
    Bar("false_alarms", at_most=0),
)
NAME = "bench_validate"
_EQUAL, _DIFFERS = 0, 8
_SLICE_S = 1.0
_HOT = 1_000
_KEPT = 5_000
"""Numbers after which an inserted row is deleted."""


@dataclass(frozen=True)
class ValidationRun:
    """Validation by one command.

    Attributes:
        seconds: from the command to its end, with all that a start takes.
        cpu_seconds: of its process.
        peak_rss_mb: highest resident set of it.
        queries: statements that MySQL counted meanwhile, those of writers included.
        rows_read: rows that the command says it read at the source.
        source_seconds: seconds in which it read there.
        servers_cpu_seconds: server → CPU seconds that it cost there, with all that went on meanwhile.
        keys: keys that differ.
        moving: keys that were not judged.
    """

    seconds: float
    cpu_seconds: float
    peak_rss_mb: float
    queries: int
    rows_read: int
    source_seconds: float
    servers_cpu_seconds: dict[str, float]
    keys: tuple[str, ...]
    moving: int

    def told(self, rows: int) -> str:
        """Return a line about it."""
        return (
            f"{rows:,} rows in {self.seconds:.1f} s: {rows / self.seconds:,.0f} rows/s, "
            f"{1e6 * self.cpu_seconds / rows:.1f} µs CPU a row, {self.peak_rss_mb:.0f} MB; at the source "
            f"{self.queries} queries and {self.rows_read:,} rows in {self.source_seconds:.1f} s; "
            f"{len(self.keys)} keys differ"
        )


def run(options: ValidateBenchOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers, move a table, and compare it.

    Raises:
        ReconciliationError: the altered row was not found.
        SandboxError: a server or a command failed.
    """
    with (
        fresh_servers(path_servers(debezium=False), say, ports_from) as sandbox,
        closing(OurPath(sandbox)) as ours,
    ):
        return measure(sandbox, ours, options, say)


def measure(sandbox: Sandbox, ours: OurPath, options: ValidateBenchOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers."""
    flow = Flow(
        name=NAME,
        source=MysqlBinlog(conn_id="mysql_shop", tables=(ORDERS,), snapshot="initial"),
        sinks=(Kafka(conn_id="kafka_east", topic=NAME, topic_config={"cleanup.policy": "compact"}),),
        batching=Batching(max_rows=options.batch_rows),
    )
    with log_writer(sandbox, "mysql") as writer:
        say(f"MySQL gets a table of {options.rows:,} rows, which a flow moves")
        fill(writer, options.rows, 1_000)
        ours.timed(flow)
        bench = _ValidateBench(sandbox, written(flow, sandbox.home / "validated"), writer, options)
        bench.command()  # compiles, and warms what is cached
        middle = options.rows // 2
        bench.alter(middle)
        at_rest = bench.command()
        say(at_rest.told(options.rows))
        bench.require(at_rest, middle)
        bench.change(middle)
        busy = bench.under_writes(say) if options.minutes else []
    figures = _figures(options.rows, at_rest, busy)
    details = {"at_rest": asdict(at_rest), "under_writes": [asdict(each) for each in busy]}
    return Result("validate", turns.rounded(figures), BARS, asdict(options), details, BARS[0].key)


def _figures(rows: int, at_rest: ValidationRun, busy: list[ValidationRun]) -> dict[str, float]:
    figures = {
        "seconds_per_10_million_rows": 1e7 * at_rest.seconds / rows,
        "rows_per_second": rows / at_rest.seconds,
        "cpu_us_per_row": 1e6 * at_rest.cpu_seconds / rows,
        "peak_rss_mb": max(each.peak_rss_mb for each in (at_rest, *busy)),
        "source_queries": at_rest.queries,
        "source_rows_read_per_row": at_rest.rows_read / rows,
        "mysql_cpu_us_per_row": 1e6 * at_rest.servers_cpu_seconds["mysql"] / rows,
        "kafka_cpu_us_per_row": 1e6 * at_rest.servers_cpu_seconds["kafka"] / rows,
    }
    if busy:
        clean = busy[:-1]
        figures |= {
            "validations_under_writes": len(clean),
            "false_alarms": sum(len(each.keys) for each in clean),
            "most_moving_under_writes": max(each.moving for each in busy),
            "slowest_under_writes_s": max(each.seconds for each in busy),
        }
    return figures


@dataclass(frozen=True)
class _ValidateBench:
    sandbox: Sandbox
    folder: Path
    writer: LogWriter
    options: ValidateBenchOptions

    def command(self) -> ValidationRun:
        """Run `databus validate` in a process of its own.

        Raises:
            SandboxError: it ended otherwise than with a result.
        """
        _, environment = run_command(self.sandbox, self.folder, NAME)
        asked = [sys.executable, "-m", "databus.cli.main", "validate", NAME, "--dags", str(self.folder)]
        meters = {name: CpuMeter([self.sandbox.status_of(name).pid or 0]) for name in ("mysql", "kafka")}
        queries, began = self._queries(), time.perf_counter()
        output, log = self.sandbox.home / "validate.json", self.sandbox.home / "validate.log"
        with output.open("wb") as out, log.open("wb") as err:
            process = subprocess.Popen([*asked, "--wait", "300", "-o", "json"], env=environment, stdout=out, stderr=err)
            watched = [psutil.Process(process.pid)]
            with peaks(lambda: watched) as peak:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        if process.returncode not in {_EQUAL, _DIFFERS}:
            raise SandboxError(f"`databus validate` ended with {process.returncode}: {log.read_text()[-1500:]}")
        told = json.loads(output.read_text())
        (sink,) = told["sinks"]
        (table,) = sink["tables"].values()
        if sink["not_looked_at"] or (process.returncode == _EQUAL) != (not sink["differences"]):
            raise SandboxError(f"`databus validate` ended with {process.returncode}: {output.read_text()[-1500:]}")
        return ValidationRun(
            seconds,
            usage.ru_utime + usage.ru_stime,
            max(peak.values(), default=0.0),
            self._queries() - queries,
            told["rows_read"],
            told["seconds_read"],
            {name: meter.seconds() for name, meter in meters.items()},
            tuple(each["key"] for each in sink["differences"]),
            table["moving"],
        )

    def alter(self, number: int) -> None:
        """Write a row's record otherwise than it is, behind the flow's back."""
        from confluent_kafka import Producer

        servers = self.sandbox.address("kafka")
        producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
        value = json.dumps({"before": None, "after": {"id": number, "customer_id": 0}, "op": "u"})
        producer.produce(NAME, key=f'{{"id":{number}}}', value=value)
        if producer.flush(30):
            raise SandboxError(f"the record of id {number} was not acknowledged")

    def change(self, number: int) -> None:
        """Change a row at the source, so that its record is written anew."""
        self.writer.run(f"UPDATE {ORDERS} SET amount = amount + 1 WHERE id = {number}")  # noqa: S608 - a number

    def require(self, found: ValidationRun, number: int) -> None:
        """Judge a validation behind `alter`.

        Raises:
            ReconciliationError: it did not find this row, or found others.
        """
        if found.keys != (f'{{"id":{number}}}',):
            raise ReconciliationError(f"the row of id {number} was altered; found were {found.keys[:20]}")

    def under_writes(self, say: Callable[[str], None]) -> list[ValidationRun]:
        """Validate again and again while others write; the last time with a row altered."""
        found: list[ValidationRun] = []
        altered = self.options.rows // 3
        with running(self.sandbox, self.folder, NAME), self._written():
            until = time.monotonic() + 60 * self.options.minutes
            while not found or time.monotonic() < until:
                found.append(self.command())
                say(f"under writes: {found[-1].told(self.options.rows)}, {found[-1].moving} moving")
            self.alter(altered)
            found.append(self.command())
        self.require(found[-1], altered)
        return found

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Write at the rate while the block runs.

        Raises:
            SandboxError: a write failed.
        """
        stop, failed = threading.Event(), list[BaseException]()
        with log_writer(self.sandbox, "mysql") as other:
            load = ChurnedOrders(other.connection, self.options.rows, self.options.writes_per_second, 10)

            def write() -> None:
                try:
                    while not stop.is_set():
                        load.write(_SLICE_S)
                except Exception as error:  # noqa: BLE001 - told by the thread that waits
                    failed.append(error)

            thread = threading.Thread(target=write, name="bench-writes", daemon=True)
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()
        if failed:
            raise SandboxError(f"writing failed: {failed[0]}")

    def _queries(self) -> int:
        return int(self.writer.run("SHOW GLOBAL STATUS LIKE 'Questions'")[0][1])


class ChurnedOrders(Load):
    """Writes on the orders: a third inserts, a third deletes of what was inserted, a third updates, half of a few rows.

    The row in the middle third of the table that the bench alters is left alone.

    Args:
        connection: in autocommit.
        rows: rows of the orders, with ids from 1 on.
        writes_per_s: rate.
        together: writes of a transaction.
    """

    def __init__(self, connection: Any, rows: int, writes_per_s: int, together: int) -> None:
        super().__init__(writes_per_s, together)
        self._connection, self._rows = connection, rows
        self._ids = np.random.default_rng(11)
        self._gone = rows

    def send(self, first: int, count: int, sent_us: int) -> None:  # noqa: ARG002 - of every load
        """Insert, delete, update and commit."""
        third = max(1, count // 3)
        cold = self._ids.integers(self._rows // 3 + 1, self._rows, third, endpoint=True)
        hot = self._ids.integers(1, min(_HOT, self._rows // 3 - 1), max(1, third // 2), endpoint=True)
        ids = ",".join(map(str, (*cold[: third - len(hot)], *hot)))
        self._connection.begin()
        orders.insert(self._connection, self._rows + first, third)
        with self._connection.cursor() as cursor:
            cursor.execute(f"UPDATE {ORDERS} SET amount = 1 + amount %% 9 WHERE id IN ({ids})")  # noqa: S608 - numbers
            upto = self._rows + first - _KEPT
            if upto > self._gone:
                cursor.execute(f"DELETE FROM {ORDERS} WHERE id > {self._gone} AND id <= {upto}")  # noqa: S608 - numbers
                self._gone = upto
        self._connection.commit()

    def settle(self) -> None:
        """Wait for nothing: each transaction was committed."""
