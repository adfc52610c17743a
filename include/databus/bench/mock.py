"""Benchmark of the path itself: a mock source into the noop sink on one core, without a server.

`python -m databus.bench.mock --rows 2000000`. A row passes what any row of the direct lane passes: a plan with its
checkpoint, decoding's Arrow batch with key, hash, event id and place, counting, the encoder, the writer's receipt, the
commit, the report in SQLite. What is left out: Spark (tasks run in this process), ZooKeeper (its rules on a store in
memory), the sink's own encoding. Rows are made anew for each read. The shape `key` has the key alone, as dbus's mock,
which hands on one payload again and again, comes nearest; `default` has six columns more.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from databus import Batching, Flow, Mock, Noop, __version__
from databus.bench.results import hardware
from databus.connections.environment import EnvironmentConnections
from databus.core.errors.batch import ReconciliationError
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.records.recorder import SqlRecorder
from databus.runtime.batch import move_batch
from databus.runtime.context import RunIdentity, Services, open_session
from databus.testing.memory_store import MemoryCheckpoints

SHAPES: dict[str, dict[str, Any]] = {"key": {"columns": {}}, "default": {}}
BAR = 2_100_000
"""Records per second that dbus's README states for its mock plugins."""


class InProcess:
    """Spark's place: runs the direct lane's tasks in this process, one after the other."""

    def addTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """Tag nothing: nothing runs elsewhere."""

    def interruptTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """Interrupt nothing: nothing runs elsewhere."""

    def range(self, start: int, stop: int, step: int, _partitions: int) -> InProcess:
        """Take the numbers of the tasks."""
        self.numbers = [pa.RecordBatch.from_pydict({"id": [n]}) for n in range(start, stop, step)]
        return self

    def mapInArrow(self, run: Any, _schema: str) -> InProcess:  # noqa: N802 - Spark's name
        """Run the tasks."""
        self.rows = [row for number in self.numbers for batch in run([number]) for row in batch.to_pylist()]
        return self

    def collect(self) -> list[dict[str, Any]]:
        """Return their answers."""
        return self.rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a line of JSON per shape and round; the best round counts, since others use the machine."""
    parser = argparse.ArgumentParser(prog="python -m databus.bench.mock")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batch-rows", type=int, default=500_000)
    parser.add_argument("--rows-per-transaction", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", choices=tuple(SHAPES), action="append")
    options = parser.parse_args(arguments)
    for shape in options.shape or SHAPES:
        moved(Mock(rows=options.batch_rows // 10, **SHAPES[shape]), options.batch_rows)  # kernels are loaded
        source = Mock(rows=options.rows, rows_per_transaction=options.rows_per_transaction, **SHAPES[shape])
        for _ in range(options.rounds):
            print(json.dumps({"shape": shape, "version": __version__, **moved(source, options.batch_rows)}))  # noqa: T201
    print(json.dumps({"bar_rows_per_cpu_second": BAR, **hardware()}))  # noqa: T201
    return 0


def moved(source: Mock, batch_rows: int) -> dict[str, Any]:
    """Move all rows of a source and return the figures.

    Raises:
        ReconciliationError: reports do not say as many rows as the source has.
    """
    flow = Flow(name="bench", source=source, sinks=(Noop(),), batching=Batching(max_rows=batch_rows, max_bytes=1 << 40))
    store, rows, batches = MemoryCheckpoints(), 0, 0
    stages: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'records.db'}"
        with SqlRecorder.open(url) as recorder:
            settings = Settings("bench", folder, url)
            services = Services(settings, EnvironmentConnections({}), store, None, recorder, SystemClock())
            with open_session(flow, services, InProcess(), RunIdentity("bench", "", __version__)) as session:
                lease = store.claim(flow.name, "bench", 0)
                checkpoint = store.start(flow.name, lease, session.source.start_offset(), "bench")
                began, cpu = time.perf_counter(), time.process_time()
                while (done := move_batch(session, lease, checkpoint, settled=True)) is not None:
                    report, checkpoint = done
                    rows += sum(receipt.written for receipt in report.receipts)
                    batches += 1
                    for stage, took in report.durations_ms.items():
                        stages[stage] = stages.get(stage, 0) + took
                    if not session.source.lag(checkpoint.offset).bytes:
                        break
                seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    if rows != source.rows:
        raise ReconciliationError(f"{source.rows} rows were made, and receipts say {rows}")
    return {
        "rows": rows, "batches": batches, "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2),
        "rows_per_second": round(rows / seconds), "rows_per_cpu_second": round(rows / cpu),
        "stages_ms": {name: round(took) for name, took in stages.items()},
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
