"""Benchmark of decoding over Spark's cores: the same segments read by `local[1]` and `local[2]` into the noop sink."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from databus.bench.log_files import LogWriter, WrittenLog
from databus.binlog.log.capture import TableCapture
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.range_staging import RangeStager
from databus.binlog.server.dump import Dump, DumpRequest
from databus.binlog.server.log_walk import LogWalk
from databus.core.connections import Connection
from databus.core.errors.batch import ReconciliationError
from databus.core.positions.offsets import BinlogOffset
from databus.runtime.read import pack, unpack
from databus.sources.mysql.segments.address import SegmentAddress
from databus.sources.mysql.segments.split import SegmentSplit

_SEGMENT_BYTES = 4 << 20
_REPEATS = 4
_CORES = (1, 2)


def measure(writer: LogWriter, log: WrittenLog) -> dict[str, float]:
    """Stage a log as segments, and read them in a Spark of its own per number of cores; wall time, best of some runs.

    Raises:
        ReconciliationError: Spark failed, or read other rows than were written.
    """
    with tempfile.TemporaryDirectory(prefix="databus-bench-") as folder:
        packed = Path(folder) / "splits"
        packed.write_text(pack(_staged(writer, log, Path(folder))), encoding="ascii")
        seconds = {}
        for cores in _CORES:
            argv = [sys.executable, "-m", "databus.bench.decoding.scaling", str(packed), str(cores)]
            # Spark starts its workers with this interpreter, else with the system's.
            environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
            done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ReconciliationError(f"Spark with {cores} cores failed: {done.stderr[-2000:]}")
            found = json.loads(done.stdout.splitlines()[-1])
            if found["rows"] != log.rows:
                raise ReconciliationError(f"Spark read {found['rows']} rows, {log.rows} were written")
            seconds[cores] = found["seconds"]
    one, two = (seconds[cores] for cores in _CORES)
    return {"spark_1_core_rows_per_second": log.rows / one, "spark_2_cores_rows_per_second": log.rows / two} | {
        "scaling_1_to_2_cores": one / two
    }


def _staged(writer: LogWriter, log: WrittenLog, folder: Path) -> list[SegmentSplit]:
    connection = Connection(conn_id="bench", conn_type="mysql", host=writer.host, port=writer.port, login="root")
    capture = TableCapture(("bench.orders",))
    start = BinlogOffset(log.path.name, 4, "", "mysql", "bench")
    walk = LogWalk(capture, str(start))
    # The file ends with the ROTATE event to the next one: the last transaction ends before it.
    stager = RangeStager(folder, walk, capture, start, RangeBounds(max_rows=log.rows, segment_bytes=_SEGMENT_BYTES))
    with Dump(connection, DumpRequest(start.file, start.pos, "mysql")) as dump:
        for batch in dump.batches():
            if any(stager.take(piece) for piece in walk.walk(batch)):
                break
    index = stager.finish(more=True)
    if index is None:
        raise ReconciliationError(f"{log.path.name} holds no transaction")
    addresses = [
        SegmentAddress(str(folder / s.name), s.file, s.start_pos, sum(s.rows.values())) for s in index.segments
    ]
    return [SegmentSplit((address,), capture, index.tables, "bench") for address in addresses]


def _read(packed: Path, cores: int) -> dict[str, Any]:
    """Read the splits into noop, and return the rows and the best wall time."""
    from databus.runtime.spark.data_source import RowsDataSource
    from databus.runtime.spark.session import classic_session

    spark = classic_session(f"local[{cores}]")
    spark.dataSource.register(RowsDataSource)
    text = packed.read_text(encoding="ascii")
    frame = spark.read.format(RowsDataSource.name()).option("splits", text).load()
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        times.append(time.perf_counter() - began)
    rows = sum(address.rows for split in unpack(text) for address in split.segments)
    counted = frame.count()
    spark.stop()
    return {"seconds": min(times), "rows": counted if counted == rows else -1}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_read(Path(sys.argv[1]), int(sys.argv[2]))) + "\n")
