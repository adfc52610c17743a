"""`python -m databus.bench.peak_memory FILE`: decode a log file and print the peak of this process's memory as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time

from databus.binlog import read_file


def main() -> None:
    """Decode to record batches, which are let go one after the other."""
    with read_file(sys.argv[1]) as log:
        for _ in log.changes():
            pass
        found = {
            "rows": log.rows,
            "transactions": log.transactions,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "cpu_seconds": time.process_time(),
        }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
