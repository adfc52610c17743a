"""`python -m databus.bench.peak_memory FILE`: decode a log file and print the peak of this process's memory as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from databus.binlog import read_file


def main() -> None:
    """Decode to record batches, which are let go one after the other."""
    with read_file(sys.argv[1]) as log:
        for _ in log.changes():
            pass
        found = {
            "rows": log.rows,
            "transactions": log.transactions,
            "peak_rss_mb": _peak_kib() / 1024,
            "cpu_seconds": time.process_time(),
        }
    sys.stdout.write(json.dumps(found) + "\n")


def _peak_kib() -> int:
    """Return the highest resident set of this process.

    Not getrusage's ru_maxrss: that starts with what the process that started this one had.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main()
