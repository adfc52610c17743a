"""Decoding speed: rows per CPU-second of one process, on logs that MySQL and MariaDB wrote, beside the library."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from databus.bench import orders
from databus.bench.decoding import json_documents
from databus.bench.log_files import LogWriter, WrittenLog, log_writer
from databus.bench.options import DecodeOptions
from databus.bench.processes import fresh_servers
from databus.bench.results import Bar, Result
from databus.core.errors.batch import ReconciliationError
from databus.sandbox import Sandbox

BARS = (
    Bar("decode_no_crc_rows_per_cpu_second", at_least=1_500_000),
    Bar("decode_crc_rows_per_cpu_second", at_least=800_000),
    Bar("single_row_events_rows_per_cpu_second", at_least=300_000),
    Bar("ratio_to_python_mysql_replication", at_least=80),
    Bar("boundary_scan_gb_per_cpu_second", at_least=0.7),
    Bar("json_documents_per_cpu_second", at_least=150_000),
    Bar("json_time_ratio_of_doubled_document", at_most=2.2),
    Bar("peak_rss_mb_of_long_transaction", at_most=512),
    Bar("scaling_1_to_2_cores", at_least=1.6),
)
_SCAN_BYTES = 16 << 20


def run(options: DecodeOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers, let them write logs, and measure.

    Raises:
        ReconciliationError: a decoder found other rows than were written.
    """
    servers = ("mysql", "mariadb") if options.mariadb else ("mysql",)
    with fresh_servers(servers, say, ports_from) as sandbox:
        return measure(sandbox, options, say)


