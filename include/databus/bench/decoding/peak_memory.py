"""`python -m databus.bench.decoding.peak_memory FILE`: decode a log file, print the peak memory as JSON."""

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
            "peak_rss_mb": peak_rss_mb(),
            "cpu_seconds": time.process_time(),
        }
    sys.stdout.write(json.dumps(found) + "\n")


def peak_rss_mb(pid: int | str = "self") -> float:
    """Return the highest resident set of a process, in MiB.

    Not getrusage's ru_maxrss: that starts with what the process that started this one had.

    Raises:
        OSError: there is no such process.
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    # A process that is ending has no memory any more.
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


if __name__ == "__main__":
    main()
