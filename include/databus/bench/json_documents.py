"""JSON columns of MySQL: small documents per CPU-second, and how time grows with the size of a document."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from databus.bench.log_files import LogWriter, WrittenLog
from databus.core.errors import ReconciliationError

_LARGE_BYTES = 1 << 20
_COPIES = 8


def measure(writer: LogWriter, documents: int, repeats: int) -> dict[str, float]:
    """Let MySQL write documents and decode the rows that hold them.

    Args:
        writer: a MySQL server; MariaDB's JSON is text.
        documents: how many small ones.
        repeats: how often each figure is taken; the best counts.
    """
    writer.run("CREATE TABLE bench.documents (id INT PRIMARY KEY, doc JSON)")
    small = writer.write(lambda _: _small(writer, documents))
    one = writer.write(lambda _: _large(writer, _LARGE_BYTES, 1_000_000_000))
    two = writer.write(lambda _: _large(writer, 2 * _LARGE_BYTES, 1_100_000_000))
    return {
        "json_documents_per_cpu_second": documents / _seconds(small, repeats),
        "json_time_ratio_of_doubled_document": _seconds(two, repeats) / _seconds(one, repeats),
    }


def _small(writer: LogWriter, documents: int) -> int:
    done = 0
    for first in range(0, documents, 5_000):
        writer.run(
            "INSERT INTO bench.documents SELECT %s + n, JSON_OBJECT('k', n, 'src', IF(n %% 2, 'web', 'app'), 'tags',"
            " JSON_ARRAY('a', 'b', n %% 9), 'at', '2024-06-01', 'ratio', n / 7e0) FROM bench.numbers WHERE n < %s",
            first,
            min(5_000, documents - first),
        )
        done += min(5_000, documents - first)
    return done


def _large(writer: LogWriter, size_bytes: int, first: int) -> int:
    item = {"name": "a name of some length", "n": 123456, "ok": True, "list": [1, 2.5, None, "x"]}
    document = json.dumps([{**item, "id": n} for n in range(size_bytes // len(json.dumps({**item, "id": 10_000})))])
    for copy in range(_COPIES):
        writer.run("INSERT INTO bench.documents VALUES (%s, %s)", first + copy, document)
    return _COPIES


def _seconds(log: WrittenLog, repeats: int) -> float:
    return min(_timed(lambda: _decode(log)) for _ in range(repeats + 1))


def _timed(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _decode(log: WrittenLog) -> None:
    from databus.binlog.reader import read_file

    with read_file(log.path) as reader:
        for _ in reader.changes():
            pass
        if reader.rows != log.rows:
            raise ReconciliationError(f"{log.path.name}: {reader.rows} rows were decoded, {log.rows} were written")