def measure(sandbox: Sandbox, options: DecodeOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers."""
    figures: dict[str, float] = {}
    details: dict[str, Any] = {}
    say("JSON documents")
    documents = json_documents.measure(options.documents)
    figures["json_documents_per_cpu_second"] = documents["json_small_documents_per_cpu_second"]
    figures["json_time_ratio_of_doubled_document"] = documents["json_largest_ratio_per_doubling"]
    details["json_documents"] = documents
    with log_writer(sandbox, "mysql") as writer:
        say(f"MySQL writes {2 * options.changes:,} row changes")
        with_crc, without_crc = _mixed_logs(writer, options)
        details["log_bytes_per_row"] = round(with_crc.path.stat().st_size / with_crc.rows, 1)
        say("decoding")
        figures |= _decoding(with_crc, without_crc, options)
        say("scanning")
        figures |= _scanning(with_crc, without_crc, options)
        single = writer.write(lambda c: orders.load_single_rows(c, options.single_rows))
        figures["single_row_events_rows_per_cpu_second"] = _decode_rate(single, options.repeats)
        say(f"python-mysql-replication reads {options.library_rows:,} rows of the same file")
        library = library_rows_per_cpu_second(writer, with_crc, options.library_rows)
        figures["python_mysql_replication_rows_per_cpu_second"] = library
        figures["ratio_to_python_mysql_replication"] = figures["decode_crc_rows_per_cpu_second"] / library
        say(f"a transaction of {options.long_rows:,} rows")
        long = writer.write(lambda c: orders.load_long_transaction(c, options.long_rows))
        peak = peak_rss(long)
        figures["peak_rss_mb_of_long_transaction"] = peak["peak_rss_mb"]
        details["long_transaction"] = {"bytes": long.path.stat().st_size, **peak}
        if options.scaling:
            from databus.bench.decoding import scaling

            say("decoding on Spark with 1 and 2 cores")
            figures |= scaling.measure(writer, with_crc)
    if options.mariadb:
        with log_writer(sandbox, "mariadb") as writer:
            say(f"MariaDB writes {2 * options.changes:,} row changes")
            with_crc, without_crc = _mixed_logs(writer, options)
            figures |= {f"mariadb_{k}": v for k, v in _decoding(with_crc, without_crc, options).items()}
    rounded = {key: float(f"{value:.4g}") for key, value in figures.items()}
    return Result("decode", rounded, BARS, asdict(options), details, "decode_crc_rows_per_cpu_second")


def _mixed_logs(writer: LogWriter, options: DecodeOptions) -> tuple[WrittenLog, WrittenLog]:
    orders.create(writer.connection)
    made = lambda c: sum(orders.load(c, options.changes).values())  # noqa: E731
    return writer.write(made), writer.write(made, checksum=False)


def _decoding(with_crc: WrittenLog, without_crc: WrittenLog, options: DecodeOptions) -> dict[str, float]:
    return {
        "decode_no_crc_rows_per_cpu_second": _decode_rate(without_crc, options.repeats),
        "decode_crc_rows_per_cpu_second": _decode_rate(with_crc, options.repeats),
        "reader_crc_rows_per_cpu_second": _decode_rate(with_crc, options.repeats, change_batches=True),
    }


def _decode_rate(log: WrittenLog, repeats: int, *, change_batches: bool = False) -> float:
    """Return rows per CPU-second from file to record batches; the first run compiles and does not count."""
    decode_file(log, change_batches=change_batches)
    seconds = min(cpu_seconds(lambda: decode_file(log, change_batches=change_batches)) for _ in range(repeats))
    return log.rows / seconds


def decode_file(log: WrittenLog, *, change_batches: bool = False) -> None:
    """Decode a file to record batches of row images, or to those that the library's users get.

    Raises:
        ReconciliationError: other rows than were written.
    """
    from databus.binlog.reader import read_file

    with read_file(log.path) as reader:
        for _ in reader if change_batches else reader.changes():
            pass
        if reader.rows != log.rows:
            raise ReconciliationError(f"{log.path.name}: {reader.rows} rows were decoded, {log.rows} were written")


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time that a piece of work takes in this process, in all its threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def _scanning(with_crc: WrittenLog, without_crc: WrittenLog, options: DecodeOptions) -> dict[str, float]:
    """Return GB per CPU-second of finding transactions and rows events in bytes that are in memory."""
    rates = {}
    for name, log in (("boundary_scan", without_crc), ("boundary_scan_crc", with_crc)):
        data = np.fromfile(log.path, np.uint8)[4:]
        scan_boundaries(data)
        seconds = min(cpu_seconds(lambda d=data: scan_boundaries(d)) for _ in range(options.repeats))  # type: ignore[misc]
        rates[f"{name}_gb_per_cpu_second"] = len(data) / 1e9 / seconds
    return rates


def scan_boundaries(data: np.ndarray) -> int:
    """Walk over the events of a whole log file and return how many transactions it holds."""
    from databus.binlog.log.walker import Walker

    walker, at, found = Walker("bench.000001"), 0, 0
    while at < len(data):
        walk = walker.walk(data[at : at + _SCAN_BYTES])
        at, found = at + walk.consumed_bytes, found + len(walk.transactions)
        if not walk.consumed_bytes:
            raise ReconciliationError(f"the walk stands still at {walker.position}")
    return found


def library_rows_per_cpu_second(writer: LogWriter, log: WrittenLog, rows: int) -> float:
    """Return what python-mysql-replication does with the beginning of the same file, dumped by the server."""
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    settings = {"host": writer.host, "port": writer.port, "user": "root", "password": ""}
    stream = BinLogStreamReader(
        settings,
        server_id=990_001,
        log_file=log.path.name,
        log_pos=4,
        resume_stream=True,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )
    done, began = 0, time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of PyMySQL, for how the library calls it
            for event in stream:
                done += len(event.rows)
                if done >= rows:
                    break
    finally:
        stream.close()
    return done / (time.process_time() - began)


def peak_rss(log: WrittenLog) -> dict[str, float]:
    """Decode a file in a process of its own and return its peak resident set and its CPU time.

    Raises:
        ReconciliationError: other rows than were written, or the process failed.
    """
    argv = [sys.executable, "-m", "databus.bench.decoding.peak_memory", str(log.path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReconciliationError(f"decoding {log.path.name} failed: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    if found["rows"] != log.rows:
        raise ReconciliationError(f"{log.path.name}: {found['rows']} rows were decoded, {log.rows} were written")
    return found
