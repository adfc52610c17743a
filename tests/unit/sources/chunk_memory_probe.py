"""Measures in a process of its own what writing, reading and narrowing a chunk file takes.

    python -m tests.unit.sources.chunk_memory_probe FOLDER BATCHES

prints JSON: size of the file, and resident memory at its highest after each step over the level before.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.table_batch import READ, TableBatch
from databus.binlog.segments.chunk_store import ChunkStore
from databus.sources.mysql.snapshot.chunk_file import read_chunk, without_touched, write_chunk
from databus.sources.mysql.snapshot.chunk_form import ChunkHead
from databus.sources.mysql.snapshot.touched_keys import TouchedKeys, _ordered
from databus.testing.table_batches import table

ROWS, BYTES = 8_000, 1_000
SCHEMA = table("shop.blobs", {"id": "int", "b": "blob"})


def batches(count: int) -> Iterator[TableBatch]:
    """Yield batches of 8 MB that no compression makes smaller."""
    random = np.random.default_rng(1)
    for number in range(count):
        ids = np.arange(number * ROWS, (number + 1) * ROWS, dtype=np.int32)
        data = pa.py_buffer(random.bytes(ROWS * BYTES))
        offsets = pa.py_buffer(np.arange(0, ROWS * BYTES + 1, BYTES, dtype=np.int32))
        blobs = pa.Array.from_buffers(pa.binary(), ROWS, [None, offsets, data])
        yield TableBatch(
            SCHEMA, pa.RecordBatch.from_arrays([pa.array(ids), blobs], names=["id", "b"]), np.full(ROWS, READ, np.int8),
            np.full(ROWS, -1, np.int32), np.arange(ROWS, dtype=np.int32), np.zeros(ROWS, np.int32),
            np.arange(ROWS, dtype=np.int64), np.zeros(ROWS, np.int32), (np.ones(2, np.bool_),),
        )  # fmt: skip


def measure(folder: Path, count: int) -> dict[str, Any]:
    """Run the probe; sizes are in MiB."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(folder), str(count)],
        check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _run(folder: Path, count: int) -> None:
    store, head = ChunkStore(str(folder), "blobs", "server"), ChunkHead(SCHEMA, 1, 1, 0)
    touched = TouchedKeys({"shop.blobs": _ordered(("id",), [pa.array([b'{"id":5}'])])})
    write_chunk(store, head, batches(1), touched)  # kernels compiled
    level = _peak_mib()
    file = write_chunk(store, head, batches(count))
    wrote = _peak_mib() - level
    assert sum(len(batch) for batch in read_chunk(store.address(file.name), file.sha256)) == count * ROWS
    read = _peak_mib() - level
    assert without_touched(store, file, touched).superseded == 1
    left = _peak_mib() - level
    size = count * ROWS * BYTES >> 20
    print(json.dumps({"file_mib": size, "write_mib": wrote, "read_mib": read, "left_mib": left}))  # noqa: T201


if __name__ == "__main__":
    _run(Path(sys.argv[1]), int(sys.argv[2]))
