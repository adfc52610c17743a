"""Tasks of mirrors load no kernels: a worker that moves raw records stays small."""

from __future__ import annotations

import subprocess
import sys


def test_raw_records_are_moved_without_kernels() -> None:
    code = (
        "import sys, databus.runtime.direct.raw_records\n"
        "import databus.sinks.kafka_mirror.writer, databus.sources.kafka.raw_split\n"
        "print(sorted({'numba', 'pyspark.sql'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
